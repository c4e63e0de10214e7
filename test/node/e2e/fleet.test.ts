// @module-tag rest
import { appendFileSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
import { DatumPage, type Job } from "../../../protocol/pipelines.ts";
import { LEASE_MS, type Node, NodeList } from "../../../protocol/runner.ts";
import { commitFiles } from "../../support/chaos/many-files.ts";
import { Control } from "../../support/control.ts";
import { type DevServer, sluiceOk, startDevServer, startRunner } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import type { Started } from "../../support/processes.ts";
import { S3 } from "../../support/s3.ts";
import { removeScratch, scratchFolder } from "../../support/scratch.ts";

const WITHIN = { withinMs: 180_000 };

let server: DevServer;
let control: Control;
let s3: S3;
let folder: string;
const agents = new Map<string, Started>();
beforeEach(async () => {
  folder = scratchFolder();
  for (const name of ["running", "at-once"]) mkdirSync(join(folder, name));
  server = await startDevServer();
  [s3, control] = [new S3(server), new Control(server)];
  await s3.createBucket("master.in");
});
afterEach(async () => {
  letOn();
  for (const agent of agents.values()) await agent.kill9();
  agents.clear();
  await server.stop();
  removeScratch(folder);
});

test("five agents run exactly seven commands at a time where the pipeline says seven, and each has its part", {
  timeout: 600_000,
}, async () => {
  startAgents("a", "b", "c", "d", "e");
  await nodesLive(5);
  await createPipeline({ strategy: "CONSTANT", constant: 7 });
  await commit(40);
  await running(7);
  letOn();
  const job = await jobEnded({ total: 40 });
  expect(mostAtOnce()).toBe(7);
  const { datums } = await control.call("GET", `/jobs/${job.id}/datums?limit=100`, { answers: DatumPage });
  expect(new Set(datums.map(({ node }) => node))).toEqual(new Set(["a", "b", "c", "d", "e"]));
});

test("a pipeline of two workers per node grows from two agents to five, and shrinks with those that leave", {
  timeout: 600_000,
}, async () => {
  startAgents("a", "b");
  await nodesLive(2);
  await createPipeline({ strategy: "COEFFICIENT", coefficient: 2 });
  await commit(40);
  await running(4);
  startAgents("c", "d", "e");
  await running(10);
  // Two of them say good-bye, and their workers are done when their commands are.
  const leaving = ["d", "e"].map((name) => stopAgent(name));
  await nodesLive(3);
  letOn();
  expect(await Promise.all(leaving)).toEqual([0, 0]);
  await jobEnded({ total: 40 });
  expect(mostAtOnce()).toBe(10);
});

test("a node that is drained finishes what runs there and gets nothing new until it is resumed, also by a new agent", {
  timeout: 600_000,
}, async () => {
  startAgents("a", "b");
  await nodesLive(2);
  await createPipeline({ strategy: "COEFFICIENT", coefficient: 1 });
  await commit(2);
  await running(2);
  await sluiceOk(server, "node", "drain", "a");
  letOn();
  await jobEnded({ total: 2 });
  await sluiceOk(server, "node", "drain", "a", "--wait");
  expect(await stopAgent("a")).toBe(0);
  startAgents("a");
  await nodesLive(2);
  await commit(10);
  const { id } = await jobEnded({ total: 12 });
  const { datums } = await control.call("GET", `/jobs/${id}/datums?limit=100`, { answers: DatumPage });
  const ran = datums.filter(({ state }) => state === "success").map(({ node }) => node);
  expect(ran).toEqual(Array.from({ length: 10 }, () => "b"));

  await sluiceOk(server, "node", "resume", "a");
  await sluiceOk(server, "node", "drain", "b", "--wait");
  await commit(1);
  await jobEnded({ total: 13 });
});

test("a gateway that is killed while agents wait, and again under their commands for longer than leases last, costs nothing but time", {
  timeout: 900_000,
}, async () => {
  startAgents("a", "b");
  await nodesLive(2);
  await createPipeline({ strategy: "COEFFICIENT", coefficient: 1 });
  await idleWorkers(2);
  await server.kill9();
  await server.restart();
  await commit(2);
  await running(2);
  await server.kill9();
  await pause(LEASE_MS + 2000);
  await server.restart();
  letOn();
  const { id, datums: counts } = await jobEnded({ total: 2 });
  expect(counts).toEqual({ total: 2, processed: 2, skipped: 0, failed: 0 });
  const { datums } = await control.call("GET", `/jobs/${id}/datums?limit=100`, { answers: DatumPage });
  expect(datums).toMatchObject([
    { state: "success", tries: 0 },
    { state: "success", tries: 0 },
  ]);
  for (const name of ["a", "b"]) expect(await stopAgent(name)).toBe(0);
});

function startAgents(...names: string[]): void {
  for (const name of names) agents.set(name, startRunner(server, { node: name }));
}

/** SIGTERM to the agent alone, as a supervisor sends it; answers its exit code. */
async function stopAgent(name: string): Promise<number | null> {
  const agent = agents.get(name);
  if (!agent) throw new Error(`there is no agent ${name}`);
  process.kill(agent.pid, "SIGTERM");
  return (await agent.ended).code;
}

async function nodesLive(count: number): Promise<void> {
  await eventually(`${count} nodes live`, async () => (await liveNodes()).length === count, WITHIN);
}

/** Waits until so many workers of the pipeline are there, with nothing to do. */
async function idleWorkers(count: number): Promise<void> {
  await eventually(
    `${count} workers wait`,
    async () => {
      const nodes = await liveNodes();
      const work = nodes.flatMap((node) => node.work);
      return work.reduce((sum, { workers }) => sum + workers, 0) === count;
    },
    WITHIN,
  );
}

async function liveNodes(): Promise<Node[]> {
  const { nodes } = await control.call("GET", "/nodes", { answers: NodeList });
  return nodes.filter(({ live }) => live);
}

/** Outside /pfs the process executor shows the host's own files: a command is one file while it runs, and leaves one that says how many it saw. */
async function createPipeline(parallelism: object): Promise<void> {
  const mark = `${folder}/running/$SLUICE_DATUM_ID`;
  const stdin = [
    `touch ${mark}`,
    `ls ${folder}/running > /pfs/out/seen`,
    `until [ -e ${folder}/go ]; do sleep 0.1; done`,
    `touch ${folder}/at-once/$(wc -l < /pfs/out/seen)`,
    `rm ${mark} /pfs/out/seen`,
  ];
  await control.createPipeline({
    pipeline: { name: "work" },
    transform: { image: "busybox", cmd: ["sh", "-e"], stdin },
    parallelism_spec: parallelism,
    inputs: [{ repo: { name: "in" }, glob: "/*" }],
  });
}

let files = 0;

async function commit(count: number): Promise<void> {
  const names = Array.from({ length: count }, () => `file-${files++}`);
  await commitFiles(control, { repo: "in", files: new Map(names.map((name) => [name, Buffer.from(name)])) });
}

async function running(count: number): Promise<void> {
  const now = (): number => readdirSync(join(folder, "running")).length;
  await eventually(`${count} commands run`, () => now() === count, WITHIN);
}

function letOn(): void {
  appendFileSync(join(folder, "go"), "");
}

/** How many commands ran side by side at most, by what they saw themselves. */
function mostAtOnce(): number {
  return Math.max(...readdirSync(join(folder, "at-once")).map(Number));
}

/** The newest job has ended, and it had so many datums. */
async function jobEnded({ total }: { total: number }): Promise<Job> {
  const job = await eventually(
    `the job of ${total} datums ended`,
    async () => {
      const newest = (await control.jobs("work")).at(-1);
      return newest?.datums.total === total && newest.finishedAt !== null && newest;
    },
    WITHIN,
  );
  expect(job).toMatchObject({ state: "success", datums: { failed: 0 } });
  return job;
}
