import { createHash } from "node:crypto";
import { crc32 } from "node:zlib";
import { type ChecksumAlgorithm, CRCS } from "../../core/checksums.ts";
import { CrcEngine } from "./wasm-crc.ts";

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
  CRC32C: () => new WasmCrc("CRC32C"),
  CRC64NVME: () => new WasmCrc("CRC64NVME"),
  SHA1: () => createHash("sha1"),
  SHA256: () => createHash("sha256"),
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

const engines = new Map<string, CrcEngine>();

class WasmCrc implements ChecksumHasher {
  readonly #engine: CrcEngine;
  readonly #state: Uint8Array<ArrayBuffer>;

  constructor(algorithm: "CRC32C" | "CRC64NVME") {
    const { polynomial } = CRCS[algorithm];
    this.#engine = engines.get(polynomial) ?? new CrcEngine(polynomial);
    engines.set(polynomial, this.#engine);
    this.#state = this.#engine.start();
  }

  update(bytes: Uint8Array): void {
    this.#engine.update(this.#state, bytes);
  }

  digest(): Uint8Array {
    return this.#state.toReversed();
  }
}
