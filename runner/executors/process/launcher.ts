import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { getCompileCacheDir } from "node:module";
import { dirname } from "node:path";
import { listening } from "../../lib/concurrency.ts";
import { messageOf } from "../../lib/fault.ts";
import type { LauncherOptions } from "../../limits/confinement.ts";
import type { Ended, ExecuteOptions } from "./execute.ts";
import type { Launch } from "./jail.ts";

/** To the launcher's process. */
export type Order =
  | { readonly do: "execute"; readonly id: number; readonly launch: Launch; readonly files: ExecuteFiles }
  | { readonly do: "kill"; readonly id: number };

/** From the launcher's process: first that it is there, then one for each `execute`. */
export type Answer =
  | { readonly ready: true }
  | { readonly id: number; readonly ended: Ended }
  | { readonly id: number; readonly error: { readonly message: string; readonly code: string | undefined } };

type ExecuteFiles = Omit<ExecuteOptions, "signal">;

/** The launcher's process has ended, and with it all that it ran: of each command nobody knows how it would have gone. */
export class LauncherLost extends Error {
  override readonly name = "LauncherLost";
}

/**
 * Starts commands in a small process of its own. Node forks to start a program, which copies the page tables of the
 * whole process and stops it meanwhile: measured, 4 ms for each 100 MB that it has in memory. The agent is large,
 * the launcher small and stays so. When the agent dies, however it does, the launcher kills what runs and ends.
 */
export class Launcher {
  readonly #options: LauncherOptions;
  readonly #pending = new Map<number, PromiseWithResolvers<Ended>>();
  #process: ChildProcess | undefined;
  /** Resolves when its process is there and has entered. */
  #there = Promise.withResolvers<void>();
  #last = 0;

  constructor(options: LauncherOptions = {}) {
    this.#options = options;
  }

  /** Like `execute`, in that process. */
  async execute(launch: Launch, { signal, ...files }: ExecuteOptions): Promise<Ended> {
    this.#process ??= this.#start();
    const child = this.#process;
    const there = this.#there.promise;
    this.#last += 1;
    const id = this.#last;
    const call = Promise.withResolvers<Ended>();
    const kill = () => void there.then(() => send(child, { do: "kill", id }), call.reject);
    this.#pending.set(id, call);
    child.channel?.ref();
    void there.then(() => send(child, { do: "execute", id, launch, files }), call.reject);
    return await listening({ signal, onAbort: kill }, () => call.promise).finally(() => {
      this.#pending.delete(id);
      if (this.#pending.size === 0) child.channel?.unref();
    });
  }

  /** Ends the process, and with it whatever it runs. */
  async close(): Promise<void> {
    const child = this.#process;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "exit");
    child.ref();
    if (child.connected) child.disconnect();
    await ended;
  }

  /** Starts it in a session of its own: Ctrl-C in the agent's terminal is for the agent. It gets nothing of the agent's environment, above all no keys. */
  #start(): ChildProcess {
    const { through: [program, ...words] = [] } = this.#options;
    const child = fork(new URL("launcher-process.ts", import.meta.url), {
      env: compileCache(),
      ...(program && { execPath: program }),
      execArgv: [...words, ...(program ? [process.execPath] : []), "--disable-warning=ExperimentalWarning"],
      stdio: ["ignore", "ignore", "inherit", "ipc"],
      detached: true,
    });
    this.#there = Promise.withResolvers();
    // Those who wait for it get the error; nobody may be waiting.
    this.#there.promise.catch(() => undefined);
    child.on("message", (answer: Answer) =>
      "ready" in answer ? void this.#enter(child) : this.#answered(answer),
    );
    child.once("exit", (code, signal) => this.#lost(child, signal ?? `exit code ${code}`));
    child.once("error", (error) => this.#lost(child, messageOf(error)));
    // It must not keep an agent alive that has nothing else to do.
    child.unref();
    child.channel?.unref();
    return child;
  }

  async #enter(child: ChildProcess): Promise<void> {
    const there = this.#there;
    try {
      if (child.pid !== undefined) await this.#options.enter?.(child.pid);
      there.resolve();
    } catch (error) {
      there.reject(error);
      child.kill("SIGKILL");
    }
  }

  #answered(answer: Exclude<Answer, { ready: true }>): void {
    const call = this.#pending.get(answer.id);
    if ("ended" in answer) call?.resolve(answer.ended);
    else call?.reject(Object.assign(new Error(answer.error.message), { code: answer.error.code }));
  }

  /** The next command gets a new one. */
  #lost(child: ChildProcess, how: string): void {
    if (this.#process !== child) return;
    this.#process = undefined;
    const ended = new LauncherLost(`the process that starts commands ended (${how})`);
    this.#there.reject(ended);
    for (const call of this.#pending.values()) call.reject(ended);
  }
}

/** The launcher starts in half the time, and with 20 MiB less, if its TypeScript was compiled before. */
function compileCache(): Record<string, string> {
  const folder = getCompileCacheDir();
  // It is a folder for this version of Node, in the one that was chosen.
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: dirname(folder) };
}

/** A send that fails is not reported: the end of the process is. */
function send(child: ChildProcess, order: Order): void {
  if (child.connected) child.send(order, () => undefined);
}
