import { constants } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import { removeTree } from "../../../pfs/remove.ts";
import type { Command, Run } from "../../executor.ts";
import { ask, asTrouble, EngineRefusal } from "../engine/engine.ts";
import type { Machinery, WorkerTerms } from "../machinery.ts";
import { type Made, makeContainer } from "../make-container.ts";
import { openOutputs, seesAllFiles } from "../outputs.ts";
import type { SecretFiles } from "../secrets/secret-files.ts";
import { noCommand, noFolder, outOfMemory } from "../words.ts";
import { Control } from "./control.ts";
import { type Order, type OrderEnd, Resident, type Unfit } from "./resident.ts";
import { CONTROL, OPEN_OUTPUTS } from "./resident-script.ts";

const MAX_LOOKS = 100;
const LOOK_EVERY_MS = 50;

export interface HomeOptions {
  /** A folder of its own, not there yet. */
  readonly dir: string;
  readonly slot: string;
  readonly secrets: SecretFiles;
  readonly signal: AbortSignal;
}

interface HomeParts {
  readonly machinery: Machinery;
  readonly dir: string;
  readonly made: Made;
  readonly control: Control;
  readonly resident: Resident;
  readonly secrets: SecretFiles;
}

/** A container in which one command after the other runs, with the files that belong to it. */
export class Home {
  readonly #parts: HomeParts;
  #stdin: string | null = null;

  private constructor(parts: HomeParts) {
    this.#parts = parts;
  }

  /** Answers why the image can't have one. Throws NodeTrouble and EngineRefusal. The secrets are removed with it, or if there is none. */
  static async make(machinery: Machinery, worker: WorkerTerms, options: HomeOptions): Promise<Home | Unfit> {
    const { dir, slot, secrets, signal } = options;
    const { engine, disposal } = machinery;
    const control = await Control.make(dir);
    let made: Made | undefined;
    const undo = async () => {
      control.close();
      await secrets.remove();
      if (made) await disposal.remove(made.name);
      await removeTree(dir);
    };
    try {
      const mode = seesAllFiles() ? [] : [OPEN_OUTPUTS];
      const config = { Entrypoint: ["sh"], Cmd: [`${CONTROL}/resident`, ...mode] };
      made = await makeContainer(machinery, worker, {
        ...{ pfs: slot, control: dir, secrets: secrets.mounts, config, signal },
      });
      const tools = seesAllFiles() ? ["env"] : ["env", "chmod"];
      const { container } = made;
      const resident = await Resident.start(control, { engine, container, tools, signal });
      if (resident instanceof Resident) {
        return new Home({ machinery, dir, made, control, resident, secrets });
      }
      await undo();
      return resident;
    } catch (error) {
      await undo().catch(() => undefined);
      throw error;
    }
  }

  /** Whether the next command can run in it. */
  get fit(): boolean {
    return this.#parts.resident.fit;
  }

  /** Runs a command, whose `/pfs` is in the slot. When it is not fit any more, it has to be removed. */
  async run(command: Command): Promise<Run> {
    const { control } = this.#parts;
    const { cmd, workingDir, stdin, onOutput, signal } = command;
    await this.#writeStdin(stdin);
    const order = {
      ...{ cmd, env: imageEnv(command), signal },
      ...{ stdin: stdin === null ? "/dev/null" : `${CONTROL}/stdin` },
      ...(workingDir !== undefined && { workingDir }),
    };
    const { done: end, log } = await control.log.during({
      work: () => this.#perform(order),
      onOutput,
    });
    switch (end.kind) {
      case "exited":
        return this.#exited(end, log);
      case "no-folder":
        return { kind: "not-started", reason: noFolder(workingDir ?? ""), log };
      case "no-command":
        return { kind: "not-started", reason: noCommand(cmd[0] ?? ""), log };
      case "lost":
        return signal.aborted ? { kind: "exited", code: KILLED, log } : this.#lost(log);
    }
  }

  /** A command that does not end when it is told to goes with its container, before the rest of its log is waited for. */
  async #perform(order: Order): Promise<OrderEnd> {
    const { machinery, made, resident } = this.#parts;
    const end = await resident.run(order);
    // Where the engine is away, the removal will tell.
    const kill = () => ask(machinery.engine, () => made.container.kill()).catch(() => undefined);
    if (end.kind === "lost" && order.signal.aborted) await kill();
    return end;
  }

  /** Ends whatever runs in it. When this answers, nothing does. Throws NodeTrouble; it may then still run. */
  async remove(): Promise<void> {
    const { machinery, dir, made, control, secrets } = this.#parts;
    control.close();
    await secrets.remove();
    if (!this.fit) await openOutputs(machinery.engine, made.name);
    await machinery.disposal.remove(made.name);
    await removeTree(dir);
  }

  #exited({ code, outOfMemory: starved }: Extract<OrderEnd, { kind: "exited" }>, log: string): Run {
    const { limits, owner } = this.#parts.machinery;
    return { kind: "exited", code, log, ...(starved && { cause: outOfMemory(limits, owner) }) };
  }

  /** The container has ended under the command. Throws NodeTrouble where the engine is away, too. */
  async #lost(log: string): Promise<Run> {
    const { engine, limits, owner } = this.#parts.machinery;
    try {
      const State = await this.#lastState();
      if (State.OOMKilled) return { kind: "exited", code: KILLED, log, fault: outOfMemory(limits, owner) };
      const how = State.Running ? "does not answer any more" : `has ended (exit code ${State.ExitCode})`;
      return { kind: "exited", code: KILLED, log, fault: `the command's container ${how}` };
    } catch (error) {
      if (!(error instanceof EngineRefusal)) throw asTrouble(error, engine);
      return { kind: "exited", code: KILLED, log, fault: "the command's container was removed" };
    }
  }

  /** A container's processes are gone a moment before its engine knows. */
  async #lastState() {
    const { machinery, made, control } = this.#parts;
    for (let left = MAX_LOOKS; ; left -= 1) {
      const { State } = await ask(machinery.engine, () => made.container.inspect());
      if (!State.Running || !control.ended || left === 0) return State;
      await delay(LOOK_EVERY_MS);
    }
  }

  /** Most often it is what the datum before had. */
  async #writeStdin(stdin: string | null): Promise<void> {
    if (stdin === null || stdin === this.#stdin) return;
    await this.#parts.control.write("stdin", stdin);
    this.#stdin = stdin;
  }
}

export const KILLED = 128 + constants.signals.SIGKILL;

/** The environment of a command over that of its image: what only this machine says is not for containers. */
export function imageEnv({ env, machineEnv = [] }: Command): Record<string, string> {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !machineEnv.includes(name)));
}
