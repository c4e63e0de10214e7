/*
 * What the runtime's streams have and those of Node lack. All of it goes on by promises alone, so that an event of a simulation
 * is over before the next one.
 */

/** Bytes pass through. */
class IdentityTransformStream extends TransformStream<Uint8Array, Uint8Array> {}

/** So many bytes pass through: one that ends with fewer is broken. */
class FixedLengthStream extends TransformStream<Uint8Array, Uint8Array> {
  constructor(length: number) {
    let left = length;
    super({
      transform(bytes, controller) {
        left -= bytes.length;
        if (left < 0) throw new TypeError("more bytes were written than the stream has");
        controller.enqueue(bytes);
      },
      flush() {
        if (left > 0) throw new TypeError("fewer bytes were written than the stream has");
      },
    });
  }
}

/** Waits for so many bytes, unless the stream ends. */
async function readAtLeast(
  this: ReadableStreamBYOBReader,
  min: number,
  { buffer, byteOffset, length }: Uint8Array<ArrayBuffer>,
) {
  let space = buffer;
  let filled = 0;
  while (filled < min) {
    const { done, value } = await this.read(new Uint8Array(space, byteOffset + filled, length - filled));
    if (!value) return { done: true, value: undefined };
    space = value.buffer as ArrayBuffer;
    filled += value.length;
    if (done) break;
  }
  return { done: filled === 0, value: new Uint8Array(space, byteOffset, filled) };
}

/** To be called once, before a simulation begins. */
export function addStreams(): void {
  Object.assign(globalThis, { IdentityTransformStream, FixedLengthStream });
  Object.assign(ReadableStreamBYOBReader.prototype, { readAtLeast });
}
