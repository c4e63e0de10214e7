import { type Options, Presets, SingleBar } from "cli-progress";
import { showSize } from "../output/output.ts";

/** Tells how far a copy is, in bytes. */
export interface Progress {
  /** Starts a new bar over as many bytes as are known of. */
  begin(what: string, totalBytes: number): void;
  /** There are more to come than was said. */
  grow(bytes: number): void;
  advance(bytes: number): void;
  end(): void;
}

/** Copies below this many bytes are over before anybody could read a bar. */
const WORTH_A_BAR_BYTES = 8 * 1024 * 1024;

/** A bar on stderr if a person looks on, else silence. */
export function progressFor({ json }: { json?: true }): Progress {
  return json || !process.stderr.isTTY ? silence : new Bar();
}

const silence: Progress = { begin() {}, grow() {}, advance() {}, end() {} };

class Bar implements Progress {
  #bar: SingleBar | undefined;
  #what = "";
  #total = 0;
  #done = 0;

  begin(what: string, totalBytes: number): void {
    this.end();
    this.#what = what;
    this.#total = 0;
    this.#done = 0;
    this.grow(totalBytes);
  }

  grow(bytes: number): void {
    this.#total += bytes;
    if (this.#total < WORTH_A_BAR_BYTES) return;
    this.#bar ??= this.#start();
    this.#bar.setTotal(this.#total);
  }

  advance(bytes: number): void {
    this.#done += bytes;
    this.#bar?.update(this.#done);
  }

  end(): void {
    this.#bar?.stop();
    this.#bar = undefined;
  }

  #start(): SingleBar {
    const options: Options = {
      format: `${this.#what} {bar} {value} of {total}, {eta_formatted} left`,
      formatValue: (value, _options, type) =>
        ["value", "total"].includes(type) ? showSize(value) : String(value),
      stream: process.stderr,
      hideCursor: true,
      clearOnComplete: true,
    };
    const bar = new SingleBar(options, Presets.shades_classic);
    bar.start(this.#total, this.#done);
    return bar;
  }
}
