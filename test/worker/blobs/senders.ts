import { seededRandom } from "../../support/random.ts";

/** Cuts bytes at random borders, as a network does. */
export function* pieces(bytes: Uint8Array, seed: number): Generator<Uint8Array> {
  const random = seededRandom(seed);
  for (let at = 0; at < bytes.length; ) {
    const length = 1 + Math.floor(random() ** 3 * 300_000);
    yield bytes.slice(at, at + length);
    at += length;
  }
}

/** A body as the platform makes it: read into the reader's own buffer. */
export function nativeBody(bytes: Uint8Array, seed = 1): ReadableStream<Uint8Array> {
  const { readable, writable } = new IdentityTransformStream();
  const send = async () => {
    const writer = writable.getWriter();
    for (const piece of pieces(bytes, seed)) await writer.write(piece);
    await writer.close();
  };
  // A reader that gave up is what the test is about, not a failure of the sender.
  send().catch(() => {});
  return readable;
}

/** A body that a transform in JavaScript made, as bytes or as plain values. */
export function scriptedBody(
  type: "bytes" | "values",
  bytes: Uint8Array,
  seed = 1,
): ReadableStream<Uint8Array> {
  const source = pieces(bytes, seed);
  const pull = (controller: { enqueue(piece: Uint8Array): void; close(): void }) => {
    const { done, value } = source.next();
    if (done) controller.close();
    else controller.enqueue(value);
  };
  return type === "values"
    ? new ReadableStream<Uint8Array>({ pull })
    : new ReadableStream({ type: "bytes", pull } as UnderlyingByteSource);
}

/** A body that brings some bytes and then nothing more, without an end. `fail` breaks it off. */
export function stalledBody(bytes: Uint8Array): { body: ReadableStream<Uint8Array>; fail: () => void } {
  let fail = () => {};
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      if (bytes.length > 0) controller.enqueue(bytes);
      fail = () => controller.error(new Error("the sender is gone"));
    },
  });
  return { body, fail };
}
