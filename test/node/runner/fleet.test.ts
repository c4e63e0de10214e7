import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ROOT, sluiceCommand, sluiceEnv } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { run, type Started } from "../../support/processes.ts";
import { REST } from "../../support/suite.ts";
import { openWire, type Wire } from "../../support/wire.ts";
import { Fleet } from "./support/fleet.ts";
import { countOf } from "./support/processes.ts";

let fleet: Fleet;
beforeAll(async () => {
  fleet = await Fleet.open();
});
afterAll(async () => {
  await fleet[Symbol.asyncDispose]();
});

async function stop(...agents: Started[]): Promise<void> {
  for (const agent of agents) process.kill(agent.pid, "SIGTERM");
  for (const agent of agents) expect(await agent.ended).toMatchObject({ code: 0 });
}

/** Every datum of the job was processed, and every command ran once. */
async function expectEachOnce(name: string, files: number): Promise<void> {
  const [job] = await fleet.ended(name);
  expect(job).toMatchObject({ state: "success", datums: { total: files, processed: files, failed: 0 } });
  expect(fleet.told(name)).toMatchObject({ started: files, ended: files });
  expect(await fleet.s3.keys(`master.${name}`)).toHaveLength(files);
}

describe("agents of one gateway", { timeout: 240_000 }, () => {
  test("two of them run as many workers as the pipeline says, and each datum once", REST, async () => {
    const agents = [fleet.agent("two-1"), fleet.agent("two-2")];
    await fleet.live(2);
    const workers = { strategy: "CONSTANT", constant: 3 };
    await fleet.createPipeline({ name: "two", workers, files: 30, together: 3 });
    fleet.letEnd("two");
    await expectEachOnce("two", 30);
    expect(fleet.told("two").most).toBe(3);
    await stop(...agents);
  });

  test(
    "five of them do so, too, and if workers are counted by nodes, their number follows",
    REST,
    async () => {
      const agents = [1, 2, 3, 4, 5].map((number) => fleet.agent(`five-${number}`));
      await fleet.live(5);
      const constant = { strategy: "CONSTANT", constant: 3 };
      await fleet.createPipeline({ name: "five", workers: constant, files: 20, together: 3 });
      const perNode = { strategy: "COEFFICIENT", coefficient: 1.5 };
      await fleet.createPipeline({ name: "by-node", workers: perNode, files: 20, together: 7 });
      for (const name of ["five", "by-node"]) fleet.letEnd(name);
      await expectEachOnce("five", 20);
      await expectEachOnce("by-node", 20);
      expect([fleet.told("five").most, fleet.told("by-node").most]).toEqual([3, 7]);
      await stop(...agents);
    },
  );

  test(
    "run no more commands at once than they have run permits, and a job says what is short",
    REST,
    async () => {
      // Pipelines of other tests would have their share of the workers.
      for (const name of await fleet.control.pipelineNames()) await fleet.control.deletePipeline(name);
      const agent = fleet.agent("few", { options: ["--max-running", "2", "--max-workers", "5"] });
      await fleet.live(1);
      const workers = { strategy: "CONSTANT", constant: 4 };
      await fleet.createPipeline({ name: "few", workers, files: 12, together: 2 });
      await fleet.started("few", 2);
      const says = async (name: string, reason: string) =>
        eventually(`the job of ${name} said "${reason}"`, async () => {
          const [job] = await fleet.control.jobs(name);
          return job?.reason === reason;
        });
      await says("few", "wants 4 at once, its nodes run 2");
      // Another pipeline waits for a place that becomes free, and not for the end of the first one's job.
      const one = { strategy: "CONSTANT", constant: 1 };
      await fleet.createPipeline({ name: "one", workers: one, files: 1 });
      await says("one", "its nodes are busy: they run 2 commands at once, of all pipelines");
      fleet.letEnd("one");
      fleet.letEnd("few");
      await expectEachOnce("one", 1);
      await expectEachOnce("few", 12);
      expect(fleet.told("few").most).toBe(2);
      await fleet.createPipeline({ name: "wide", workers: { strategy: "CONSTANT", constant: 40 }, files: 8 });
      // What is left is shared: "one" has what it wants, "few" as much as "wide".
      await says("wide", "wants 40 workers, the fleet has room for 2");
      fleet.letEnd("wide");
      await expectEachOnce("wide", 8);
      await stop(agent);
    },
  );

  test("come and go, and each datum is processed once", REST, async () => {
    const first = [fleet.agent("go-1"), fleet.agent("go-2")];
    const workers = { strategy: "COEFFICIENT", coefficient: 1 };
    await fleet.createPipeline({ name: "go", workers, files: 40 });
    await fleet.started("go", 2);
    const second = [fleet.agent("come-1"), fleet.agent("come-2")];
    await fleet.started("go", 4);
    fleet.letEnd("go");
    await stop(...first);
    await expectEachOnce("go", 40);
    await stop(...second);
  });
});

describe("a gateway that can't be reached", { timeout: 240_000 }, () => {
  let wires: Wire[] = [];
  afterAll(async () => {
    for (const wire of wires) await wire.stop();
  });

  test(
    "is waited for, be it cut off or silent; what ran meanwhile is delivered, and all goes on",
    REST,
    async () => {
      wires = [await openWire(fleet.server), await openWire(fleet.server)];
      const [cut, silent] = wires as [Wire, Wire];
      const agents = wires.map(({ endpoint }, index) =>
        fleet.agent(`away-${index}`, { door: { ...fleet.server, endpoint } }),
      );
      await fleet.live(2);
      const workers = { strategy: "CONSTANT", constant: 2 };
      await fleet.createPipeline({ name: "away", workers, files: 12, together: 2 });
      await fleet.started("away", 2);
      await cut.cut();
      silent.silence();
      const attempts = silent.attempts();
      fleet.letEnd("away");
      // The commands end while nobody can be told.
      await eventually("both commands ended", () => fleet.told("away").ended >= 2);
      // What was open is noticed to be dead: new connections are tried, again and again.
      await eventually("the silence was noticed", () => silent.attempts() >= attempts + 4);
      await cut.mend();
      await silent.mend();
      const [job] = await fleet.ended("away");
      expect(job).toMatchObject({ state: "success", datums: { total: 12, processed: 12, failed: 0 } });
      expect(await fleet.s3.keys("master.away")).toHaveLength(12);
      await stop(...agents);
    },
  );
});

describe("an agent that was stopped past its leases", { timeout: 240_000 }, () => {
  test("drops what it had when it wakes, its command too, and works on", REST, async () => {
    const first = fleet.agent("asleep");
    await fleet.live(1);
    const workers = { strategy: "CONSTANT", constant: 1 };
    await fleet.createPipeline({ name: "sleep", workers, files: 1 });
    await fleet.started("sleep", 1);
    const ofOne = await countOf(fleet.mark("sleep"));
    expect(ofOne).toBeGreaterThan(0);
    process.kill(first.pid, "SIGSTOP");
    const second = fleet.agent("awake");
    await fleet.started("sleep", 2);
    const ofBoth = await countOf(fleet.mark("sleep"));
    expect(ofBoth).toBeGreaterThan(ofOne);
    process.kill(first.pid, "SIGCONT");
    await eventually("the late command was gone", async () => (await countOf(fleet.mark("sleep"))) <= ofOne);
    await eventually("it told why", () => first.output().includes("was lost: its work is stopped"));
    fleet.letEnd("sleep");
    const [job] = await fleet.ended("sleep");
    expect(job).toMatchObject({ state: "success", datums: { total: 1, processed: 1 } });
    // Only the second one's command came to its end.
    expect(fleet.told("sleep")).toMatchObject({ started: 2, ended: 1 });
    await stop(second);
    await fleet.s3.put("master.sleep-in", "later", "later");
    const jobs = await fleet.ended("sleep", 2);
    expect(jobs[0]).toEqual(job);
    expect(jobs[1]).toMatchObject({ state: "success", datums: { total: 2, processed: 1, skipped: 1 } });
    await stop(first);
  });
});

describe("agents whose clocks are wrong", { timeout: 240_000 }, () => {
  const DAY_MS = 24 * 3600_000;
  const shiftedBy = (shiftMs: number) => ({
    NODE_OPTIONS: `--import=${join(ROOT, "test/support/shifted-clock.ts")}`,
    SLUICE_TEST_CLOCK_SHIFT_MS: String(shiftMs),
  });

  test("by a day, one ahead and one behind, work as any other", REST, async () => {
    const agents = [DAY_MS, -DAY_MS].map((shift, index) =>
      fleet.agent(`clock-${index}`, { variables: shiftedBy(shift) }),
    );
    await fleet.live(2);
    const workers = { strategy: "CONSTANT", constant: 2 };
    // Commands wait for each other, so both nodes must run one.
    await fleet.createPipeline({ name: "clock", workers, files: 10, together: 2 });
    fleet.letEnd("clock");
    await expectEachOnce("clock", 10);
    for (const agent of agents) expect(agent.output()).not.toContain("does not hear");
    await stop(...agents);
  });

  test("may use the command line, too", async () => {
    const env = { ...sluiceEnv(fleet.server), ...shiftedBy(DAY_MS) };
    const { code, stdout, stderr } = await run(sluiceCommand(["repo", "list", "--json"]), { cwd: ROOT, env });
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout.toString()).toContain('"repos"');
  });
});
