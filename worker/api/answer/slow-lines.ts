/** How often a caller that waits is sent something. */
const ALIVE_EVERY_MS = 5000;

/**
 * Lines as they come. While none does, an empty one goes out now and then: proxies cut what is silent, and a connection
 * whose other end has gone is noticed only by writing to it. One text is in hand at a time, and the next is asked for
 * when the caller has taken it.
 */
export function slowLines(texts: AsyncGenerator<string, undefined>): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let coming: Promise<IteratorResult<string, undefined>> | undefined;
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      coming ??= texts.next();
      const ready = await within(ALIVE_EVERY_MS, coming);
      if (ready === undefined) return controller.enqueue(encoder.encode("\n"));
      coming = undefined;
      if (ready.done) return controller.close();
      controller.enqueue(encoder.encode(ready.value));
    },
    cancel() {
      // Nobody hears any more of how a call ends that is under way.
      coming?.catch(() => {});
      void texts.return(undefined).catch(() => {});
    },
  });
}

/** What comes of a promise; undefined where that takes longer. */
function within<T>(waitMs: number, coming: Promise<T>): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve(undefined), waitMs);
    coming.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
