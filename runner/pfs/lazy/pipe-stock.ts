import { execFile } from "node:child_process";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/** Pipes made by one call of mkfifo, which costs a process: twice as many each time, up to what an argument list may hold. */
const FEWEST_AT_ONCE = 64;
const MOST_AT_ONCE = 1000;
/** With fewer than this in stock, more are made. */
const LOW = 32;

/** Named pipes in stock, which Node can't make. The taker moves them to their place. Only the agent's user may write. */
export class PipeStock {
  readonly #dir: string;
  readonly #stock: string[] = [];
  #making: Promise<void> | undefined;
  #made = 0;
  #batch = FEWEST_AT_ONCE;

  /** `dir` is a folder for the stock alone; it need not be there yet. */
  constructor(dir: string) {
    this.#dir = dir;
  }

  /** The path of a pipe that is nobody else's. Fails as mkfifo does. */
  async get(): Promise<string> {
    for (;;) {
      const pipe = this.take();
      if (pipe !== undefined) return pipe;
      await this.#restock();
    }
  }

  /** Like `get`, but at once; undefined if none is in stock. */
  take(): string | undefined {
    const pipe = this.#stock.pop();
    // If it fails, the next `get` that finds nothing in stock tries again, and throws.
    if (pipe !== undefined && this.#stock.length < LOW) this.#restock().catch(() => undefined);
    return pipe;
  }

  /** Calls that come while pipes are made wait for the same ones. */
  #restock(): Promise<void> {
    this.#making ??= this.#make(this.#batch).finally(() => {
      this.#making = undefined;
    });
    return this.#making;
  }

  async #make(count: number): Promise<void> {
    const names = Array.from({ length: count }, (_, index) => String(this.#made + index));
    this.#made += count;
    this.#batch = Math.min(2 * count, MOST_AT_ONCE);
    await mkdir(this.#dir, { recursive: true });
    await run("mkfifo", ["-m", "644", ...names], { cwd: this.#dir });
    this.#stock.push(...names.map((name) => join(this.#dir, name)));
  }
}
