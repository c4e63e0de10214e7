import { type Options, Presets, SingleBar } from "cli-progress";
import { showSize } from "../output/output.ts";
import { atEnd } from "../stop-requests.ts";

/** Tells how far something is, in bytes or files. */
export interface Progress {
  /** Starts a new bar over as many as are known of. */
  begin(what: string, total: number): void;
  /** There are more to come than was said. */
  grow(more: number): void;
  advance(done: number): void;
  end(): void;
}

/** What is counted: how it is shown, and below how many it is over before anybody could read a bar. */
const UNITS = {
  bytes: { worthABar: 8 * 1024 * 1024, show: showSize },
  files: { worthABar: 20_000, show: (files: number) => files.toLocaleString("en") },
} as const;
type Unit = keyof typeof UNITS;

/** A bar on stderr if a person looks on, else silence. */
export function progressFor({ json }: { json?: true }, unit: Unit = "bytes"): Progress {
  return json || !process.stderr.isTTY ? silence : new Bar(unit);
}

const silence: Progress = { begin() {}, grow() {}, advance() {}, end() {} };

class Bar implements Progress {
  readonly #unit: Unit;
  #bar: SingleBar | undefined;
  #what = "";
  #total = 0;
  #done = 0;
  #forget = (): void => {};

  constructor(unit: Unit) {
    this.#unit = unit;
  }

  begin(what: string, total: number): void {
    this.end();
    this.#what = what;
    this.#total = 0;
    this.#done = 0;
    this.grow(total);
  }

  grow(more: number): void {
    this.#total += more;
    if (this.#total < UNITS[this.#unit].worthABar) return;
    this.#bar ??= this.#start();
    this.#bar.setTotal(this.#total);
  }

  advance(done: number): void {
    this.#done += done;
    this.#bar?.update(this.#done);
  }

  end(): void {
    this.#bar?.stop();
    this.#bar = undefined;
    this.#forget();
  }

  #start(): SingleBar {
    const options: Options = {
      format: `${this.#what} {bar} {value} of {total}, {eta_formatted} left`,
      formatValue: (value, _options, type) =>
        ["value", "total"].includes(type) ? UNITS[this.#unit].show(value) : String(value),
      stream: process.stderr,
      hideCursor: true,
      clearOnComplete: true,
    };
    const bar = new SingleBar(options, Presets.shades_classic);
    bar.start(this.#total, this.#done);
    // It has hidden the cursor and does not let lines wrap.
    this.#forget = atEnd(() => bar.stop());
    return bar;
  }
}
