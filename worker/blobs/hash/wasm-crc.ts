import crc32 from "./wasm/crc32.wasm";
import crc64 from "./wasm/crc64.wasm";

/**
 * hash-wasm's CRC modules, driven directly: bytes go through a buffer in the module's memory, its state is a value in
 * that memory. `npm run wasm:generate` takes them out of the package, whose licence lies beside them.
 */
interface CrcExports {
  readonly memory: WebAssembly.Memory;
  /** Address of the buffer. */
  Hash_GetBuffer(): number;
  /** Address of the state: the check so far, little-endian. */
  Hash_GetState(): number;
  /** `crc32` takes the polynomial as an argument, `crc64` from the start of the buffer, little-endian. */
  Hash_Init(polynomial?: number): void;
  /** Takes in that many bytes of the buffer. */
  Hash_Update(length: number): void;
}

/** Size of the buffer of every module. */
const BUFFER_BYTES = 16 * 1024;

/** How far one check came. Only its own engine can go on with it. */
export type CrcState = Uint8Array<ArrayBuffer>;

/**
 * One instance of a module, of two pages of memory. Any number of checks share it, because each brings its state to
 * an update and takes it away again, and an update is never interrupted.
 */
export class CrcEngine {
  readonly #exports: CrcExports;
  readonly #buffer: Uint8Array;
  readonly #state: Uint8Array;
  readonly #initial: CrcState;

  /** `polynomial`: reflected hex of 8 or 16 digits, which says how wide the check is. */
  constructor(polynomial: string) {
    const width = polynomial.length / 2;
    const { exports } = new WebAssembly.Instance(width === 4 ? crc32 : crc64);
    this.#exports = exports as unknown as CrcExports;
    const { buffer } = this.#exports.memory;
    this.#buffer = new Uint8Array(buffer, this.#exports.Hash_GetBuffer(), BUFFER_BYTES);
    this.#state = new Uint8Array(buffer, this.#exports.Hash_GetState(), width);
    if (width === 8)
      new DataView(buffer).setBigUint64(this.#buffer.byteOffset, BigInt(`0x${polynomial}`), true);
    this.#exports.Hash_Init(Number.parseInt(polynomial.slice(0, 8), 16));
    this.#initial = this.#state.slice() as CrcState;
  }

  /** The state of a check over no bytes. */
  start(): CrcState {
    return this.#initial.slice();
  }

  /** Takes more bytes into a check. */
  update(state: CrcState, bytes: Uint8Array): void {
    this.#state.set(state);
    for (let at = 0; at < bytes.length; at += BUFFER_BYTES) {
      const part = bytes.subarray(at, at + BUFFER_BYTES);
      this.#buffer.set(part);
      this.#exports.Hash_Update(part.length);
    }
    state.set(this.#state);
  }
}
