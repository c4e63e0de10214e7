// @module-tag rest
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { DatumPage, Job, LogLine, Pipeline, PipelineList } from "../../../protocol/pipelines.ts";
import { parseCliJson } from "../../support/cli-json.ts";
import { Control } from "../../support/control.ts";
import { type DevServer, sluice, sluiceOk, startDevServer, startRunner } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { FakeRunner, nameOf } from "../../support/fake-runner.ts";
import type { Ended, Started } from "../../support/processes.ts";
import { S3 } from "../../support/s3.ts";
import { scratchFolder } from "../../support/scratch.ts";

let server: DevServer;
let control: Control;
let s3: S3;

beforeAll(async () => {
  server = await startDevServer();
  control = new Control(server);
  s3 = new S3(server);
});
afterAll(() => server?.stop());

function cli(...args: string[]): Promise<Ended> {
  return sluice(server, ...args);
}

function ok(...args: string[]): Promise<string> {
  return sluiceOk(server, ...args);
}

async function okJson(...args: string[]): Promise<unknown> {
  return parseCliJson(await ok(...args, "--json"));
}

function spec(name: string, script: string, more: object = {}): Record<string, unknown> {
  return {
    pipeline: { name },
    transform: { image: "busybox", cmd: ["sh", "-eu"], stdin: [script] },
    inputs: [{ repo: { name: `${name}-in` }, glob: "/*" }],
    ...more,
  };
}

function specFile(content: unknown): string {
  const file = join(scratchFolder(), "spec.json");
  writeFileSync(file, JSON.stringify(content));
  return file;
}

async function createPipeline(name: string, script: string, more: object = {}): Promise<void> {
  await s3.createBucket(`master.${name}-in`);
  await control.createPipeline(spec(name, script, more));
}

/** The id of a pipeline's job, counted from the oldest, once `sluice job` can find it. */
function jobOf(pipeline: string, index = 0): Promise<string> {
  return eventually(`${pipeline} has job ${index}`, async () => {
    const id = (await control.jobs(pipeline))[index]?.id;
    return id !== undefined && (await control.ask("GET", `/jobs/${id}`)).status === 200 ? id : undefined;
  });
}

describe("a pipeline on the command line", () => {
  test("is stopped and started, and says so in its lists", async () => {
    await createPipeline("halt", "true");
    await s3.put("master.halt-in", "a", "1");
    const job = await jobOf("halt");
    expect(await ok("pipeline", "stop", "halt")).toBe("stopped halt\n");
    expect(Pipeline.parse(await okJson("pipeline", "stop", "halt"))).toMatchObject({ state: "stopped" });
    expect(await ok("pipeline", "list")).toMatch(/^halt +stopped /m);
    const list = PipelineList.parse(await okJson("pipeline", "list"));
    expect(list.pipelines.find(({ name }) => name === "halt")?.state).toBe("stopped");
    const waited = await cli("job", "wait", job);
    expect(waited.code).toBe(5);
    expect(waited.stdout.toString()).toMatch(/^state +killed \(the pipeline was stopped\)$/m);
    expect(await ok("pipeline", "start", "halt")).toBe("started halt\n");
    expect((await cli("pipeline", "start", "nobody")).stderr).toContain("nobody");
  });

  test("is updated, and every datum again where that is asked for", async () => {
    await createPipeline("renew", "true");
    const file = specFile(spec("renew", "false"));
    expect(await ok("pipeline", "update", "-f", file)).toBe("renew is at version 2 of its spec\n");
    expect(await okJson("pipeline", "update", "-f", file, "--reprocess")).toMatchObject({ version: 3 });
    expect(await ok("pipeline", "inspect", "renew")).toMatch(/^version +3$/m);
    const moved = specFile(spec("renew", "false", { outputBranch: "other" }));
    const { code, stderr } = await cli("pipeline", "update", "-f", moved);
    expect(code).toBe(1);
    expect(stderr).toMatch(/^ {2}outputBranch: /m);
  });

  test("is not deleted while another one reads its output, unless that is forced", async () => {
    await createPipeline("first", "true");
    await control.createPipeline({
      ...spec("second", "true"),
      inputs: [{ repo: { name: "first" }, glob: "/*" }],
    });
    const { code, stderr } = await cli("pipeline", "delete", "first");
    expect(code).toBe(1);
    expect(stderr).toContain("second");
    expect((await cli("pipeline", "delete", "first", "--force")).stderr).toBe(
      "its output was read by the pipeline second: the input is empty now\n",
    );
    expect(await control.pipelineNames()).not.toContain("first");
  });
});

describe("a job on the command line", () => {
  test("is stopped", async () => {
    await createPipeline("kill", "true");
    await s3.put("master.kill-in", "a", "1");
    const id = await jobOf("kill");
    expect(await ok("job", "stop", id)).toBe(`stopped ${id} of kill\n`);
    expect(Job.parse(await okJson("job", "stop", id))).toMatchObject({ state: "killed" });
    expect(await ok("job", "list", "--pipeline", "kill")).toMatch(/ killed .* it was stopped$/m);
    expect(await ok("job", "list", "--pipeline", "kill", "--state", "running")).not.toContain("killed");
    const misspelled = await cli("job", "list", "--pipeline", "kilt");
    expect(misspelled).toMatchObject({ code: 7, stderr: expect.stringContaining("did you mean 'kill'?") });
    expect((await cli("job", "stop", "01AAAAAAAAAAAAAAAAAAAAAAAA")).code).toBe(7);
  });

  describe("with a runner", () => {
    let runner: Started;
    beforeAll(() => {
      runner = startRunner(server, { node: "jobs-test" });
    });
    afterAll(() => runner?.stop());

    test("shows its datums and what the failed ones wrote", async () => {
      await createPipeline("mixed", 'echo "looked at $mixed_in"; test "$(cat $mixed_in)" = good', {
        datumTries: 1,
      });
      await s3.put("master.mixed-in", "b", "bad");
      await s3.put("master.mixed-in", "g", "good");
      await control.ended("mixed", { count: 2 });
      const id = await jobOf("mixed");
      const page = DatumPage.parse(await okJson("job", "datums", id));
      expect(page).toMatchObject({
        datums: [
          { state: "failed", exitCode: 1, node: "jobs-test", inputs: [{ name: "mixed-in", path: "b" }] },
        ],
        next: null,
      });
      expect(await ok("job", "datums", id)).toMatch(/ failed +1 +jobs-test +mixed-in:\/b +the command ended/);
      expect(await ok("job", "logs", id)).toMatch(/^\/b {2}looked at \/pfs\/mixed-in\/b$/m);
      const datum = page.datums[0]?.id ?? "";
      const printed = await ok("job", "logs", id, "--datum", datum.slice(0, 8), "--json");
      const line = LogLine.parse(parseCliJson(printed));
      expect(line).toMatchObject({ datum, node: "jobs-test", line: "looked at /pfs/mixed-in/b" });
      const later = DatumPage.parse(await okJson("job", "datums", await jobOf("mixed", 1), "--limit", "1"));
      expect(later.datums).toHaveLength(1);
      expect(later.next).not.toBeNull();
    });

    test("fails with its reason where a command hangs, and where the job takes too long", async () => {
      await createPipeline("hang", "sleep 600", { datumTries: 1, datumTimeout: "1s" });
      await s3.put("master.hang-in", "a", "1");
      const [hung] = await control.ended("hang", { count: 1 });
      expect(hung).toMatchObject({ state: "failure" });
      expect(hung?.reason).toContain("ran longer than 1s");

      await createPipeline("long", "sleep 600", { jobTimeout: "2s" });
      await s3.put("master.long-in", "a", "1");
      const [long] = await control.ended("long", { count: 1 });
      expect(long).toMatchObject({ state: "failure", reason: "the job ran longer than 2s (jobTimeout)" });
    });
  });
});

describe("a runner that vanishes while it waits for a datum", () => {
  test("is leased nothing: its slot and the next datum are another one's", async () => {
    await createPipeline("vanish", "true", { parallelism_spec: { strategy: "CONSTANT", constant: 2 } });
    const gone = new FakeRunner(server, { node: "gone" });
    const there = new FakeRunner(server, { node: "there" });
    const third = new FakeRunner(server, { node: "third" });
    // Who has run a datum holds a slot.
    for (const [runner, file] of [[gone, "a"] as const, [there, "b"] as const]) {
      await s3.put("master.vanish-in", file, "1");
      await runner.work("vanish", { count: 1 });
    }
    expect(await third.lease("vanish")).toMatchObject({ slot: false });
    const controller = new AbortController();
    const waiting = await gone.beginToWait("vanish", controller);
    controller.abort();
    await expect(waiting?.leased).rejects.toThrow();
    const last = await eventually("the third one has the slot", () => third.beginToWait("vanish"));
    await s3.put("master.vanish-in", "c", "1");
    expect((await last.leased).datums.map(nameOf)).toEqual(["vanish-in:c"]);
  });
});
