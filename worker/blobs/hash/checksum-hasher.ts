import { createHash } from "node:crypto";
import { crc32 } from "node:zlib";
import { type ChecksumAlgorithm, CRCS } from "../../core/checksums.ts";
import crc32Module from "./wasm/crc32.wasm";
import crc64Module from "./wasm/crc64.wasm";
import xxhash3Module from "./wasm/xxhash3.wasm";
import xxhash64Module from "./wasm/xxhash64.wasm";
import xxhash128Module from "./wasm/xxhash128.wasm";
import { type HashState, WasmEngine } from "./wasm-hash.ts";

/** Computes one additional checksum, bytes coming in pieces. */
export interface ChecksumHasher {
  update(bytes: Uint8Array): void;
  /** The raw value, big-endian, of the algorithm's length. Call it once, at the end; on a CRC, at any time. */
  digest(): Uint8Array;
}

/** Makes the fastest hasher that there is: the platform's own, or WebAssembly if the platform has no fast one. */
export function createChecksum(algorithm: ChecksumAlgorithm): ChecksumHasher {
  return MAKERS[algorithm]();
}

const MAKERS: Readonly<Record<ChecksumAlgorithm, () => ChecksumHasher>> = {
  CRC32: () => new NativeCrc32(),
  CRC32C: () => new WasmChecksum("CRC32C"),
  CRC64NVME: () => new WasmChecksum("CRC64NVME"),
  MD5: () => createHash("md5"),
  SHA1: () => createHash("sha1"),
  SHA256: () => createHash("sha256"),
  SHA512: () => createHash("sha512"),
  XXHASH128: () => new WasmChecksum("XXHASH128"),
  XXHASH3: () => new WasmChecksum("XXHASH3"),
  XXHASH64: () => new WasmChecksum("XXHASH64"),
};

class NativeCrc32 implements ChecksumHasher {
  #value = 0;

  update(bytes: Uint8Array): void {
    this.#value = crc32(bytes, this.#value);
  }

  digest(): Uint8Array {
    const digest = new Uint8Array(4);
    new DataView(digest.buffer).setUint32(0, this.#value);
    return digest;
  }
}

/** The engines of the checksums that the platform lacks or is slower at. The seed of an XXH is 0, as everybody's. */
const ENGINES = {
  CRC32C: () =>
    new WasmEngine(crc32Module, {
      digestBytes: 4,
      argument: Number.parseInt(CRCS.CRC32C.polynomial, 16),
    }),
  CRC64NVME: () =>
    new WasmEngine(crc64Module, { digestBytes: 8, seed: BigInt(`0x${CRCS.CRC64NVME.polynomial}`) }),
  XXHASH128: () => new WasmEngine(xxhash128Module, { digestBytes: 16 }),
  XXHASH3: () => new WasmEngine(xxhash3Module, { digestBytes: 8 }),
  XXHASH64: () => new WasmEngine(xxhash64Module, { digestBytes: 8 }),
} satisfies Partial<Record<ChecksumAlgorithm, () => WasmEngine>>;
type WasmAlgorithm = keyof typeof ENGINES;

const engines = new Map<WasmAlgorithm, WasmEngine>();

class WasmChecksum implements ChecksumHasher {
  readonly #engine: WasmEngine;
  readonly #state: HashState;

  constructor(algorithm: WasmAlgorithm) {
    this.#engine = engines.get(algorithm) ?? ENGINES[algorithm]();
    engines.set(algorithm, this.#engine);
    this.#state = this.#engine.start();
  }

  update(bytes: Uint8Array): void {
    this.#engine.update(this.#state, bytes);
  }

  digest(): Uint8Array {
    return this.#engine.digest(this.#state);
  }
}
