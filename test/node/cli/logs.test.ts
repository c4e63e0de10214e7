// @module-tag rest
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { LogLine } from "../../../protocol/pipelines.ts";
import type { LeasedDatum } from "../../../protocol/runner.ts";
import { parseCliJson } from "../../support/cli-json.ts";
import { Control } from "../../support/control.ts";
import {
  type DevServer,
  ROOT,
  sluice,
  sluiceCommand,
  sluiceEnv,
  sluiceOk,
  startDevServer,
} from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { FakeRunner, succeeded } from "../../support/fake-runner.ts";
import { type Started, start } from "../../support/processes.ts";
import { S3 } from "../../support/s3.ts";

let server: DevServer;
let control: Control;
let s3: S3;
let runner: FakeRunner;

beforeAll(async () => {
  server = await startDevServer();
  control = new Control(server);
  s3 = new S3(server);
  runner = new FakeRunner(server, { node: "edge-1" });
});
afterAll(() => server?.stop());

/** A pipeline with a job of these files, all of them at work; by file. */
async function running(name: string, ...files: string[]): Promise<Map<string, LeasedDatum>> {
  await s3.createBucket(`master.${name}-in`);
  await control.createPipeline({
    pipeline: { name },
    transform: { image: "busybox", cmd: ["true"] },
    parallelism_spec: { strategy: "CONSTANT", constant: 1 },
    inputs: [{ repo: { name: `${name}-in` }, glob: "/*" }],
  });
  const found = new Map<string, LeasedDatum>();
  for (const file of files) await s3.put(`master.${name}-in`, file, file);
  while (found.size < files.length) {
    const { datums } = await runner.lease(name, { max: 8 });
    for (const datum of datums) found.set(datum.inputs[0]?.path ?? "", datum);
  }
  const [first] = found.values();
  await eventually("the job is found by its id", () => control.job(first?.job ?? ""));
  return found;
}

function leasedAgain(pipeline: string): Promise<LeasedDatum> {
  return eventually("a datum is leased again", async () => (await runner.lease(pipeline)).datums[0]);
}

function datumOf(datums: ReadonlyMap<string, LeasedDatum>, file: string): LeasedDatum {
  const datum = datums.get(file);
  if (!datum) throw new Error(`nothing was leased for ${file}`);
  return datum;
}

const short = ({ datum }: LeasedDatum): string => datum.slice(0, 12);

/** A `sluice` command that goes on while the test does. */
function background(...args: string[]): Started {
  return start(sluiceCommand(args), { cwd: ROOT, env: sluiceEnv(server) });
}

function hasPrinted(started: Started, text: string): Promise<unknown> {
  return eventually(`'${text}' is printed`, () => started.output().includes(text));
}

const finish = (pipeline: string, datum: LeasedDatum) => runner.finish(pipeline, [succeeded(datum, [])]);

describe("sluice job logs", () => {
  test("shows what a job printed, of one datum or of all, with times where they are asked for", async () => {
    const a = datumOf(await running("show", "a"), "a");
    await runner.print("show", { lease: a.lease, seq: 0, lines: ["one", "", "  é 🎉"] });
    const id = short(a);
    expect(await sluiceOk(server, "job", "logs", a.job)).toBe("/a  one\n/a  \n/a    é 🎉\n");
    const one = await sluiceOk(server, "job", "logs", a.job, "--datum", id, "--timestamps");
    expect(one).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z {2}\/a {2}one$/m);
    const json = (await sluiceOk(server, "job", "logs", a.job, "--json")).trimEnd().split("\n");
    expect(json.map((line) => LogLine.parse(parseCliJson(line)).line)).toEqual(["one", "", "  é 🎉"]);
    const { code, stderr } = await sluice(server, "job", "logs", a.job, "--datum", "ffff0000");
    expect({ code, stderr }).toEqual({ code: 7, stderr: expect.stringContaining("has no datum 'ffff0000'") });
  });

  test("shows what came on one stream, of the last lines and of what failed, too", async () => {
    const a = datumOf(await running("streams", "a"), "a");
    const lines = ["reading", "no such column", "reading on", "gave up"];
    await runner.print("streams", { lease: a.lease, seq: 0, lines, stderr: [1, 3] });
    const logs = (...args: string[]) => sluiceOk(server, "job", "logs", a.job, ...args);
    expect(await logs("--stream", "stderr")).toBe("/a  no such column\n/a  gave up\n");
    expect(await logs("--stream", "stdout", "--tail", "1")).toBe("/a  reading on\n");
    const json = (await logs("--json")).trimEnd().split("\n");
    expect(json.map((line) => LogLine.parse(parseCliJson(line)).stream)).toEqual([
      "stdout",
      "stderr",
      "stdout",
      "stderr",
    ]);
    const { code, stderr } = await sluice(server, "job", "logs", a.job, "--stream", "stdin");
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining("stdout, stderr") });
  });

  test("follows a job live, through the death of the gateway, without a line lost or shown twice", {
    timeout: 180_000,
  }, async () => {
    const a = datumOf(await running("live", "a"), "a");
    const follower = background("job", "logs", a.job, "--follow");
    const line = (text: string): string => `/a  ${text}\n`;
    await runner.print("live", { lease: a.lease, seq: 0, lines: ["one", "two"] });
    await hasPrinted(follower, line("two"));
    await server.kill9();
    await hasPrinted(follower, "is lost; trying again");
    await server.restart();
    // Where that took long, the lease has run out, and another try goes on.
    const [lost] = await runner.print("live", { lease: a.lease, seq: 1, lines: ["three"] });
    const held = lost === undefined ? a : await leasedAgain("live");
    if (held !== a) await runner.print("live", { lease: held.lease, seq: 0, lines: ["three"] });
    await hasPrinted(follower, line("three"));
    await runner.print("live", { lease: held.lease, seq: 2, lines: ["four"] });
    await finish("live", held);
    const { code, stdout } = await follower.ended;
    expect(code).toBe(0);
    expect(stdout.toString()).toBe(["one", "two", "three", "four"].map(line).join(""));
  });

  test("is ended by Ctrl-C, and says nothing about it", async () => {
    const a = datumOf(await running("stop", "a"), "a");
    const follower = background("job", "logs", a.job, "-f");
    await runner.print("stop", { lease: a.lease, seq: 0, lines: ["here"] });
    await hasPrinted(follower, "here");
    follower.signal("SIGINT");
    const { signal, stdout, stderr } = await follower.ended;
    expect({ signal, stdout: stdout.toString(), stderr }).toEqual({
      signal: "SIGINT",
      stdout: "/a  here\n",
      stderr: "",
    });
    await finish("stop", a);
  });

  test("tells of lines that were left out, and goes on behind the last line that came whole", async () => {
    const record = (n: number, more: object = {}): string =>
      JSON.stringify({ datum: "d".repeat(64), node: "n", at: 0, line: `${n}`, next: `${n}.1`, ...more });
    const asked: (string | null)[] = [];
    const gateway = createServer((request, response) => {
      const { pathname, searchParams } = new URL(request.url ?? "", "http://gateway");
      if (pathname.endsWith("/datums")) {
        // A datum that the job does not list is told by its id.
        response.end(JSON.stringify({ datums: [], next: null }));
        return;
      }
      asked.push(searchParams.get("after"));
      if (asked.length === 2) {
        response.writeHead(503).end();
        return;
      }
      response.writeHead(200, { "content-type": "application/x-ndjson" });
      if (asked.length === 1) {
        const whole = `${record(1, { dropped: 1234 })}\n\n`;
        response.write(`${whole}${record(2).slice(0, 20)}`, () => response.socket?.destroy());
      } else response.end(`${record(2)}\n${record(3, { line: null, dropped: 1 })}\n`);
    });
    gateway.listen(0, "127.0.0.1");
    await once(gateway, "listening");
    try {
      const { port } = gateway.address() as AddressInfo;
      const door = { ...server, endpoint: `http://127.0.0.1:${port}` };
      const { code, stdout } = await sluice(door, "job", "logs", "01AAAAAAAAAAAAAAAAAAAAAAAA");
      const id = "d".repeat(12);
      expect(stdout.toString()).toBe(
        `${id}  … 1234 lines left out\n${id}  1\n${id}  2\n${id}  … 1 line left out\n`,
      );
      expect({ code, asked }).toEqual({ code: 0, asked: [null, "1.1", "1.1"] });
    } finally {
      gateway.close();
    }
  });
});
