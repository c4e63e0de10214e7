import { waitUntil } from "cloudflare:workers";

/** How often a caller that waits is sent something. */
const SPACE_EVERY_MS = 1000;
const SPACE = new Uint8Array([0x20]);

/**
 * An answer in JSON that takes its time. While it does, a space goes out now and then, which JSON allows in front: a
 * connection whose other end has gone is noticed only by writing to it. `gone` is then called, and may take its
 * time; whatever it is, it must be as well where it fails.
 */
export function slowJson(answer: Promise<unknown>, gone: () => Promise<void>): Response {
  // Where nobody reads to the end, nobody hears of its failure either.
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

const PAUSED = Symbol("paused");
