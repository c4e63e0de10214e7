import type { Committed, CommitRefused, PutFile } from "../branch/contract.ts";

type Result = Committed | CommitRefused;

/** Most puts in one transaction: what the object does in a few milliseconds. */
const MOST_TOGETHER = 64;

/**
 * Gathers the puts that arrive while the object is busy, so that they share a transaction, a commit each. A put that
 * comes alone waits for one turn of the event loop.
 */
export class PutQueue {
  readonly #write: (requests: readonly PutFile[]) => Result[];
  #waiting: { request: PutFile; resolve: (result: Result) => void; reject: (error: unknown) => void }[] = [];
  #scheduled = false;

  /** `write` answers one result per request, in order. */
  constructor(write: (requests: readonly PutFile[]) => Result[]) {
    this.#write = write;
  }

  add(request: PutFile): Promise<Result> {
    const { promise, resolve, reject } = Promise.withResolvers<Result>();
    this.#waiting.push({ request, resolve, reject });
    this.#schedule();
    return promise;
  }

  #schedule(): void {
    if (this.#scheduled || this.#waiting.length === 0) return;
    this.#scheduled = true;
    setTimeout(() => this.#flush(), 0);
  }

  #flush(): void {
    this.#scheduled = false;
    const together = this.#waiting.splice(0, MOST_TOGETHER);
    this.#schedule();
    try {
      const results = this.#write(together.map(({ request }) => request));
      for (const [i, { resolve }] of together.entries()) resolve(results[i] as Result);
    } catch (error) {
      for (const { reject } of together) reject(error);
    }
  }
}
