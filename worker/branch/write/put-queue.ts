/** Most items in one batch: what a transaction of a few milliseconds takes. */
const BATCH = 100;

interface Waiting<Item, Answer> {
  readonly item: Item;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

interface PutQueueOptions<Item, Answer> {
  /** Answers in the order of the items. If it throws, none of them was done. */
  readonly run: (items: readonly Item[]) => Answer[];
  /** Resolves when what was run is durable. */
  readonly durable: () => Promise<unknown>;
  /** Lets calls that have arrived in. */
  readonly turn: () => Promise<unknown>;
}

/**
 * Group commit: a call that comes alone runs at once; those that come while a batch is being made durable, and in the
 * turn after it, are the next batch. A batch that throws is undone as a whole; then each of its items runs alone, so
 * that only the one at fault fails.
 */
export class PutQueue<Item, Answer> {
  readonly #options: PutQueueOptions<Item, Answer>;
  #waiting: Waiting<Item, Answer>[] = [];
  #running = false;

  constructor(options: PutQueueOptions<Item, Answer>) {
    this.#options = options;
  }

  add(item: Item): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject });
      if (!this.#running) void this.#drain();
    });
  }

  async #drain(): Promise<void> {
    this.#running = true;
    const { durable, turn } = this.#options;
    try {
      while (this.#waiting.length > 0) {
        const batch = this.#waiting.splice(0, BATCH);
        this.#runBatch(batch);
        await durable();
        // Callers that come together will come together again: a turn lets them in. A lone caller need not wait for it.
        if (batch.length > 1 || this.#waiting.length > 0) await turn();
      }
    } finally {
      this.#running = false;
    }
  }

  #runBatch(batch: readonly Waiting<Item, Answer>[]): void {
    try {
      const answers = this.#options.run(batch.map(({ item }) => item));
      for (const [index, { resolve }] of batch.entries()) resolve(answers[index] as Answer);
    } catch (error) {
      if (batch.length === 1) batch[0]?.reject(error);
      else for (const one of batch) this.#runBatch([one]);
    }
  }
}
