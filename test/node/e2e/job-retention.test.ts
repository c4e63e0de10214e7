// @module-tag rest
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Job } from "../../../protocol/pipelines.ts";
import { Control } from "../../support/control.ts";
import { type DevServer, sluice, sluiceOk, startDevServer } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { FakeRunner } from "../../support/fake-runner.ts";
import { S3 } from "../../support/s3.ts";

let server: DevServer;
let control: Control;
let s3: S3;

beforeAll(async () => {
  server = await startDevServer({ variables: { SLUICE_KEEP_JOBS: "3" } });
  control = new Control(server);
  s3 = new S3(server);
});
afterAll(() => server?.stop());

const EMPTY = {
  digest: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
  size: 0,
  bytes: "",
};

/** A pipeline of which so many jobs have ended, each for one more file of its input. */
async function pipelineWith(name: string, jobs: number): Promise<Job[]> {
  await s3.createBucket(`master.${name}-in`);
  await control.createPipeline({
    pipeline: { name },
    transform: { image: "ignored:1", cmd: ["true"] },
    parallelism_spec: { strategy: "CONSTANT", constant: 1 },
    inputs: [{ repo: { name: `${name}-in` }, glob: "/*" }],
  });
  const runner = new FakeRunner(server, { node: name });
  const ended: Job[] = [];
  for (let count = 1; count <= jobs; count++) {
    await s3.put(`master.${name}-in`, `file-${count}`, `${count}`);
    await runner.work(name, { count: 1, outputs: () => [{ path: `out-${count}`, ...EMPTY }] });
    // The object lists the newest ones only.
    const listed = await control.ended(name, { count: Math.min(count, 3) });
    const newest = await eventually(`job ${count} of ${name} ended`, async () => {
      const job = (await control.ended(name, { count: Math.min(count, 3) })).at(-1);
      return job && !ended.some(({ id }) => id === job.id) && job;
    });
    expect(listed.length).toBeLessThanOrEqual(3);
    ended.push(newest);
  }
  return ended;
}

describe("jobs beyond the newest ones", () => {
  test("are listed no more, and whoever asks for one is told; its commit still tells what it read", async () => {
    const jobs = await pipelineWith("kept", 5);
    const [first] = jobs;
    const id = first?.id ?? "";
    await eventually("the catalogue has three jobs", async () => {
      const all = JSON.parse(await sluiceOk(server, "job", "list", "--state", "success", "--json"));
      return all.jobs.length === 3;
    });
    const listed = JSON.parse(await sluiceOk(server, "job", "list", "--pipeline", "kept", "--json"));
    expect(listed).toMatchObject({ next: null });
    expect(listed.jobs.map((job: Job) => job.id)).toEqual(
      jobs
        .slice(2)
        .map((job) => job.id)
        .reverse(),
    );
    for (const command of [["inspect"], ["wait"], ["datums"], ["logs"], ["retry"], ["stop"]]) {
      const { code, stderr } = await sluice(server, "job", ...command, id);
      expect([command, stderr]).toEqual([
        command,
        `error: There is no job '${id}', or it is kept no more: 'sluice job list' shows those there are.\n`,
      ]);
      expect(code).toBe(7);
    }
    const told = await sluiceOk(server, "commit", "inspect", "master.kept/out-1", first?.outputCommit ?? "");
    expect(told).toContain(`job       ${id} of kept\n`);
    expect(told).toContain(`input     kept-in: s3://master.kept-in at ${first?.inputs[0]?.commit}\n`);
    expect(told).toContain(`kept-in/file-1 at ${first?.inputs[0]?.commit}\n`);
    expect(await sluiceOk(server, "job", "wait", jobs[4]?.id ?? "")).toContain("success");
  });

  test("tell which commits they read and made, and that these are kept no more", async () => {
    const jobs = await pipelineWith("reads", 3);
    const [first] = jobs;
    const id = first?.id ?? "";
    const read = first?.inputs[0]?.commit ?? "";
    await sluiceOk(server, "branch", "keep", "master.reads-in", "--commits", "1");
    await eventually("the commit that was read is kept no more", async () =>
      (await sluiceOk(server, "job", "inspect", id)).includes(
        `input     reads-in: s3://master.reads-in at ${read} (kept no more)\n`,
      ),
    );
    const told = await sluiceOk(server, "commit", "inspect", "master.reads/out-1", first?.outputCommit ?? "");
    expect(told).toContain(`reads-in/file-1 at ${read} (kept no more)\n`);
    // What is not needed by any commit of the output goes by itself, and nothing runs again for that.
    await sluiceOk(server, "branch", "keep", "master.reads", "--commits", "1");
    const runner = new FakeRunner(server, { node: "reads" });
    await s3.put("master.reads-in", "file-4", "4");
    await runner.work("reads", { count: 1, outputs: () => [{ path: "out-4", ...EMPTY }] });
    const newest = await eventually("the fourth job ended", async () => {
      const job = (await control.jobs("reads")).at(-1);
      return job?.finishedAt != null && !jobs.some((each) => each.id === job.id) && job;
    });
    expect(newest).toMatchObject({ state: "success", datums: { total: 4, processed: 1, skipped: 3 } });
    const { stderr } = await sluice(server, "commit", "inspect", "master.reads", first?.outputCommit ?? "");
    expect(stderr).toContain("no such commit, or keeps it no more");
    const [, second] = jobs;
    await eventually("the commit that was made is kept no more", async () =>
      (await sluiceOk(server, "job", "inspect", second?.id ?? "")).includes(
        `output    s3://master.reads at ${second?.outputCommit} (kept no more)\n`,
      ),
    );
  });

  test("of a pipeline that was deleted with its output are gone; with the output kept, they are told of", async () => {
    const jobs = { gone: await pipelineWith("gone", 1), stays: await pipelineWith("stays", 1) };
    await sluiceOk(server, "pipeline", "delete", "gone");
    await sluiceOk(server, "pipeline", "delete", "stays", "--keep-output");
    const [gone, stays] = [jobs.gone[0]?.id ?? "", jobs.stays[0]?.id ?? ""];
    await eventually("the jobs of the deleted pipeline are gone", async () => {
      const { code } = await sluice(server, "job", "inspect", gone);
      return code === 7;
    });
    expect(await sluiceOk(server, "job", "inspect", stays)).toContain("state     success\n");
    const commit = jobs.stays[0]?.outputCommit ?? "";
    expect(await sluiceOk(server, "commit", "inspect", "master.stays", commit)).toContain(
      `${stays} of stays`,
    );
  });
});
