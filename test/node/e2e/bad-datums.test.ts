// @module-tag rest
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Job, JobRetry } from "../../../protocol/pipelines.ts";
import { parseCliJson } from "../../support/cli-json.ts";
import { Control } from "../../support/control.ts";
import { type DevServer, sluice, sluiceOk, startDevServer, startRunner } from "../../support/dev-server.ts";
import type { Started } from "../../support/processes.ts";
import { S3 } from "../../support/s3.ts";
import { scratchFolder } from "../../support/scratch.ts";

let server: DevServer;
let control: Control;
let s3: S3;
let runner: Started;

beforeAll(async () => {
  server = await startDevServer();
  control = new Control(server);
  s3 = new S3(server);
  runner = startRunner(server, { node: "n1" });
});
afterAll(async () => {
  await runner?.stop();
  await server?.stop();
});

const ok = (...args: string[]): Promise<string> => sluiceOk(server, ...args);

/** A folder of CSV files of two columns; the broken ones lack the second in a line. */
function folderOf(files: Readonly<Record<string, string>>): string {
  const folder = scratchFolder();
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  return folder;
}

/** Adds up the second column, and fails a file that lacks it. */
const sums = (name: string, more: object = {}): object => ({
  pipeline: { name },
  transform: {
    image: "busybox",
    cmd: ["sh", "-eu"],
    stdin: [
      "file=$(ls /pfs/tables)",
      'awk -F, \'NF != 2 { print FILENAME ": line " FNR " has " NF " columns"; exit 7 } { sum += $2 }',
      '  END { print sum > "/pfs/out/sum" }\' "/pfs/tables/$file" >&2',
      'mv /pfs/out/sum "/pfs/out/$file.sum"',
    ],
  },
  inputs: [{ name: "tables", repo: { name: `${name}-in` }, glob: "/*" }],
  onDatumFailure: "skip",
  ...more,
});

async function lastJob(pipeline: string, jobs: number): Promise<Job> {
  const all = await control.ended(pipeline, { count: jobs });
  return all.at(-1) as Job;
}

describe("one broken file of many", () => {
  test("is left out and told of in the errors bucket; mended, it is in the output and its file is gone", async () => {
    await s3.createBucket("master.sums-in");
    await control.createPipeline(sums("sums"));
    const tables = Array.from({ length: 8 }, (_, index) => [`t${index}.csv`, `a,${index}\nb,10\n`]);
    const folder = folderOf({ ...Object.fromEntries(tables), "broken.csv": "a,1\nb\n" });
    await ok("cp", "-r", folder, "s3://master.sums-in");
    const job = await lastJob("sums", 1);
    expect(job).toMatchObject({ state: "success", datums: { processed: 8, failed: 1 } });
    expect(await ok("job", "list", "--pipeline", "sums")).toMatch(
      / success .* 8 of 9, 1 failed .*1 datum failed and is left out: s3:\/\/errors\.sums/,
    );
    expect(await s3.keys("master.sums")).toEqual(tables.map(([name]) => `${name}.sum`));
    const [path = ""] = await s3.keys("errors.sums");
    const told = JSON.parse(await ok("cat", `s3://errors.sums/${path}`));
    expect(told).toMatchObject({
      ...{ job: job.id, exitCode: 7, tries: 3, node: "n1" },
      inputs: [{ name: "tables", path: "broken.csv", commit: await s3.headCommit("master.sums-in") }],
      log: [expect.stringContaining("line 2 has 1 columns")],
    });
    expect(await ok("ls", "s3://errors.sums/errors/")).toContain(`${told.datum}.json`);
    expect(await ok("job", "inspect", job.id)).toMatch(/^errors +s3:\/\/errors\.sums at [0-9A-Z]{26}$/m);

    await s3.put("master.sums-in", "broken.csv", "a,1\nb,2\n");
    expect(await lastJob("sums", 2)).toMatchObject({ state: "success", datums: { processed: 1, failed: 0 } });
    expect(await s3.keys("errors.sums")).toEqual([]);
    expect(`${await s3.get("master.sums", "broken.csv.sum")}`).toBe("3\n");
  });

  test("can't be written over in the errors bucket by anybody", async () => {
    const put = await s3.ask("PUT", "/errors.sums/errors/x.json", "{}");
    expect(put.status).toBe(403);
    expect((await s3.ask("DELETE", "/errors.sums")).status).toBe(403);
  });

  test("fails its job by default, which can be retried", async () => {
    await s3.createBucket("master.late-in");
    const script = ["[ -e /pfs/in/good ] || cat /pfs/in/never", "cp /pfs/in/* /pfs/out/"];
    await control.createPipeline({
      pipeline: { name: "late" },
      transform: { image: "busybox", cmd: ["sh", "-eu"], stdin: script },
      inputs: [{ name: "in", repo: { name: "late-in" }, glob: "/*" }],
      datumTries: 1,
    });
    await ok("cp", "-r", folderOf({ good: "1", bad: "2" }), "s3://master.late-in");
    const failed = await lastJob("late", 1);
    expect(failed).toMatchObject({ state: "failure", datums: { processed: 1, failed: 1 } });
    const retried = JobRetry.parse(parseCliJson(await ok("job", "retry", failed.id, "--json")));
    expect(retried).toMatchObject({ newest: failed.id, job: { pipeline: "late" } });
    const second = await lastJob("late", 2);
    expect(second).toMatchObject({ id: retried.job.id, datums: { processed: 0, skipped: 1, failed: 1 } });

    const old = await sluice(server, "job", "retry", failed.id, "--all");
    expect(old.code).toBe(0);
    expect(old.stderr).toContain(`${failed.id} is not the newest job of late, which was ${second.id}`);
    const third = await lastJob("late", 3);
    expect(old.stdout.toString().trim()).toBe(third.id);
    expect(third.datums).toEqual({ total: 2, processed: 1, skipped: 0, failed: 1 });

    const both = await sluice(server, "job", "retry", failed.id, "--all", "--failed");
    expect(both.code).not.toBe(0);
    expect(both.stderr).toContain("--failed");
    await ok("pipeline", "stop", "late");
    const stopped = await sluice(server, "job", "retry", failed.id);
    expect(stopped.code).toBe(1);
    expect(stopped.stderr).toContain("sluice pipeline start late");
  });

  test("whose failure is the node's fails the job: an image's command that is not there", async () => {
    await s3.createBucket("master.absent-in");
    await control.createPipeline({
      ...sums("absent", { datumTries: 1 }),
      transform: { image: "busybox", cmd: ["no-such-command-anywhere"] },
    });
    await ok("cp", "-r", folderOf({ "a.csv": "a,1\n" }), "s3://master.absent-in");
    const job = await lastJob("absent", 1);
    expect(job.state).toBe("failure");
    expect(job.reason).not.toContain("every datum that ran failed");
    expect(await s3.keys("errors.absent")).toEqual([]);
  });
});
