/**
 * Answers that take their time. While there is nothing to say, something meaningless goes out now and then: the
 * gateway notices only by writing that the other end of a connection has gone, and proxies cut what is silent.
 */
import { waitUntil } from "cloudflare:workers";

const SPACE_EVERY_MS = 1000;
const SPACE = new Uint8Array([0x20]);
const EMPTY_LINE_EVERY_MS = 5000;
const PAUSED = Symbol("paused");

/**
 * An answer in JSON; JSON allows spaces in front of it. If the caller leaves before it comes, `gone` is called. `gone`
 * may take its time, and nobody hears of its failure.
 */
export function slowJson(answer: Promise<unknown>, gone: () => Promise<void>): Response {
  // If nobody reads to the end, nobody hears of its failure either.
  answer.catch(() => {});
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const pause = scheduler.wait(SPACE_EVERY_MS).then(() => PAUSED);
      const ready = await Promise.race([answer, pause]);
      if (ready === PAUSED) return controller.enqueue(SPACE);
      controller.enqueue(new TextEncoder().encode(JSON.stringify(ready)));
      controller.close();
    },
    cancel: () => waitUntil(gone().catch(() => {})),
  });
  return new Response(body, { headers: { "content-type": "application/json" } });
}

/** Lines as they come. One text is in hand at a time: the next is asked for when the caller has taken it. */
export function slowLines(texts: AsyncGenerator<string, undefined>): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let coming: Promise<IteratorResult<string, undefined>> | undefined;
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      coming ??= texts.next();
      const ready = await within(EMPTY_LINE_EVERY_MS, coming);
      if (ready === undefined) return controller.enqueue(encoder.encode("\n"));
      coming = undefined;
      if (ready.done) return controller.close();
      controller.enqueue(encoder.encode(ready.value));
    },
    cancel() {
      // A call may be under way, and nobody is left to hear how it ends.
      coming?.catch(() => {});
      void texts.return(undefined).catch(() => {});
    },
  });
}

/** What comes of a promise; undefined if that takes longer. */
function within<T>(waitMs: number, coming: Promise<T>): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve(undefined), waitMs);
    coming.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
