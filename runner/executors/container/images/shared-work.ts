import { unlessAborted } from "../../../lib/concurrency.ts";

interface Task {
  readonly result: Promise<string>;
  readonly abort: AbortController;
  waiting: number;
}

/** Work that several callers want at the same time, and that is done once for all of them. */
export class SharedWork {
  readonly #tasks = new Map<string, Task>();

  /**
   * Returns what `work` returns, and starts it only if nobody waits for the same key already. A caller who aborts leaves;
   * the work is aborted when the last one has left.
   */
  async get(
    key: string,
    { signal, work }: { signal: AbortSignal; work: (signal: AbortSignal) => Promise<string> },
  ): Promise<string> {
    signal.throwIfAborted();
    const task = this.#tasks.get(key) ?? this.#start(key, work);
    task.waiting += 1;
    try {
      return await unlessAborted(task.result, signal);
    } finally {
      task.waiting -= 1;
      if (task.waiting === 0) this.#leave(key, task);
    }
  }

  #start(key: string, work: (signal: AbortSignal) => Promise<string>): Task {
    const abort = new AbortController();
    const task: Task = { result: work(abort.signal), abort, waiting: 0 };
    // When it fails, nobody may be waiting any more.
    task.result.catch(() => undefined);
    this.#tasks.set(key, task);
    return task;
  }

  /** Forgets the work before it is aborted, so that a new call starts its own. */
  #leave(key: string, task: Task): void {
    if (this.#tasks.get(key) === task) this.#tasks.delete(key);
    task.abort.abort();
  }
}
