import { readFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT, sluiceCommand, sluiceEnv } from "../dev-server.ts";
import type { TestEngine } from "../engines.ts";
import { eventually } from "../eventually.ts";
import type { Door } from "../keys.ts";
import { leftovers } from "../leftovers.ts";
import type { NetworkNode } from "../netns.ts";
import { type Started, start } from "../processes.ts";
import { removeScratch, scratchFolder } from "../scratch.ts";

export interface NodeAgentOptions {
  /** As this machine reaches it. */
  readonly door: Door;
  /** The node's name. */
  readonly name: string;
  readonly network: NetworkNode;
  /** Runs the commands. Absent: they are processes. */
  readonly engine?: TestEngine;
}

/** A node of a fleet: a data folder that stays, and an agent that comes and goes, in a network of its own. */
export class NodeAgent {
  readonly name: string;
  readonly network: NetworkNode;
  /** How agents ended that were not told to. */
  readonly surprises: string[] = [];
  /** Rejects at the first of those, with what that agent printed. */
  readonly surprise: Promise<never>;
  readonly #options: NodeAgentOptions;
  readonly #data = scratchFolder();
  #agent: Started | undefined;
  /** What agents printed that have ended. */
  #past = "";
  #told = false;
  readonly #surprised: (error: Error) => void;

  constructor(options: NodeAgentOptions) {
    const { promise, reject } = Promise.withResolvers<never>();
    // Nobody has to wait for it.
    promise.catch(() => {});
    this.surprise = promise;
    this.#surprised = reject;
    this.name = options.name;
    this.network = options.network;
    this.#options = options;
  }

  start(): void {
    const { name, network, engine } = this.#options;
    const executor = engine?.name ?? "process";
    const command = sluiceCommand([
      "runner",
      ...["--node", name, "--data", this.#data, "--executor", executor],
    ]);
    const env = {
      ...sluiceEnv(this.#door),
      ...(engine && { DOCKER_HOST: engine.host }),
    };
    const agent = start(network.command(command), { cwd: ROOT, env });
    this.#agent = agent;
    this.#told = false;
    void agent.ended.then(({ code, signal }) => {
      if (this.#told) return;
      const surprise = `${name} ended by itself (${code ?? signal}):\n${agent.output()}`;
      this.surprises.push(surprise);
      this.#surprised(new Error(surprise));
    });
  }

  /** SIGKILL to the agent alone, as an out-of-memory killer does. Resolves when what ran under it has ended, too. */
  async kill9(): Promise<void> {
    await this.#end("SIGKILL");
  }

  /** Everything that runs on the node is gone at once. */
  async losePower(): Promise<void> {
    this.#told = true;
    await this.#signalAll("SIGKILL");
    await this.#end("SIGKILL");
  }

  /** SIGTERM to the agent; resolves when it has ended. Answers its exit code. */
  async drain(): Promise<number | null> {
    return this.#end("SIGTERM");
  }

  /** SIGTERM to the agent, which ends in its own time. */
  beginDrain(): void {
    this.#told = true;
    if (this.#agent) process.kill(this.#agent.pid, "SIGTERM");
  }

  /** SIGSTOP to the agent alone: its commands go on. */
  freeze(): void {
    if (this.#agent) process.kill(this.#agent.pid, "SIGSTOP");
  }

  /** Everything on the node stands still, as where a virtual machine is paused. */
  freezeAll(): Promise<void> {
    return this.#signalAll("SIGSTOP");
  }

  /** What was frozen goes on. */
  thaw(): Promise<void> {
    return this.#signalAll("SIGCONT");
  }

  /** All that its agents have printed. */
  output(): string {
    return this.#past + (this.#agent?.output() ?? "");
  }

  /** Resolves when the agent has printed this. */
  async prints(text: string): Promise<void> {
    await eventually(`${this.name} prints "${text}"`, () => this.output().includes(text));
  }

  /** Processes of datums' commands on the node. */
  async commands(): Promise<number[]> {
    return (await this.network.processes()).filter((pid) => environmentOf(pid).includes("SLUICE_DATUM_ID="));
  }

  /** What is on the node that an agent which has ended should have taken along. */
  async leftovers(): Promise<string[]> {
    const { network, engine } = this.#options;
    const processes = await network.processes();
    const left = await leftovers({ folder: join(this.#data, "agents"), ...(engine && { engine }) });
    return [
      ...processes.map((pid) => `process ${pid}: ${readIfThere(`/proc/${pid}/cmdline`)}`),
      ...Object.entries(left).flatMap(([kind, things]) => things.map((thing: string) => `${kind}: ${thing}`)),
    ];
  }

  /** Ends the agent, however it is, and removes the data folder. */
  async close(): Promise<void> {
    if (this.#agent) await this.losePower();
    removeScratch(this.#data);
  }

  get #door(): Door {
    const { door, network } = this.#options;
    const { port } = new URL(door.endpoint);
    return { ...door, endpoint: `http://${network.gatewayAddress}:${port}` };
  }

  async #signalAll(signal: NodeJS.Signals): Promise<void> {
    for (const pid of await this.network.processes()) signalOne(pid, signal);
  }

  async #end(signal: NodeJS.Signals): Promise<number | null> {
    const agent = this.#agent;
    if (!agent) return null;
    this.#told = true;
    signalOne(agent.pid, signal);
    const { code } = await agent.ended;
    // Nothing is left of its group, which need not be ended with the tests, then.
    await agent.kill9();
    this.#past += agent.output();
    this.#agent = undefined;
    return code;
  }
}

function signalOne(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    // Gone meanwhile.
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

function environmentOf(pid: number): string {
  return readIfThere(`/proc/${pid}/environ`);
}

/** A process may end at any time. */
function readIfThere(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
