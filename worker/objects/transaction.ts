declare const UNDER_WAY: unique symbol;

/**
 * Stands for the transaction that is under way. A function that takes one writes several rows that belong together, so
 * it can't be called outside of a transaction. Only a ledger hands them out. Not to be kept.
 */
export interface Tx {
  readonly [UNDER_WAY]: true;
}

/** What of the platform's storage runs transactions. */
export interface TransactionStorage {
  transactionSync<T>(work: () => T): T;
  /** Resolves when all that was written is on the disk. */
  sync(): Promise<void>;
}

/** Loops by their names, and when each has something to do: milliseconds since 1970, 0: now. */
export type Woken = ReadonlyMap<string, number>;

/**
 * What a transaction changes of that which memory outside of its object may have. "paths": rows of paths alone, each of which
 * was dropped from there by whoever wrote it. That is said for a whole transaction, by whoever runs it.
 */
export type Changes = "paths" | "anything";

// The type alone says it: nothing is ever read of it.
const TX = {} as Tx;

interface TransactionsOptions {
  readonly storage: TransactionStorage;
  /** Done last in each outermost transaction. */
  readonly atEnd?: (tx: Tx) => void;
  /** Forgets what stores keep in memory of their rows. */
  readonly forget: () => void;
  /** Is told of each outermost transaction when it has ended, done or undone, in the same turn. */
  readonly ended?: (changes: Changes) => void;
}

/**
 * The transactions of one object. What is in memory of the rows is forgotten when one is undone, and the loops that
 * its statements gave something to do are woken when the outermost one is done, in the same turn: so an alarm that is set
 * for them is written together with the rows, or neither is.
 */
export class Transactions {
  readonly #options: TransactionsOptions;
  #woken = new Map<string, number>();
  #wake: (woken: Woken) => void = () => {};
  /** How many are under way, one in the other. */
  #depth = 0;
  #changes: Changes = "paths";
  /** How many outermost ones have ended, and how many of them are on the disk. */
  #ended = 0;
  #onDisk = 0;
  #isSettling = false;

  constructor(options: TransactionsOptions) {
    this.#options = options;
  }

  /** Whom it tells of the loops that have something to do. */
  set listener(wake: (woken: Woken) => void) {
    this.#wake = wake;
  }

  /**
   * All of `work` or nothing, and nothing else runs in between. What `work` throws undoes it and is thrown on. Work that
   * awaits something is undone and refused: others would run in between. One that does not say what it changes may change
   * anything.
   */
  run<T>(work: (tx: Tx) => T, changes: Changes = "anything"): T {
    const { storage, atEnd, forget } = this.#options;
    this.#depth++;
    if (changes === "anything") this.#changes = changes;
    let answer: T;
    try {
      answer = storage.transactionSync(() => {
        const answer = work(TX);
        if (answer instanceof Promise) throw new Error("a transaction can't wait for anything");
        // Not sooner: what one step releases, a later one may keep.
        if (this.#depth === 1) atEnd?.(TX);
        return answer;
      });
    } catch (error) {
      forget();
      if (this.#depth === 1) this.#woken.clear();
      throw error;
    } finally {
      this.#depth--;
      if (this.#depth === 0) this.#tellEnd();
    }
    if (this.#depth === 0) this.#tell();
    return answer;
  }

  /** A loop has something to do at this time, or now. It hears of it when the transaction is done. */
  wake(loop: string, at = 0): void {
    this.#woken.set(loop, Math.min(at, this.#woken.get(loop) ?? at));
    if (this.#depth === 0) this.#tell();
  }

  /** Whether no transaction is under way, and all that ended are on the disk: a crash takes nothing back. */
  get areDurable(): boolean {
    return this.#depth === 0 && this.#onDisk === this.#ended;
  }

  /** Resolves when all that ended by now are on the disk. */
  async durable(): Promise<void> {
    const ended = this.#ended;
    await this.#options.storage.sync();
    this.#onDisk = Math.max(this.#onDisk, ended);
  }

  /** Sees to it that `areDurable` is so soon, unless something is written again. */
  settle(): void {
    if (this.#isSettling) return;
    this.#isSettling = true;
    // All calls of the object hear of a disk that failed.
    const settled = () => {
      this.#isSettling = false;
    };
    this.durable().then(settled, settled);
  }

  #tellEnd(): void {
    const changes = this.#changes;
    this.#changes = "paths";
    this.#ended++;
    this.#options.ended?.(changes);
  }

  #tell(): void {
    if (this.#woken.size === 0) return;
    const woken = this.#woken;
    this.#woken = new Map();
    this.#wake(woken);
  }
}
