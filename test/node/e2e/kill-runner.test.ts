import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { Control } from "../../support/control.ts";
import { type DevServer, startDevServer, startRunner } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import type { Started } from "../../support/processes.ts";
import { S3 } from "../../support/s3.ts";
import { removeScratch, scratchFolder } from "../../support/scratch.ts";
import { REST } from "../../support/suite.ts";

/** A lease must run out before another runner gets the datum: LEASE_MS of the protocol, and the slot's with it. */
const LONGER_THAN_LEASES_MS = 120_000;

// Each waits for leases to run out, so they do it side by side, each with a gateway of its own.
describe.concurrent("a runner that is lost in the middle of a datum", { timeout: 240_000 }, () => {
  test("and killed: the job ends right on another runner, once", REST, async () => {
    await using stage = await openStage("killed");
    const first = stage.startRunner("first");
    await stage.commandStarted(1);
    await first.kill9();
    stage.letFinish();
    stage.startRunner("second");

    const [job] = await stage.control.ended("copy", { count: 1, withinMs: LONGER_THAN_LEASES_MS });
    expect(job).toMatchObject({
      state: "success",
      datums: { total: 3, processed: 3, skipped: 0, failed: 0 },
    });
    await stage.expectOutputsOf(job?.outputCommit);
    // The command died with its runner: only those that the second runner ran came to their end.
    expect(stage.count("finished")).toBe(3);
  });

  test("and only frozen: what it reports after its lease has ended changes nothing", REST, async () => {
    await using stage = await openStage("frozen");
    const first = stage.startRunner("first");
    await stage.commandStarted(1);
    first.signal("SIGSTOP");
    stage.letFinish();
    stage.startRunner("second");
    const [job] = await stage.control.ended("copy", { count: 1, withinMs: LONGER_THAN_LEASES_MS });

    // It thaws and believes that it still holds its lease. Told to stop, it reports what it has before it ends.
    first.signal("SIGCONT");
    process.kill(first.pid, "SIGTERM");
    await first.ended;
    await stage.s3.put("master.in", "d", "d");
    const jobs = await stage.control.ended("copy", { count: 2, withinMs: LONGER_THAN_LEASES_MS });
    expect(jobs[0]).toEqual(job);
    expect(jobs[0]).toMatchObject({
      state: "success",
      datums: { total: 3, processed: 3, skipped: 0, failed: 0 },
    });
    expect(jobs[1]).toMatchObject({
      state: "success",
      datums: { total: 4, processed: 1, skipped: 3, failed: 0 },
    });
    await stage.expectOutputsOf(jobs[1]?.outputCommit);
  });

  test("and told to stop: it finishes the datum or gives it back, and the job ends right", async () => {
    await using stage = await openStage("stopped");
    const first = stage.startRunner("first");
    await stage.commandStarted(1);
    // To the runner alone, as `kill` does, not to the command under it.
    process.kill(first.pid, "SIGTERM");
    stage.letFinish();
    await first.ended;
    stage.startRunner("second");
    const [job] = await stage.control.ended("copy", { count: 1, withinMs: LONGER_THAN_LEASES_MS });
    expect(job).toMatchObject({
      state: "success",
      datums: { total: 3, processed: 3, skipped: 0, failed: 0 },
    });
    await stage.expectOutputsOf(job?.outputCommit);
  });
});

/** A gateway with a pipeline whose command tells when it starts and then waits until it is let finish. */
interface Stage extends AsyncDisposable {
  readonly server: DevServer;
  readonly s3: S3;
  readonly control: Control;
  startRunner(name: string): Started;
  /** Waits until commands have started `times` times in all. */
  commandStarted(times: number): Promise<void>;
  letFinish(): void;
  /** How often commands came to a point. */
  count(point: "started" | "finished"): number;
  /** The output is there, and its HEAD is the commit of the job: there was no other after it. */
  expectOutputsOf(commit: string | null | undefined): Promise<void>;
}

async function openStage(name: string): Promise<Stage> {
  const server = await startDevServer();
  const [s3, control] = [new S3(server), new Control(server)];
  // Outside /pfs the process executor shows the host's own files, so the command and the test meet here.
  const folder = scratchFolder();
  const points = (point: string): string => join(folder, point);
  for (const point of ["started", "finished"]) writeFileSync(points(point), "");

  await s3.createBucket("master.in");
  for (const key of ["a", "b", "c"]) await s3.put("master.in", key, key);
  const runners: Started[] = [];
  await control.createPipeline({
    pipeline: { name: "copy" },
    transform: {
      image: "busybox",
      cmd: ["sh", "-e"],
      stdin: [
        `echo >> ${points("started")}`,
        `until [ -e ${points("go")} ]; do sleep 0.1; done`,
        "cp /pfs/in/* /pfs/out/",
        `echo >> ${points("finished")}`,
      ],
    },
    parallelism_spec: { strategy: "CONSTANT", constant: 1 },
    inputs: [{ repo: { name: "in" }, glob: "/*" }],
  });
  const count = (point: "started" | "finished"): number => readFileSync(points(point), "utf8").length;

  return {
    server,
    s3,
    control,
    startRunner(node) {
      const runner = startRunner(server, { node: `${name}-${node}` });
      runners.push(runner);
      return runner;
    },
    async commandStarted(times) {
      await eventually(`the command had started ${times} times`, () => count("started") >= times);
    },
    letFinish: () => appendFileSync(points("go"), ""),
    count,
    async expectOutputsOf(commit) {
      const inputs = await s3.keys("master.in");
      expect(await s3.keys("master.copy")).toEqual(inputs);
      for (const key of inputs) expect((await s3.get("master.copy", key))?.toString()).toBe(key);
      expect(await s3.headCommit("master.copy")).toBe(commit);
    },
    async [Symbol.asyncDispose]() {
      if (!existsSync(points("go"))) appendFileSync(points("go"), "");
      for (const runner of runners) await runner.kill9();
      await server.stop();
      removeScratch(folder);
    },
  };
}
