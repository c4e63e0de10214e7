// @module-tag rest
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Job, JobPage, Overview } from "../../../protocol/pipelines.ts";
import { parseCliJson } from "../../support/cli-json.ts";
import { Control } from "../../support/control.ts";
import {
  type DevServer,
  ROOT,
  sluiceCommand,
  sluiceEnv,
  sluiceOk,
  startDevServer,
} from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { FakeRunner } from "../../support/fake-runner.ts";
import type { Door } from "../../support/keys.ts";
import { start } from "../../support/processes.ts";
import { S3 } from "../../support/s3.ts";
import { onTerminal, type TerminalProgram } from "../../support/terminal.ts";

let server: DevServer;
let control: Control;
let s3: S3;
let runner: FakeRunner;
/** Its reason is REASON. */
let failedJob: string;

const PIPELINE = "quarterly-totals";
const FAILING = "quarterly-fails";
const REASON = `the command ended with exit code 1: ${"could not read the column amount of the table; ".repeat(4)}LAST WORDS`;
/** As many as a terminal of 80 columns by 40 rows shows. */
const SIZE = "stty cols 80 rows 40";

beforeAll(async () => {
  server = await startDevServer();
  control = new Control(server);
  s3 = new S3(server);
  runner = new FakeRunner(server, { node: "edge-7" });
  await runner.heartbeat();
  await makePipeline(PIPELINE);
  await makePipeline(FAILING, { datumTries: 1 });
  await s3.put(`master.${FAILING}-in`, "a", "1");
  const { lease, job } = await leaseOne(FAILING);
  failedJob = job;
  const log = { log: "", millis: 1, blame: "datum" } as const;
  await runner.finish(FAILING, [{ lease, state: "failed", exitCode: 1, reason: REASON, ...log }]);
  await control.ended(FAILING, { count: 1 });
});
afterAll(() => server?.stop());

async function makePipeline(name: string, more: object = {}): Promise<void> {
  await s3.createBucket(`master.${name}-in`);
  await control.createPipeline({
    pipeline: { name },
    transform: { image: "busybox", cmd: ["true"] },
    parallelism_spec: { strategy: "CONSTANT", constant: 1 },
    inputs: [{ repo: { name: `${name}-in` }, glob: "/*" }],
    ...more,
  });
}

function ok(...args: string[]): Promise<string> {
  return sluiceOk(server, ...args);
}

/** A command on a terminal of 80 columns. */
function onEighty(...args: string[]): TerminalProgram {
  const command = sluiceCommand(args);
  return onTerminal(["sh", "-c", `${SIZE}; exec "$@"`, "sh", ...command], {
    ...{ env: { ...sluiceEnv(server), NO_COLOR: "1" }, cwd: ROOT },
  });
}

/** What a command showed, once it has ended: its lines, and the words of all of them on one. */
async function shown(terminal: TerminalProgram): Promise<{ lines: string[]; words: string }> {
  expect(await terminal.ended, terminal.screen()).toBe(0);
  const lines = terminal.screen().split(/\r?\n/);
  for (const line of lines) expect(line.length, line).toBeLessThanOrEqual(80);
  return { lines, words: lines.map((line) => line.trim()).join(" ") };
}

async function leaseOne(pipeline: string) {
  return await eventually("a datum is leased", async () => (await runner.lease(pipeline)).datums[0]);
}

async function jobs(...args: string[]): Promise<Job[]> {
  return JobPage.parse(parseCliJson(await ok("job", "list", "--pipeline", PIPELINE, ...args, "--json"))).jobs;
}

describe("lists in 80 columns", () => {
  test("show all of the reason of a job below its row, on a terminal, and one line a job in a pipe", async () => {
    const { lines, words } = await shown(onEighty("job", "list", "--pipeline", FAILING));
    expect(words).toContain(REASON);
    const row = lines.find((line) => line.includes(failedJob.slice(0, 13)));
    expect(row).toMatch(/ failure {2}0 of 1, 1 failed {2}\d\d:\d\d:\d\d$/);
    expect((await shown(onEighty("job", "datums", failedJob))).words).toContain(REASON);
    const piped = (await ok("job", "list", "--pipeline", FAILING)).trimEnd().split("\n");
    expect(piped).toHaveLength(2);
    expect(piped[1]).toMatch(/ \d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d\d:\d\d {2}/);
    expect(piped[1]).toContain(REASON);
    expect(piped[1]).toContain(failedJob);
  });

  test("show what a node runs below its row, and its idle workers as a number", async () => {
    const trouble = `the image registry.example.org/images/${"long/".repeat(16)}totals:1 can't be pulled`;
    await runner.heartbeat({
      work: [
        { pipeline: PIPELINE, workers: 4, running: 2 },
        { pipeline: "idle-one", workers: 5, running: 0 },
        { pipeline: "broken", workers: 1, running: 0, trouble },
      ],
      bounds: { running: 16, workers: 256 },
    });
    const { lines, words } = await shown(onEighty("node", "list"));
    const row = lines.findIndex((line) => line.startsWith("edge-7 "));
    expect(lines[row]).toMatch(/^edge-7 +live +fake +1 +16 +256 +\d\d:\d\d:\d\d$/);
    expect(lines[row + 1]).toMatch(/^ {4}\S/);
    expect(words).toContain(`${PIPELINE}: 2 datums; broken: 0 datums, in trouble: the image`);
    expect(words.replaceAll(" ", "")).toContain(trouble.replaceAll(" ", ""));
    expect(words).toContain("; 8 idle workers");
    expect(words).not.toContain("idle-one");
    expect(await ok("node", "list")).toMatch(/^edge-7 .* {2}.*: 2 datums in 4 workers; idle-one: 0 datums /m);
    await runner.heartbeat();
  });
});

describe("a job that waits", () => {
  test("is waiting in lists, and in no other state", async () => {
    await s3.put(`master.${PIPELINE}-in`, "b", "2");
    const { lease } = await leaseOne(PIPELINE);
    await s3.put(`master.${PIPELINE}-in`, "c", "3");
    const [waits, runs] = await eventually("two jobs have not ended", async () => {
      const [newer, older] = await jobs();
      return newer?.waitsFor === "job" && older && !older.finishedAt ? [newer, older] : undefined;
    });
    const idsOf = (found: readonly Job[]): string[] => found.map(({ id }) => id);
    await eventually("it is in the list of those that wait", async () =>
      idsOf(await jobs("--state", "waiting")).includes(waits.id),
    );
    expect(idsOf(await jobs("--state", "running"))).toEqual([runs.id]);
    expect(["starting", "running"]).toContain(waits.state);
    const table = await ok("job", "list", "--pipeline", PIPELINE);
    expect(table).toMatch(new RegExp(`^${waits.id} .* waiting .* behind job ${runs.id}$`, "m"));
    expect(table).toMatch(new RegExp(`^${runs.id} .* running `, "m"));
    expect(await ok("job", "inspect", waits.id)).toMatch(/^state +waiting \(behind job /m);
    await runner.finish(PIPELINE, [
      {
        lease,
        state: "success",
        exitCode: 0,
        millis: 1,
        ran: { executor: "process", image: null },
        outputs: [],
      },
    ]);
    await runner.work(PIPELINE, { count: 1 });
    await control.ended(PIPELINE, { count: 2 });
  });
});

describe("sluice status", () => {
  test("is what the console shows now: what failed, what waits and why, what runs, the nodes, what is stopped", async () => {
    const runs = "status-runs";
    await makePipeline(runs);
    await makePipeline("status-stopped");
    await ok("pipeline", "stop", "status-stopped");
    await makePipeline("status-waits");
    await s3.put("master.status-waits-in", "a", "1");
    for (const key of ["d", "e", "f"]) await s3.put(`master.${runs}-in`, key, key);
    const { lease } = await leaseOne(runs);
    await eventually("two wait behind it", async () => {
      const { underWay } = Overview.parse(parseCliJson(await ok("status", "--json")));
      return underWay.filter(({ waitsFor }) => waitsFor === "job").length === 2;
    });
    const { lines, words } = await shown(onEighty("status"));
    expect(words).toContain("1 running, 3 waiting, 1 failed since yesterday; ");
    expect(words).toContain("1 live node, 0 commands running");
    expect(words).toContain("stopped: status-stopped; it follows no input");
    expect(words).toContain(REASON);
    expect(words).toContain("no live node has a worker for it yet");
    expect(words).toMatch(new RegExp(`${runs} .*behind job [0-9A-Z]{26}; and 1 job behind it`));
    const titles = lines.flatMap((line) => /^(FAILED|WAITING|RUNNING) /.exec(line)?.[1] ?? []);
    expect(titles).toEqual(["FAILED", "WAITING", "RUNNING"]);
    const piped = await ok("status");
    expect(piped).toMatch(new RegExp(`^${runs} +[0-9A-Z]{26} +0 of 1 .* its datums run$`, "m"));

    // In a pipe, what changes.
    const watched = start(sluiceCommand(["status", "--watch"]), { cwd: ROOT, env: sluiceEnv(server) });
    const onScreen = onEighty("status", "--watch");
    await eventually("it tells how things are", () => watched.output().includes("RUNNING"));
    await onScreen.shows("1 running, 3 waiting");
    await runner.finish(runs, [
      {
        lease,
        state: "success",
        exitCode: 0,
        millis: 1,
        ran: { executor: "process", image: null },
        outputs: [],
      },
    ]);
    await runner.work(runs, { count: 2 });
    await control.ended(runs, { count: 3 });
    await onScreen.shows("0 running, 1 waiting");
    await eventually("it tells what has changed", () =>
      /^\S+ \S+ \S+ {2}0 running, 1 waiting, /m.test(watched.output()),
    );
    expect(watched.output()).toMatch(new RegExp(`^\\S+ \\S+ \\S+ {2}${runs} [0-9A-Z]{26} {2}success`, "m"));
    expect(watched.output().match(/^WAITING/gm)).toHaveLength(1);
    await watched.stop();
    onScreen.type("\u0003");
    await onScreen.ended;
  });
});

describe("in a pipe, what waits", () => {
  test("says on stderr each 10 s what is left", { timeout: 120_000 }, async () => {
    await makePipeline("slowly");
    for (const key of ["a", "b"]) await s3.put("master.slowly-in", key, key);
    await eventually("both files are in one job or two", async () => {
      const [job] = await control.jobs("slowly");
      return job?.datums.total && (await control.ask("GET", `/jobs/${job.id}`)).status === 200;
    });
    const begin = (...args: string[]) => start(sluiceCommand(args), { cwd: ROOT, env: sluiceEnv(server) });
    const waits = [begin("job", "wait", "--pipeline", "slowly"), begin("commit", "wait", "master.slowly-in")];
    const line = /^waiting for job [0-9A-Z]{26} of slowly: waiting, \d of \d datums? left \(/m;
    for (const wait of waits) await eventually("a line is there", () => line.test(wait.output()));
    await runner.work("slowly", { count: 2 });
    for (const wait of waits) {
      const { code, stdout } = await wait.ended;
      expect(code).toBe(0);
      expect(stdout.toString()).not.toContain("waiting for");
    }
  });
});

describe("sluice commit list", () => {
  async function madeKey(...args: string[]): Promise<Door & { readonly id: string }> {
    const { id, secret } = JSON.parse(await ok("key", "create", ...args, "--json"));
    return { endpoint: server.endpoint, accessKeyId: id, secretAccessKey: secret, id };
  }

  test("names keys by what they are for, to who may list keys, and in JSON beside the id", async () => {
    await s3.createBucket("master.keyed");
    const camera = await madeKey("--level", "write", "--description", "camera upload");
    const second = await madeKey("--level", "write", "--description", "camera upload");
    const bare = await madeKey("--level", "write");
    for (const [index, key] of [camera, bare].entries())
      await new S3(key).put("master.keyed", `${index}`, "x");
    const list = await ok("commit", "list", "master.keyed");
    expect(list).toMatch(/ {2}camera upload$/m);
    expect(list).not.toContain(camera.id);
    expect(list).toContain(bare.id);
    const { commits } = JSON.parse(await ok("commit", "list", "master.keyed", "--json"));
    expect(commits).toMatchObject([{ key: bare.id }, { key: camera.id, keyDescription: "camera upload" }]);
    expect(commits[0]).not.toHaveProperty("keyDescription");
    // A key that may not list keys sees ids.
    expect(await sluiceOk(camera, "commit", "list", "master.keyed")).toContain(camera.id);
    await new S3(second).put("master.keyed", "2", "x");
    const both = await ok("commit", "list", "master.keyed");
    for (const { id } of [camera, second]) expect(both).toContain(`camera upload (${id})`);
    const screen = await shown(onEighty("commit", "list", "master.keyed"));
    expect(screen.words).toContain(`camera upload (${second.id.slice(0, 13)}`);
  });
});
