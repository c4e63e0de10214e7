/**
 * Answers that take their time. While there is nothing to say, something meaningless goes out now and then: the
 * gateway notices only by writing that the other end of a connection has gone, and proxies cut what is silent.
 */
import { waitUntil } from "cloudflare:workers";

const SPACE_EVERY_MS = 1000;
const SPACE = new Uint8Array([0x20]);
const LOOK_EVERY_MS = 1000;
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

/**
 * Lines as they come. One text is in hand at a time: the next is asked for when the caller has taken it. It is asked about
 * once a second whether the caller may still have them. If not, the answer breaks off: its end would say that this was all.
 */
export function slowLines(
  texts: AsyncGenerator<string, undefined>,
  { mayGoOn, now = Date.now }: { readonly mayGoOn: () => Promise<boolean>; readonly now?: () => number },
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let coming: Promise<IteratorResult<string, undefined>> | undefined;
  let lookedAt = now();
  const leave = () => {
    // A call may be under way, and nobody is left to hear how it ends.
    coming?.catch(() => {});
    void texts.return(undefined).catch(() => {});
  };
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const since = now();
      for (;;) {
        coming ??= texts.next();
        const ready = await within(LOOK_EVERY_MS, coming);
        // A clock that was set back must not put it off.
        if (Math.abs(now() - lookedAt) >= LOOK_EVERY_MS) {
          if (!(await mayGoOn())) {
            leave();
            return controller.error(new Error("the caller may not have the rest"));
          }
          lookedAt = now();
        }
        if (ready === undefined && Math.abs(now() - since) < EMPTY_LINE_EVERY_MS) continue;
        if (ready === undefined) return controller.enqueue(encoder.encode("\n"));
        coming = undefined;
        if (ready.done) return controller.close();
        return controller.enqueue(encoder.encode(ready.value));
      }
    },
    cancel: leave,
  });
}

/** What comes of a promise; undefined if that takes longer. */
function within<T>(waitMs: number, coming: Promise<T>): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve(undefined), waitMs);
    coming.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
