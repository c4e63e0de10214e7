import { setTimeout as delay } from "node:timers/promises";
import { outOfMemory } from "../../limits/limits.ts";
import { removeTree } from "../../pfs/remove.ts";
import { type Command, KILLED, noCommand, noFolder, type Run } from "../executor.ts";
import { openOutputs, seesAllFiles } from "./engine/disposal.ts";
import { asCondition, ask, EngineRefusal } from "./engine/engine.ts";
import { ContainerInit, Control, type Order, type OrderEnd, type Unfit } from "./init.ts";
import { CONTROL, OPEN_OUTPUTS } from "./init-script.ts";
import { type AgentEngine, imageEnv, type Made, makeContainer, type WorkerTerms } from "./make-container.ts";
import type { SecretFiles } from "./secrets.ts";

const MAX_LOOKS = 100;
const LOOK_EVERY_MS = 50;

export interface KeptOptions {
  /** A folder of its own, not there yet. */
  readonly dir: string;
  /** The folder that is `/pfs` in it, for all its commands. */
  readonly pfs: string;
  readonly secrets: SecretFiles;
  readonly signal: AbortSignal;
}

interface KeptParts {
  readonly agentEngine: AgentEngine;
  readonly dir: string;
  readonly made: Made;
  readonly control: Control;
  readonly init: ContainerInit;
  readonly secrets: SecretFiles;
}

/** A container that runs one command after the other by its init, with the files that belong to it. */
export class KeptContainer {
  readonly #parts: KeptParts;
  #stdin: string | null = null;

  private constructor(parts: KeptParts) {
    this.#parts = parts;
  }

  /**
   * Makes one, or returns why the image can't have one. The secrets are removed with it, or at once if there is none.
   * Throws NodeCondition and EngineRefusal.
   */
  static async make(
    agentEngine: AgentEngine,
    worker: WorkerTerms,
    options: KeptOptions,
  ): Promise<KeptContainer | Unfit> {
    const { dir, pfs, secrets, signal } = options;
    const { engine, disposal } = agentEngine;
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
      const config = { Entrypoint: ["sh"], Cmd: [`${CONTROL}/init`, ...mode] };
      const mounts = { pfs, control: dir, secrets: secrets.mounts };
      made = await makeContainer(agentEngine, worker, { ...mounts, config, signal });
      const tools = seesAllFiles() ? ["env"] : ["env", "chmod"];
      const { container } = made;
      const init = await ContainerInit.start(control, { engine, container, tools, signal });
      if (init instanceof ContainerInit) {
        return new KeptContainer({ agentEngine, dir, made, control, init, secrets });
      }
      await undo();
      return init;
    } catch (error) {
      await undo().catch(() => undefined);
      throw error;
    }
  }

  /** Whether the next command can run in it. */
  get fit(): boolean {
    return this.#parts.init.fit;
  }

  /** Runs a command, whose `/pfs` was moved in. Afterwards it has to be removed if it is not fit any more. */
  async run(command: Command): Promise<Run> {
    const { control, made } = this.#parts;
    const { cmd, workingDir, stdin, onOutput, joined, signal } = command;
    command.onImage?.(made.image);
    await this.#writeStdin(stdin);
    const order = {
      ...{ cmd, env: imageEnv(command), joined, signal },
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

  /** Kills the container of a command that does not end when it is told to: else the end of its log would not come. */
  async #perform(order: Order): Promise<OrderEnd> {
    const { agentEngine, made, init } = this.#parts;
    const end = await init.run(order);
    // If the engine is away, the removal will say so.
    const kill = () => ask(agentEngine.engine, () => made.container.kill()).catch(() => undefined);
    if (end.kind === "lost" && order.signal.aborted) await kill();
    return end;
  }

  /** Ends whatever runs in it. Nothing does when this returns. Throws NodeCondition; it may then still run. */
  async remove(): Promise<void> {
    const { agentEngine, dir, made, control, secrets } = this.#parts;
    control.close();
    await secrets.remove();
    if (!this.fit) await openOutputs(agentEngine.engine, made.name);
    await agentEngine.disposal.remove(made.name);
    await removeTree(dir);
  }

  #exited({ code, outOfMemory: starved }: Extract<OrderEnd, { kind: "exited" }>, log: string): Run {
    const { limits, owner } = this.#parts.agentEngine;
    return { kind: "exited", code, log, ...(starved && { cause: outOfMemory(limits, owner) }) };
  }

  /** The run of a command whose container ended under it. Throws NodeCondition if the engine is away, too. */
  async #lost(log: string): Promise<Run> {
    const { engine, limits, owner } = this.#parts.agentEngine;
    const killed = { kind: "exited", code: KILLED, log } as const;
    try {
      const State = await this.#lastState();
      if (State.OOMKilled) return { ...killed, fault: outOfMemory(limits, owner) };
      const how = State.Running ? "does not answer any more" : `has ended (exit code ${State.ExitCode})`;
      return { ...killed, fault: `the command's container ${how}`, failureClass: "node" };
    } catch (error) {
      if (!(error instanceof EngineRefusal)) throw asCondition(error, engine);
      return { ...killed, fault: "the command's container was removed", failureClass: "node" };
    }
  }

  /** A container's processes are gone a moment before its engine knows. */
  async #lastState() {
    const { agentEngine, made, control } = this.#parts;
    for (let left = MAX_LOOKS; ; left -= 1) {
      const { State } = await ask(agentEngine.engine, () => made.container.inspect());
      if (!State.Running || !control.ended || left === 0) return State;
      await delay(LOOK_EVERY_MS);
    }
  }

  /** Writes only what is new: most often stdin is what the datum before had. */
  async #writeStdin(stdin: string | null): Promise<void> {
    if (stdin === null || stdin === this.#stdin) return;
    await this.#parts.control.write("stdin", stdin);
    this.#stdin = stdin;
  }
}
