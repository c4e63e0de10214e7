import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatumPage, type Job, type JobDatum } from "../../../protocol/pipelines.ts";
import { NodeList } from "../../../protocol/runner.ts";
import { Control } from "../control.ts";
import { type DevServer, startDevServer } from "../dev-server.ts";
import { eventually } from "../eventually.ts";
import { openNetwork, type TestNetwork } from "../netns.ts";
import { S3 } from "../s3.ts";
import { removeScratch, scratchFolder } from "../scratch.ts";
import { NodeAgent } from "./node-agent.ts";

/** Others get a datum when its lease has run out, on a busy machine somewhat later. */
export const LONGER_THAN_LEASES_MS = 180_000;

/**
 * A gateway and nodes that it reaches over links that can be cut. Its pipeline, of one worker, runs a command that
 * counts its starts and ends, and in between waits to be let on.
 */
export class Stage implements AsyncDisposable {
  readonly server: DevServer;
  readonly s3: S3;
  readonly control: Control;
  readonly #network: TestNetwork;
  readonly #agents: NodeAgent[] = [];
  /** Outside /pfs the process executor shows the host's own files, so the command and the test meet here. */
  readonly #folder = scratchFolder();

  static async open(): Promise<Stage> {
    const network = await openNetwork();
    const stage = new Stage({ server: await startDevServer({ host: "0.0.0.0" }), network });
    await stage.s3.createBucket("master.in");
    return stage;
  }

  private constructor({ server, network }: { server: DevServer; network: TestNetwork }) {
    this.server = server;
    this.#network = network;
    this.s3 = new S3(server);
    this.control = new Control(server);
    for (const point of ["started", "finished"]) writeFileSync(this.#point(point), "");
  }

  /** The pipeline `work`; what its command does in the end is up to the caller. The number of its start is in `$nth`. */
  async createPipeline(script: readonly string[]): Promise<void> {
    const stdin = [
      `echo >> ${this.#point("started")}`,
      `nth=$(wc -l < ${this.#point("started")})`,
      `until [ -e ${this.#point("go")}-$nth ]; do sleep 0.1; done`,
      ...script,
      `echo >> ${this.#point("finished")}`,
    ];
    await this.control.createPipeline({
      pipeline: { name: "work" },
      transform: { image: "busybox", cmd: ["sh", "-e"], stdin },
      parallelism_spec: { strategy: "CONSTANT", constant: 1 },
      inputs: [{ repo: { name: "in" }, glob: "/*" }],
    });
  }

  /** A node whose agent is not started yet. */
  async addNode(name: string): Promise<NodeAgent> {
    const agent = new NodeAgent({ door: this.server, name, network: await this.#network.join() });
    this.#agents.push(agent);
    return agent;
  }

  /** Lets the command on that was the nth to start. */
  letOn(nth: number): void {
    appendFileSync(`${this.#point("go")}-${nth}`, "");
  }

  /** How often commands came to a point. */
  count(point: "started" | "finished"): number {
    return readFileSync(this.#point(point), "utf8").length;
  }

  /** Waits until commands came to a point so often. */
  async reached(point: "started" | "finished", times: number): Promise<void> {
    await eventually(`commands had ${point} ${times} times`, () => this.count(point) >= times, {
      withinMs: LONGER_THAN_LEASES_MS,
    });
  }

  /** Waits until so many nodes live. */
  async nodesLive(count: number): Promise<void> {
    await eventually(
      `${count} nodes live`,
      async () => {
        const { nodes } = await this.control.call("GET", "/nodes", { answers: NodeList });
        return nodes.filter(({ live }) => live).length === count;
      },
      { withinMs: LONGER_THAN_LEASES_MS },
    );
  }

  /** The jobs of the pipeline once so many have ended. */
  ended(count: number): Promise<Job[]> {
    return this.control.ended("work", { count, withinMs: LONGER_THAN_LEASES_MS });
  }

  /** What a job ran. */
  async datums(job: string): Promise<JobDatum[]> {
    const path = `/jobs/${job}/datums?limit=100`;
    return (await this.control.call("GET", path, { answers: DatumPage })).datums;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (let nth = 1; nth <= this.count("started") + 1; nth++) this.letOn(nth);
    for (const agent of this.#agents) await agent.close();
    await this.#network.close();
    await this.server.stop();
    if (existsSync(this.#folder)) removeScratch(this.#folder);
  }

  #point(name: string): string {
    return join(this.#folder, name);
  }
}
