/** The last bytes of what it is given, at a cost that does not depend on the size of the pieces. */
export class ByteRing {
  readonly #buffer: Buffer;
  #end = 0;
  #full = false;
  #overflowed = false;

  constructor(capacity: number) {
    this.#buffer = Buffer.allocUnsafeSlow(capacity);
  }

  /** Whether something is gone. */
  get overflowed(): boolean {
    return this.#overflowed;
  }

  add(bytes: Buffer): void {
    const capacity = this.#buffer.length;
    if (this.#length + bytes.length > capacity) this.#overflowed = true;
    const kept = bytes.subarray(-capacity);
    const first = kept.copy(this.#buffer, this.#end);
    if (first < kept.length) kept.copy(this.#buffer, 0, first);
    this.#full ||= this.#end + kept.length >= capacity;
    this.#end = (this.#end + kept.length) % capacity;
  }

  bytes(): Buffer {
    const newest = this.#buffer.subarray(0, this.#end);
    return Buffer.concat(this.#full ? [this.#buffer.subarray(this.#end), newest] : [newest]);
  }

  get #length(): number {
    return this.#full ? this.#buffer.length : this.#end;
  }
}
