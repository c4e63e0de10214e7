import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { closeSync, constants, openSync, readSync, writeSync } from "node:fs";
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { Socket } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { errorCode } from "../../../lib/fault.ts";
import { LogFifo } from "../../log-fifo.ts";
import { INIT_SCRIPT } from "./init-script.ts";

const { O_RDONLY, O_RDWR, O_NONBLOCK } = constants;

/** Takes what is thrown away. As a rule a pipe holds no more. */
const JUNK = Buffer.allocUnsafeSlow(64 * 1024);
/** Longest report line; what is longer was not written by the init. */
const MAX_LINE = 4096;

/**
 * The agent's side of the files that it and the init of one container speak through. Opening them never waits:
 * the agent's ends are opened first, without blocking, and a FIFO with an end that is held open lets others in.
 */
export class Control {
  readonly dir: string;
  /** What commands print into. */
  readonly log: LogFifo;
  readonly #orders: number;
  readonly #secret = newKey();
  readonly #report: Socket;
  #onLine: (words: string[]) => void = () => undefined;
  #onEnd: () => void = () => undefined;
  #ended = false;
  #line = "";

  private constructor(dir: string) {
    this.dir = dir;
    this.log = new LogFifo(join(dir, "log"), { mode: "622" });
    // Opened to read as well, so that it needs no reader. The agent is the only writer: the end of `orders` is its death.
    this.#orders = openSync(join(dir, "orders"), O_RDWR | O_NONBLOCK);
    this.#report = reading(join(dir, "report"));
    this.#report.on("data", (bytes: Buffer) => this.#read(bytes.toString("latin1")));
    this.#report.on("close", () => this.#end());
    this.#report.on("error", () => this.#end());
    writeSync(this.#orders, `${this.#secret}\n`);
  }

  /** `dir` is not there yet. */
  static async make(dir: string): Promise<Control> {
    await mkdir(dir);
    // Whatever the agent's umask: the container's user is another one.
    await chmod(dir, 0o755);
    await promisify(execFile)("mkfifo", ["-m", "622", "report"], { cwd: dir });
    await promisify(execFile)("mkfifo", ["-m", "644", "orders"], { cwd: dir });
    await writeReadable(join(dir, "init"), INIT_SCRIPT);
    return new Control(dir);
  }

  /** Whether the init is gone. */
  get ended(): boolean {
    return this.#ended;
  }

  /** Sets who hears of each report, as words, and of the end of the init, from now on. */
  listen({ onLine, onEnd }: { onLine: (words: string[]) => void; onEnd: () => void }): void {
    this.#onLine = onLine;
    this.#onEnd = onEnd;
    if (this.#ended) onEnd();
  }

  /** Orders the init to run the script `order`, and to report under this key. Returns false if it takes nothing. */
  order(key: string): boolean {
    this.#drain();
    return this.#tell(`${this.#secret} ${key}`);
  }

  /** Tells it to kill what runs. Returns false if it takes nothing. */
  stop(): boolean {
    return this.#tell("stop");
  }

  #tell(line: string): boolean {
    try {
      return writeSync(this.#orders, `\n${line}\n`) > 0;
    } catch (error) {
      if (errorCode(error) === "EAGAIN") return false;
      throw error;
    }
  }

  /** Throws away what an ended command wrote there. */
  #drain(): void {
    try {
      while (readSync(this.#orders, JUNK) > 0);
    } catch (error) {
      if (errorCode(error) !== "EAGAIN") throw error;
    }
  }

  async write(name: "order" | "stdin", text: string): Promise<void> {
    await writeReadable(join(this.dir, name), text);
  }

  close(): void {
    this.#onLine = () => undefined;
    this.#onEnd = () => undefined;
    this.#report.destroy();
    closeSync(this.#orders);
  }

  #read(text: string): void {
    const lines = (this.#line + text).split("\n");
    // A command may write here, too, and as much as it likes.
    this.#line = (lines.pop() ?? "").slice(0, MAX_LINE);
    for (const line of lines) this.#onLine(line.split(" "));
  }

  #end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#onEnd();
  }
}

/** A word that nobody can guess. */
export function newKey(): string {
  return randomBytes(12).toString("hex");
}

async function writeReadable(path: string, text: string): Promise<void> {
  await writeFile(path, text);
  await chmod(path, 0o644);
}

function reading(fifo: string): Socket {
  return new Socket({ fd: openSync(fifo, O_RDONLY | O_NONBLOCK), readable: true, writable: false });
}
