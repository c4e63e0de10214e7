import { setTimeout as pause } from "node:timers/promises";
import { type DevServer, ROOT, sluiceCommand, sluiceEnv, startRunner } from "../../../support/dev-server.ts";
import { type Started, start } from "../../../support/processes.ts";
import type { Gate } from "./gate.ts";

/** What dies: the host with its runtime, the runtime alone, or an agent with all that it runs. */
export type Victim = "gateway" | "workerd" | "runner";

/** A kill comes at a random moment of this span after the one before, or after what that killed is back. */
const SPAN_MS = 1000;
/** A gateway that starts again is killed once more at a random moment of this span. */
const START_MS = 1500;
const NODES = ["one", "two"];

/** Kills processes at random moments, and starts them again. */
export class Deaths {
  readonly counts: Record<Victim, number> = { gateway: 0, workerd: 0, runner: 0 };
  readonly #server: DevServer;
  readonly #gate: Gate;
  readonly #random: () => number;
  readonly #runners = new Map<string, Started>();

  constructor(server: DevServer, { gate, random }: { gate: Gate; random: () => number }) {
    this.#server = server;
    this.#gate = gate;
    this.#random = random;
    for (const node of NODES) this.#startRunner(node);
  }

  get all(): number {
    return Object.values(this.counts).reduce((sum, count) => sum + count, 0);
  }

  /** Kills the runtime and runners, so many times, and then the gateway, which stays away. `before`: what it waits for with that. */
  async round(kills: number, before: () => Promise<unknown>): Promise<void> {
    for (let kill = 1; kill < kills; kill++) {
      await pause(this.#random() * SPAN_MS);
      const runner = this.#random() < 0.4 ? this.#running() : undefined;
      await (runner === undefined ? this.#killRuntime() : this.#killRunner(runner));
    }
    await before();
    await pause(this.#random() * SPAN_MS);
    this.#gate.end();
    this.counts.gateway++;
    await this.#server.kill9();
  }

  /** Starts the gateway; now and then it dies before it is ready. */
  async restart(): Promise<void> {
    if (this.#random() < 0.2) await this.#killAtStart();
    await this.#server.restart();
    this.#gate.open();
  }

  /** From now on nothing dies. */
  async end(): Promise<void> {
    for (const runner of this.#runners.values()) await runner.stop();
  }

  async #killRuntime(): Promise<void> {
    this.#gate.shut();
    this.counts.workerd++;
    await this.#server.killRuntime();
    this.#gate.open();
  }

  /** An agent that leases by now; undefined: none does. */
  #running(): string | undefined {
    const begun = [...this.#runners].filter(([, runner]) => runner.output().includes("runner started"));
    return begun[Math.floor(this.#random() * begun.length)]?.[0];
  }

  async #killRunner(node: string): Promise<void> {
    this.counts.runner++;
    await this.#runners.get(node)?.kill9();
    this.#startRunner(node);
  }

  async #killAtStart(): Promise<void> {
    const { port } = new URL(this.#server.endpoint);
    const command = ["dev", "--runners", "0", "--port", port, "--data", this.#server.data];
    const started = start(sluiceCommand(command), { cwd: ROOT, env: sluiceEnv(this.#server) });
    await pause(this.#random() * START_MS);
    this.counts.gateway++;
    await started.kill9();
  }

  #startRunner(node: string): void {
    this.#runners.set(node, startRunner(this.#server, { node }));
  }
}
