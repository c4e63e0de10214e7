/*
 * A worker with `docker` or `podman` has one container. Its first process is an init, a POSIX shell script that runs one
 * order after the other (init-script.ts). `/pfs` is a folder of the worker, bound read-only, with `/pfs/out` in it; a
 * datum's folders are renamed into it and out again. After each command the init kills all else in the container before it
 * reports. An image without a shell gets a container for each datum. Containers carry labels of their agent and data
 * folder: the next agent removes what a dead one left.
 */

import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { closeSync, constants, openSync, readSync, writeSync } from "node:fs";
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { Socket } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import type { Container } from "dockerode";
import { listening } from "../../lib/concurrency.ts";
import { errorCode } from "../../lib/fault.ts";
import { NodeCondition } from "../executor.ts";
import { LogFifos } from "../log-fifos.ts";
import { ask, type Engine, EngineRefusal, isNoProgram, notSeen } from "./engine/engine.ts";
import { INIT_SCRIPT, NOT_FIRST, type OrderRequest, orderScript } from "./init-script.ts";

/** How an order ended. */
export type OrderEnd =
  /** `outOfMemory`: the kernel killed some process of it, for want of memory. */
  | { readonly kind: "exited"; readonly code: number; readonly outOfMemory: boolean }
  | { readonly kind: "no-folder" | "no-command" }
  /** The container has ended, or does not answer any more. It must be thrown away. */
  | { readonly kind: "lost" };

/** Why an image's commands can't be run by an init. */
export type Unfit = "no shell" | "no tools";

export interface StartOptions {
  readonly engine: Engine;
  /** Not started yet. */
  readonly container: Container;
  /** Programs that the image has to have. */
  readonly tools: readonly string[];
  /** Ends the wait. */
  readonly signal: AbortSignal;
}

export interface Order extends OrderRequest {
  readonly signal: AbortSignal;
}

/** An init that has not killed a command so long after it was told to has lost its hold on it. */
const OBEYS_WITHIN_MS = 2000;
/** Killed processes of a container may take so long to end, because the kernel gives back their memory first. */
const ENDS_WITHIN_MS = 30_000;
const LOOK_EVERY_MS = 100;
const READY_WITHIN_MS = 120_000;

/** The in-container init of one container, seen from the agent. */
export class ContainerInit {
  readonly #control: Control;
  #lost = false;
  #oomKills = 0;

  private constructor(control: Control) {
    this.#control = control;
  }

  /**
   * Starts the container, and waits until its init is there. Returns why the image can't have one, if it can't.
   * Throws NodeCondition and EngineRefusal; the container must then be thrown away.
   */
  static async start(control: Control, options: StartOptions): Promise<ContainerInit | Unfit> {
    const { engine, container, tools, signal } = options;
    const ready = Promise.withResolvers<string[]>();
    const decided = new AbortController();
    control.listen({
      onLine: ([word, ...found]) => word === "ready" && ready.resolve(found),
      onEnd: () => undefined,
    });
    try {
      await ask(engine, () => container.start());
      const over = exitCodeOf(options, AbortSignal.any([decided.signal, signal]));
      const found = await Promise.race([ready.promise, over]);
      if (found === NOT_FIRST) return "no shell";
      if (typeof found === "number") throw notSeen(engine, `exit code ${found}`);
      return tools.every((tool) => found.includes(tool)) ? new ContainerInit(control) : "no tools";
    } catch (error) {
      if (error instanceof EngineRefusal && isNoProgram(error.message)) return "no shell";
      throw error;
    } finally {
      decided.abort();
    }
  }

  /** Whether it takes orders. */
  get fit(): boolean {
    return !this.#lost && !this.#control.ended;
  }

  /** Runs one command to its end, and with it all that it started. */
  async run({ signal, ...request }: Order): Promise<OrderEnd> {
    await this.#control.write("order", orderScript(request));
    const end = await this.#perform(signal);
    if (end.kind === "lost") this.#lost = true;
    return end;
  }

  async #perform(signal: AbortSignal): Promise<OrderEnd> {
    const key = newKey();
    const { promise, resolve } = Promise.withResolvers<OrderEnd>();
    const lost = () => resolve({ kind: "lost" });
    let refused: "no-folder" | "no-command" | undefined;
    let timer: NodeJS.Timeout | undefined;
    const within = (ms: number) => {
      clearTimeout(timer);
      timer = setTimeout(lost, ms);
    };
    this.#control.listen({
      onLine: ([from, word, code, kills]) => {
        if (from !== key) return;
        if (word === "no-folder" || word === "no-command") refused = word;
        if (word === "ending") within(ENDS_WITHIN_MS);
        if (word === "end") resolve(refused ? { kind: refused } : this.#exited(Number(code), kills));
      },
      onEnd: lost,
    });
    const onAbort = () => {
      within(OBEYS_WITHIN_MS);
      if (!this.#control.stop()) lost();
    };
    if (!this.#control.order(key)) lost();
    return await listening({ signal, onAbort }, () => promise).finally(() => clearTimeout(timer));
  }

  #exited(code: number, kills: string | undefined): OrderEnd {
    const before = this.#oomKills;
    if (kills) this.#oomKills = Number(kills);
    return { kind: "exited", code, outOfMemory: this.#oomKills > before };
  }
}

/** The exit code of a container, when it has ended. Fails when `stop` is aborted, or it takes too long to be of use. */
async function exitCodeOf({ engine, container }: StartOptions, stop: AbortSignal): Promise<number> {
  const began = performance.now();
  while (performance.now() - began < READY_WITHIN_MS) {
    const { State } = await ask(engine, () => container.inspect());
    if (!State.Running && State.Status !== "created") return State.ExitCode;
    await delay(LOOK_EVERY_MS, undefined, { signal: stop });
  }
  throw new NodeCondition(`a container that ${engine.kind} has started does not come to life`);
}

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
  readonly log: LogFifos;
  readonly #orders: number;
  readonly #secret = newKey();
  readonly #report: Socket;
  #onLine: (words: string[]) => void = () => undefined;
  #onEnd: () => void = () => undefined;
  #ended = false;
  #line = "";

  private constructor(dir: string) {
    this.dir = dir;
    this.log = new LogFifos(dir, { mode: "622" });
    // Opened to read as well, so that it needs no reader. The agent is the only writer: the end of `orders` is its death.
    this.#orders = openSync(join(dir, "orders"), O_RDWR | O_NONBLOCK);
    const fd = openSync(join(dir, "report"), O_RDONLY | O_NONBLOCK);
    this.#report = new Socket({ fd, readable: true, writable: false });
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
function newKey(): string {
  return randomBytes(12).toString("hex");
}

async function writeReadable(path: string, text: string): Promise<void> {
  await writeFile(path, text);
  await chmod(path, 0o644);
}
