import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Job } from "../../../../protocol/pipelines.ts";
import { type Node, NodeList } from "../../../../protocol/runner.ts";
import { Control } from "../../../support/control.ts";
import { type DevServer, startDevServer, startRunner } from "../../../support/dev-server.ts";
import { eventually } from "../../../support/eventually.ts";
import type { Door } from "../../../support/keys.ts";
import type { Started } from "../../../support/processes.ts";
import { S3 } from "../../../support/s3.ts";
import { removeScratch, scratchFolder } from "../../../support/scratch.ts";

/** Bounds a hang, on a machine that is busy; longer than leases. */
const PATIENCE = { withinMs: 150_000 };

export interface FleetPipeline {
  readonly name: string;
  readonly workers: Readonly<Record<string, unknown>>;
  readonly files: number;
  /** Commands wait for each other until so many have started. */
  readonly together?: number;
}

/** A gateway as a user starts it, and agents as processes of their own. */
export class Fleet implements AsyncDisposable {
  readonly server: DevServer;
  readonly s3: S3;
  readonly control: Control;
  readonly #agents = new Set<Started>();
  /** Outside /pfs the process executor shows the host's own files, so commands and tests meet here. */
  readonly #folder = scratchFolder();

  /** `variables`: of the gateway. */
  static async open({ variables = {} }: { variables?: Record<string, string> } = {}): Promise<Fleet> {
    return new Fleet(await startDevServer({ variables }));
  }

  private constructor(server: DevServer) {
    this.server = server;
    this.s3 = new S3(server);
    this.control = new Control(server);
  }

  agent(
    node: string,
    {
      door = this.server,
      variables = {},
      options = [],
    }: { door?: Door; variables?: Record<string, string>; options?: readonly string[] } = {},
  ): Started {
    const agent = startRunner(door, { node, variables, options });
    this.#agents.add(agent);
    void agent.ended.then(() => this.#agents.delete(agent));
    return agent;
  }

  /** Waits until exactly so many nodes live. */
  async live(count: number): Promise<readonly Node[]> {
    return eventually(
      `${count} nodes lived`,
      async () => {
        const { nodes } = await this.control.call("GET", "/nodes", { answers: NodeList });
        const live = nodes.filter((node) => node.live);
        return live.length === count && live;
      },
      PATIENCE,
    );
  }

  /** A pipeline over so many files, whose commands tell when they start and end, and end when they may. */
  async createPipeline({ name, workers, files, together = 1 }: FleetPipeline): Promise<void> {
    const bucket = `master.${name}-in`;
    const [told, go] = [this.#told(name), this.#go(name)];
    writeFileSync(told, "");
    await this.s3.createBucket(bucket);
    for (let file = 0; file < files; file += 1) await this.s3.put(bucket, `f${file}`, `${file}`);
    await this.control.createPipeline({
      pipeline: { name },
      transform: {
        image: "busybox",
        cmd: ["sh", "-e", "-c", `${script({ told, go, together })} : ${this.mark(name)}`],
      },
      parallelism_spec: workers,
      inputs: [{ repo: { name: `${name}-in` }, glob: "/*" }],
    });
  }

  /** What the command lines of the pipeline's commands hold. */
  mark(name: string): string {
    return `${this.#folder}/mark-${name}`;
  }

  /** Lets the commands of a pipeline end. */
  letEnd(name: string): void {
    if (!existsSync(this.#go(name))) appendFileSync(this.#go(name), "");
  }

  /** How often commands started, and the most that ran at a time. */
  told(name: string): { started: number; ended: number; most: number } {
    const events = readFileSync(this.#told(name), "utf8").trim().split("\n");
    let running = 0;
    let most = 0;
    for (const event of events) {
      running += event === "+" ? 1 : -1;
      most = Math.max(most, running);
    }
    const started = events.filter((event) => event === "+").length;
    return { started, ended: events.filter((event) => event === "-").length, most };
  }

  async started(name: string, count: number): Promise<void> {
    await eventually(
      `${count} commands of ${name} had started`,
      () => this.told(name).started >= count,
      PATIENCE,
    );
  }

  /** The jobs of a pipeline, once there are so many and all have ended. */
  ended(name: string, count = 1): Promise<Job[]> {
    return this.control.ended(name, { count, ...PATIENCE });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#agents].map((agent) => agent.kill9()));
    await this.server.stop();
    removeScratch(this.#folder);
  }

  #told(name: string): string {
    return join(this.#folder, `told-${name}`);
  }

  #go(name: string): string {
    return join(this.#folder, `go-${name}`);
  }
}

function script({ told, go, together }: { told: string; go: string; together: number }): string {
  return [
    `echo + >> ${told};`,
    `until [ $(grep -c + ${told}) -ge ${together} ]; do sleep 0.05; done;`,
    `until [ -e ${go} ]; do sleep 0.05; done;`,
    "cp /pfs/*-in/* /pfs/out/;",
    `echo - >> ${told};`,
  ].join(" ");
}
