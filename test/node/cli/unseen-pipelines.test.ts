// @module-tag rest
import { afterAll, beforeAll, describe, expect, test } from "vitest";
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
import { FakeRunner } from "../../support/fake-runner.ts";
import type { Door } from "../../support/keys.ts";
import { type Started, start } from "../../support/processes.ts";
import { S3 } from "../../support/s3.ts";
import { onTerminal } from "../../support/terminal.ts";

let server: DevServer;
let s3: S3;
let control: Control;
let runner: FakeRunner;

beforeAll(async () => {
  server = await startDevServer();
  s3 = new S3(server);
  control = new Control(server);
  runner = new FakeRunner(server, { node: "fake" });
  await runner.heartbeat();
});
afterAll(() => server?.stop());

/** A key, and the door to the gateway with it. */
async function doorOf(...options: string[]): Promise<Door> {
  const made = JSON.parse(await sluiceOk(server, "key", "create", ...options, "--json"));
  return {
    endpoint: server.endpoint,
    accessKeyId: made.id ?? made.accessKeyId,
    secretAccessKey: made.secret ?? made.secretAccessKey,
  };
}

async function pipeline(name: string, reads: readonly string[]): Promise<void> {
  await control.createPipeline({
    pipeline: { name },
    transform: { image: "busybox", cmd: ["true"] },
    parallelism_spec: { strategy: "CONSTANT", constant: 1 },
    datumTries: 1,
    inputs: reads.map((repo) => ({ repo: { name: repo }, glob: "/*" })),
  });
}

async function failOne(name: string): Promise<void> {
  const [datum] = await eventually("a datum is leased", async () => {
    const { datums } = await runner.lease(name, { max: 1 });
    return datums.length > 0 ? datums : undefined;
  });
  if (!datum) throw new Error("nothing was leased");
  const fault = { exitCode: 1, reason: "/var/runner/secret", log: "password=hush", millis: 1 };
  await runner.finish(name, [{ lease: datum.lease, state: "failed", blame: "datum", ...fault }]);
}

function waiting(door: Door, ...args: string[]): Started {
  return start(sluiceCommand(["commit", "wait", ...args]), {
    cwd: ROOT,
    env: { ...sluiceEnv({ ...server, ...door }) },
  });
}

describe("sluice commit wait with a key for some repos", () => {
  test("waits for pipelines that it may not see, and ends with 3 if one failed", {
    timeout: 120_000,
  }, async () => {
    for (const repo of ["plain", "private"]) await s3.createBucket(`master.${repo}`);
    await pipeline("alone", ["plain"]);
    await pipeline("after", ["alone"]);
    await pipeline("joins", ["plain", "private"]);
    const key = await doorOf("--level", "read", "--repo", "plain");
    await s3.put("master.plain", "a", "a");
    await s3.put("master.private", "b", "b");
    await eventually("it is joined", async () =>
      (await control.jobs("joins")).length > 0 ? true : undefined,
    );
    const begun = waiting(key, "master.plain");
    await runner.work("alone", { count: 1 });
    await runner.work("after", { count: 1 });
    await failOne("joins");
    const { code, stdout, stderr } = await begun.ended;
    const said = stdout.toString();
    expect({ code, stderr }).toEqual({ code: 3, stderr: "" });
    expect(said).toMatch(/^- +alone +success +-/m);
    expect(said).toContain("pipelines that this key may not see: 1 failed, 1 succeeded");
    expect(said + stderr).not.toMatch(/after|joins|private|hush|secret/);
    const json = JSON.parse(
      (await sluice({ ...server, ...key }, "commit", "wait", "master.plain", "--json")).stdout.toString(),
    );
    expect(json).toMatchObject({
      jobs: [],
      named: [{ pipeline: "alone", state: "success", reason: null }],
      unseen: { failure: 1, success: 1, running: 0, killed: 0, none: 0, unknown: 0 },
    });
  });

  describe("ends with the worst of all jobs, or is refused:", () => {
    beforeAll(async () => {
      for (const repo of ["kinds", "kinds-2"]) await s3.createBucket(`master.${repo}`);
      await pipeline("kind", ["kinds"]);
      await pipeline("pair", ["kinds-2", "kinds"]);
      for (const repo of ["kinds", "kinds-2"]) await s3.put(`master.${repo}`, "a", "a");
      for (const name of ["kind", "pair"]) await failOne(name);
      for (const name of ["kind", "pair"]) await control.ended(name, { count: 1 });
    });

    const whole = /\bkind +failure .*password=hush$/m;
    const named = /^- +kind +failure +- +datum \/a failed after 1 try: exit code 1$/m;
    const counted = /^1 pipeline that this key may not see: 1 failed\n$/;
    const refused = /^error: The access key allows/;
    test.each([
      ["the root key", [], "kinds", 3, whole],
      ["a key that may read everything", ["--level", "read"], "kinds", 3, whole],
      ["an administrator's key", ["--level", "admin"], "kinds", 3, whole],
      ["a key for the input", ["--level", "read", "--repo", "kinds"], "kinds", 3, named],
      ["a key for one of two inputs", ["--level", "write", "--repo", "kinds-2"], "kinds-2", 3, counted],
      ["a key for another repo", ["--level", "admin", "--repo", "plain"], "kinds", 1, refused],
      ["a runner's key", ["--level", "runner"], "kinds", 1, refused],
    ] as const)("%s", async (_, options, repo, code, says) => {
      const door = options.length === 0 ? server : { ...server, ...(await doorOf(...options)) };
      const ended = await sluice(door, "commit", "wait", repo);
      const said = `${ended.stdout}${ended.stderr}`;
      expect({ code: ended.code, said }).toEqual({ code, said: expect.stringMatching(says) });
      if (says !== whole) expect(said).not.toMatch(/pair|hush|secret/);
    });
  });

  test("does not wait for one that makes no job of it", async () => {
    for (const repo of ["still", "empty"]) await s3.createBucket(`master.${repo}`);
    await pipeline("stands", ["still"]);
    await pipeline("lacks", ["still", "empty"]);
    await sluiceOk(server, "pipeline", "stop", "stands");
    await s3.put("master.still", "a", "a");
    const key = await doorOf("--level", "read", "--repo", "still");
    const { code, stdout, stderr } = await sluice({ ...server, ...key }, "commit", "wait", "still");
    expect({ code, stdout: stdout.toString() }).toEqual({ code: 0, stdout: "no job was made of it\n" });
    expect(stderr).toContain("stands makes no job of it: it is stopped\n");
    expect(stderr).toContain("1 pipeline that this key may not see makes no job of it\n");
  });

  test("ends with 5 if one was stopped, and with 6 when its time is up", async () => {
    for (const repo of ["given", "hid"]) await s3.createBucket(`master.${repo}`);
    await pipeline("ends", ["given", "hid"]);
    for (const repo of ["hid", "given"]) await s3.put(`master.${repo}`, "a", "a");
    await eventually("it has a job", async () =>
      (await control.jobs("ends")).length > 0 ? true : undefined,
    );
    const key = await doorOf("--level", "read", "--repo", "given");
    const late = await sluice({ ...server, ...key }, "commit", "wait", "given", "--timeout", "1");
    expect({ code: late.code, stderr: late.stderr }).toEqual({
      code: 6,
      stderr: "error: 1 pipeline that this key may not see has not ended after 1 s\n",
    });
    const begun = waiting(key, "given");
    await sluiceOk(server, "pipeline", "stop", "ends");
    expect((await begun.ended).code).toBe(5);
  });

  test("shows how many are at it, and passes over none that is deleted meanwhile", async () => {
    for (const repo of ["short", "lived"]) await s3.createBucket(`master.${repo}`);
    await pipeline("goes", ["short", "lived"]);
    for (const repo of ["lived", "short"]) await s3.put(`master.${repo}`, "a", "a");
    await eventually("it has a job", async () =>
      (await control.jobs("goes")).length > 0 ? true : undefined,
    );
    const key = await doorOf("--level", "read", "--repo", "short");
    const env = sluiceEnv({ ...server, ...key });
    const terminal = onTerminal(sluiceCommand(["commit", "wait", "short"]), { env, cwd: ROOT });
    await terminal.shows("1 pipeline that this key may not see: running");
    await sluiceOk(server, "pipeline", "delete", "goes");
    const code = await terminal.ended;
    // Its job was killed, which the last look saw or came too late for.
    const says = code === 5 ? "1 stopped" : "what became of it is not known any more";
    expect({ code, said: terminal.screen() }).toEqual({
      code: expect.toBeOneOf([0, 5]),
      said: expect.stringContaining(`1 pipeline that this key may not see: ${says}`),
    });
  });
});
