import { createHash } from "node:crypto";
import { crc32 } from "node:zlib";
import { type ChecksumAlgorithm, CRCS } from "../../core/checksums.ts";
import crc32Module from "./wasm/crc32.wasm";
import crc64Module from "./wasm/crc64.wasm";
import xxhash3Module from "./wasm/xxhash3.wasm";
import xxhash64Module from "./wasm/xxhash64.wasm";
import xxhash128Module from "./wasm/xxhash128.wasm";

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

/**
 * One of hash-wasm's modules, driven directly: bytes go through a buffer in the module's memory, its state is a value in
 * that memory. `npm run wasm:generate` takes them out of the package, whose licence lies beside them.
 */
interface HashExports {
  readonly memory: WebAssembly.Memory;
  /** Address of the buffer. */
  Hash_GetBuffer(): number;
  /** Address of the state. */
  Hash_GetState(): number;
  /** Address of the state's size. */
  readonly STATE_SIZE: WebAssembly.Global;
  /** Begins a hash. What it begins with is its argument, or lies at the start of the buffer: see EngineOptions. */
  Hash_Init(argument: number): void;
  /** Takes in that many bytes of the buffer. */
  Hash_Update(length: number): void;
  /** Puts the digest, big-endian, at the start of the buffer. */
  Hash_Final(): void;
}

/** Size of the buffer of every module. */
const BUFFER_BYTES = 16 * 1024;

/** How far one hash came. Only its own engine can go on with it. */
type HashState = Uint8Array<ArrayBuffer>;

interface EngineOptions {
  readonly digestBytes: number;
  /** The argument that a hash begins with. */
  readonly argument?: number;
  /** What a hash begins with at the start of the buffer, little-endian. */
  readonly seed?: bigint;
}

/**
 * One instance of a module, of two pages of memory. Any number of hashes share it, because each brings its state to a
 * call and takes it away again, and a call is never interrupted.
 */
class WasmEngine {
  readonly #exports: HashExports;
  readonly #buffer: Uint8Array;
  readonly #state: Uint8Array;
  readonly #initial: HashState;
  readonly #digestBytes: number;

  constructor(module: WebAssembly.Module, { digestBytes, argument = 0, seed = 0n }: EngineOptions) {
    this.#exports = new WebAssembly.Instance(module).exports as unknown as HashExports;
    this.#digestBytes = digestBytes;
    const { buffer } = this.#exports.memory;
    const view = new DataView(buffer);
    this.#buffer = new Uint8Array(buffer, this.#exports.Hash_GetBuffer(), BUFFER_BYTES);
    const stateBytes = view.getUint32(this.#exports.STATE_SIZE.value, true);
    this.#state = new Uint8Array(buffer, this.#exports.Hash_GetState(), stateBytes);
    view.setBigUint64(this.#buffer.byteOffset, seed, true);
    this.#exports.Hash_Init(argument);
    this.#initial = this.#state.slice() as HashState;
  }

  /** The state of a hash over no bytes. */
  start(): HashState {
    return this.#initial.slice();
  }

  /** Takes more bytes into a hash. */
  update(state: HashState, bytes: Uint8Array): void {
    this.#state.set(state);
    for (let at = 0; at < bytes.length; at += BUFFER_BYTES) {
      const part = bytes.subarray(at, at + BUFFER_BYTES);
      this.#buffer.set(part);
      this.#exports.Hash_Update(part.length);
    }
    state.set(this.#state);
  }

  /** The digest of what came so far, big-endian. The hash can go on. */
  digest(state: HashState): Uint8Array<ArrayBuffer> {
    this.#state.set(state);
    this.#exports.Hash_Final();
    return this.#buffer.slice(0, this.#digestBytes) as Uint8Array<ArrayBuffer>;
  }
}
