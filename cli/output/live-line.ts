import { atEnd } from "../stop-requests.ts";
import { printNote, visibleLine } from "./output.ts";

/** Text on a terminal that is written anew as things change, and is gone at the end. Nothing if nobody looks on. */
export interface Live {
  show(lines: readonly string[]): void;
  clear(): void;
}

/** On stderr, so that what the command answers stays clean, and gone at its end. */
export function liveText({ json }: { json?: true }): Live {
  return json || !process.stderr.isTTY ? { show() {}, clear() {} } : new LiveText(process.stderr, "goes");
}

/** On stdout, a terminal, where it is the answer: it stays when the command ends. */
export function liveAnswer(): Live {
  return new LiveText(process.stdout, "stays");
}

class LiveText implements Live {
  readonly #stream: NodeJS.WriteStream;
  #shown: readonly string[] = [];

  constructor(stream: NodeJS.WriteStream, end: "goes" | "stays") {
    this.#stream = stream;
    if (end === "goes") atEnd(() => this.clear());
  }

  show(lines: readonly string[]): void {
    // A terminal that does not know its size says 0.
    const [columns, rows] = [this.#stream.columns || 80, this.#stream.rows || 24];
    // One that wraps, or scrolls away, could not be taken back.
    const shown = lines.slice(0, rows - 1).map((line) => visibleLine(line).slice(0, columns - 1));
    if (shown.join("\n") === this.#shown.join("\n")) return;
    this.clear();
    this.#stream.write(shown.map((line) => `${line}\n`).join(""));
    this.#shown = shown;
  }

  clear(): void {
    if (this.#shown.length > 0) this.#stream.write(`\u001b[${this.#shown.length}A\u001b[J`);
    this.#shown = [];
  }
}

/** Between two lines for who reads stderr later, such as in the log of a build. */
const NOTES_MS = 10_000;

/** Whether stderr is for people and goes where nothing on it can be written anew. */
export function notesAreRead({ json }: { json?: true }): boolean {
  return !json && !process.stderr.isTTY;
}

/** Writes on stderr each 10 s what a command still waits for, until `end`. Without a text it writes nothing. */
export function timedNotes(
  text: () => string | undefined,
  { everyMs = NOTES_MS, note = printNote }: { everyMs?: number; note?: (line: string) => void } = {},
): { end(): void } {
  const timer = setInterval(() => {
    const line = text();
    if (line !== undefined) note(line);
  }, everyMs);
  // What is waited for keeps the process, not this.
  timer.unref();
  return { end: () => clearInterval(timer) };
}
