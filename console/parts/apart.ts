/*
 * Work on what somebody stored may take for ever, or all of the memory. It is done apart from the page, in a worker, which ends
 * after some seconds at the latest. The worker is the file of the module itself, so that it has the name and the policy of any
 * other file of the console: the module is loaded by a dynamic import, and calls `serveApart` at its end.
 */

const MOST_MS = 5000;

type Answer<Out> = { readonly out: Out } | { readonly fault: string };

/** Does the work of a module, given by its own `import.meta.url`. Rejects if the work throws, or takes too long. */
export function doApart<In, Out>(
  module: string,
  work: In,
  { signal }: { signal: AbortSignal },
): Promise<Out> {
  const worker = new Worker(module, { type: "module" });
  const done = new Promise<Out>((resolve, reject) => {
    const fail = (why: string) => reject(new Error(why));
    worker.addEventListener("message", ({ data }: MessageEvent<Answer<Out>>) =>
      "out" in data ? resolve(data.out) : fail(data.fault),
    );
    worker.addEventListener("error", () => fail("it broke off"));
    const timer = AbortSignal.timeout(MOST_MS);
    timer.addEventListener("abort", () => fail("it took too long"));
    signal.addEventListener("abort", () => fail("nobody waits for it"));
  });
  worker.postMessage(work);
  return done.finally(() => worker.terminate());
}

/** In a worker: does the one piece of work that it was made for. In a page: nothing. */
export function serveApart<In, Out>(work: (given: In) => Out | Promise<Out>): void {
  if ("document" in globalThis) return;
  const answer = (given: Answer<Out>): void => postMessage(given);
  addEventListener("message", async ({ data }: MessageEvent<In>) => {
    try {
      answer({ out: await work(data) });
    } catch (error) {
      answer({ fault: error instanceof Error ? error.message : String(error) });
    }
  });
}
