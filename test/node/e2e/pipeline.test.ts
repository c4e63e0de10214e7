import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { KeyCreated, type KeyLevel } from "../../../protocol/keys.ts";
import { Job } from "../../../protocol/pipelines.ts";
import { NodeList } from "../../../protocol/runner.ts";
import { parseCliJson } from "../../support/cli-json.ts";
import { Control } from "../../support/control.ts";
import { type DevServer, sluice, startDevServer, startRunner } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { FakeRunner } from "../../support/fake-runner.ts";
import type { Door } from "../../support/keys.ts";
import type { Started } from "../../support/processes.ts";
import { S3 } from "../../support/s3.ts";
import { removeScratch, scratchFolder } from "../../support/scratch.ts";
import { REST } from "../../support/suite.ts";

let server: DevServer;
let s3: S3;
let control: Control;
beforeAll(async () => {
  server = await startDevServer();
  s3 = new S3(server);
  control = new Control(server);
});
afterAll(() => server?.stop());

const counts = ({ state, datums }: Job): object => ({ state, ...datums });
const succeededWith = (total: number, processed: number): object => ({
  state: "success",
  ...{ total, processed, skipped: total - processed, failed: 0 },
});

describe("the contract's example of several inputs", () => {
  // [repo, key] of each commit, then what jobs there are by then: [total, processed] of each.
  const COMMITS = [
    { repo: "a", key: "A1", jobs: [] },
    { repo: "b", key: "B1", jobs: [[1, 1]] },
    {
      repo: "a",
      key: "A2",
      jobs: [
        [1, 1],
        [2, 1],
      ],
    },
    {
      repo: "b",
      key: "B2",
      jobs: [
        [1, 1],
        [2, 1],
        [4, 2],
      ],
    },
  ] as const;

  test.each([
    { runner: "a fake runner", prefix: "fake" },
    { runner: "a real runner", prefix: "real" },
  ])("gives its jobs and datum counts with $runner", async ({ prefix }) => {
    const name = `${prefix}-cross`;
    for (const repo of ["a", "b"]) await s3.createBucket(`master.${prefix}-${repo}`);
    await control.createPipeline(crossSpec(name, prefix));
    const real = prefix === "real" ? startRunner(server, { node: "cross-node" }) : undefined;
    const fake = new FakeRunner(server, { node: "cross-fake" });
    try {
      let seen = 0;
      for (const { repo, key, jobs } of COMMITS) {
        await s3.put(`master.${prefix}-${repo}`, key, key);
        const processed = jobs.at(-1)?.[1] ?? 0;
        if (!real && jobs.length > seen) await fake.work(name, { count: processed });
        seen = jobs.length;
        const ended = await control.ended(name, { count: jobs.length });
        expect(ended.map(counts)).toEqual(jobs.map(([total, processed]) => succeededWith(total, processed)));
      }
      expect(await s3.keys(`master.${name}`)).toHaveLength(4);
    } finally {
      await real?.stop();
    }
  });

  function crossSpec(name: string, prefix: string): object {
    return {
      pipeline: { name },
      transform: {
        image: "busybox",
        cmd: ["sh"],
        stdin: ["cat /pfs/left/* /pfs/right/* > /pfs/out/$(ls /pfs/left)-$(ls /pfs/right)"],
      },
      inputs: [
        { name: "left", repo: { name: `${prefix}-a` }, glob: "/*" },
        { name: "right", repo: { name: `${prefix}-b` }, glob: "/*" },
      ],
    };
  }
});

describe("with a real runner", () => {
  const runners: Started[] = [];
  const startNode = (node: string): void => void runners.push(startRunner(server, { node }));
  afterEach(async () => {
    await Promise.all(runners.splice(0).map((runner) => runner.stop()));
  });

  test("two pipelines chain, and one more file costs each of them what it changes", async () => {
    startNode("chain-node");
    await s3.createBucket("master.source");
    await s3.put("master.source", "one", "1\n");
    await s3.put("master.source", "two", "2\n");
    await control.createPipeline(
      shell(
        "double",
        { repo: "source", glob: "/*" },
        "for f in /pfs/source/*; do cat $f $f > /pfs/out/$(basename $f); done",
      ),
    );
    await control.createPipeline(
      shell("all", { repo: "double", glob: "/" }, "cat /pfs/double/* > /pfs/out/all"),
    );
    await control.ended("double", { count: 1 });
    expect((await control.ended("all", { count: 1 })).map(counts)).toEqual([succeededWith(1, 1)]);
    expect((await s3.get("master.all", "all"))?.toString()).toBe("1\n1\n2\n2\n");

    await s3.put("master.source", "three", "3\n");
    expect((await control.ended("double", { count: 2 })).map(counts)).toEqual([
      succeededWith(2, 2),
      succeededWith(3, 1),
    ]);
    const [, last] = await control.ended("all", { count: 2 });
    expect(counts(last as Job)).toEqual(succeededWith(1, 1));
    // In the order of the directory: one, three, two.
    expect((await s3.get("master.all", "all"))?.toString()).toBe("1\n1\n3\n3\n2\n2\n");

    await s3.delete("master.source", "two");
    const [, , emptied] = await control.ended("double", { count: 3 });
    expect(counts(emptied as Job)).toEqual(succeededWith(2, 0));
    await control.ended("all", { count: 3 });
    expect(await s3.keys("master.double")).toEqual(["one", "three"]);
    expect((await s3.get("master.all", "all"))?.toString()).toBe("1\n1\n3\n3\n");
  });

  test(
    "the command gets its env, its stdin lines and its directories, and an accepted exit code is a success",
    REST,
    async () => {
      startNode("env-node");
      await s3.createBucket("master.dirs");
      await s3.put("master.dirs", "d/x", "x");
      await s3.put("master.dirs", "d/deep/y", "y");
      const spec = {
        ...shell("contract", { repo: "dirs", glob: "/*" }, ""),
        transform: {
          image: "busybox",
          cmd: ["sh"],
          stdin: [
            'printf "%s" "$GREETING" > /pfs/out/greeting',
            "(cd /pfs/dirs && find . -type f | sort) > /pfs/out/seen",
            "mkdir /pfs/out/empty",
            "exit 7",
          ],
          env: { GREETING: "good morning, 'you' & \"me\"" },
          acceptReturnCode: [7],
        },
      };
      await control.createPipeline(spec);
      const [job] = await control.ended("contract", { count: 1 });
      expect(job).toMatchObject({ state: "success", reason: null });
      expect((await s3.get("master.contract", "greeting"))?.toString()).toBe(spec.transform.env.GREETING);
      expect((await s3.get("master.contract", "seen"))?.toString()).toBe("./d/deep/y\n./d/x\n");
      expect((await s3.get("master.contract", "empty/"))?.length).toBe(0);
    },
  );

  test(
    "a failing datum fails its job, `sluice job inspect` says why, and the next job tries it again",
    REST,
    async () => {
      startNode("fail-node");
      await s3.createBucket("master.mixed");
      await s3.put("master.mixed", "good", "good\n");
      await s3.put("master.mixed", "bad", "bad\n");
      const script =
        "if grep -q bad /pfs/mixed/*; then echo 'cannot digest this' >&2; exit 3; fi; cp /pfs/mixed/* /pfs/out/";
      await control.createPipeline(shell("picky", { repo: "mixed", glob: "/*" }, script));
      const [failed] = await control.ended("picky", { count: 1 });
      expect(failed).toMatchObject({
        state: "failure",
        outputCommit: null,
        datums: { total: 2, processed: 1, failed: 1 },
      });

      const text = await sluice(server, "job", "inspect", failed?.id ?? "");
      expect(text.stdout.toString()).toMatch(/failure[\s\S]*bad[\s\S]*3[\s\S]*cannot digest this/);
      const json = await sluice(server, "job", "inspect", failed?.id ?? "", "--json");
      expect(Job.parse(parseCliJson(json.stdout.toString()))).toEqual(failed);
      expect((await sluice(server, "job", "wait", failed?.id ?? "")).code).not.toBe(0);
      expect(await s3.keys("master.picky")).toEqual([]);

      await s3.put("master.mixed", "bad", "better\n");
      const [, mended] = await control.ended("picky", { count: 2 });
      expect(counts(mended as Job)).toEqual(succeededWith(2, 1));
      expect(await s3.keys("master.picky")).toEqual(["bad", "good"]);
    },
  );

  test("a file above what another datum wrote fails the job, which names both", REST, async () => {
    startNode("conflict-node");
    await s3.createBucket("master.twins");
    await s3.put("master.twins", "left", "same");
    await s3.put("master.twins", "right", "same/below");
    const write = "name=$(cat /pfs/twins/*); mkdir -p $(dirname /pfs/out/$name); echo x > /pfs/out/$name";
    await control.createPipeline(shell("clash", { repo: "twins", glob: "/*" }, write));
    const [job] = await control.ended("clash", { count: 1 });
    expect(job).toMatchObject({ state: "failure", outputCommit: null });
    for (const word of ["same", "left", "right"]) expect(job?.reason).toContain(word);
    expect(await s3.keys("master.clash")).toEqual([]);
  });

  test("a pipeline comes, is seen and goes by the command line", REST, async () => {
    startNode("cli-node");
    const folder = scratchFolder();
    const file = join(folder, "spec.json");
    writeFileSync(
      file,
      JSON.stringify(shell("typed", { repo: "typing", glob: "/*" }, "cp /pfs/typing/* /pfs/out/")),
    );
    await s3.createBucket("master.typing");
    await s3.put("master.typing", "file.csv", "typed\n");
    const says = async (...args: string[]): Promise<string> => {
      const { code, stdout, stderr } = await sluice(server, ...args);
      if (code !== 0) throw new Error(`sluice ${args.join(" ")} ended with ${code}: ${stderr}`);
      return stdout.toString();
    };
    await says("pipeline", "create", "-f", file);
    expect(await says("pipeline", "list")).toContain("typed");
    expect(await says("pipeline", "inspect", "typed")).toContain("typing");
    const [job] = await control.ended("typed", { count: 1 });
    await says("job", "wait", job?.id ?? "");
    expect(await says("job", "list", "--pipeline", "typed")).toContain(job?.id);
    expect(await says("cat", "s3://master.typed/file.csv")).toBe("typed\n");
    const info = JSON.parse(await says("cat", "s3://master.typed/file.csv", "--json"));
    expect(info).toMatchObject({ contentType: "text/csv" });

    const foreign = await s3.ask("PUT", "/master.typed/intruder", "no");
    expect(foreign.status).toBe(403);
    await says("pipeline", "delete", "typed");
    expect(await control.pipelineNames()).not.toContain("typed");
    await says("pipeline", "create", "-f", file);
    expect((await control.ended("typed", { count: 1 })).map(counts)).toEqual([succeededWith(1, 1)]);
    removeScratch(folder);
  });
});

describe("a runner", () => {
  const runners: Started[] = [];
  afterEach(async () => {
    await Promise.all(runners.splice(0).map((runner) => runner.stop()));
  });

  /** The door with a key of this level. */
  async function doorOf(level: KeyLevel): Promise<Door> {
    const { id, secret } = await control.call("POST", "/keys", { body: { level }, answers: KeyCreated });
    return { ...server, accessKeyId: id, secretAccessKey: secret };
  }

  /** A pipeline that lists a folder, merges what two datums wrote, and sends more than an outcome holds. */
  async function makeWork(name: string): Promise<void> {
    await s3.createBucket(`master.${name}-in`);
    for (const folder of ["one", "two"]) await s3.put(`master.${name}-in`, `${folder}/file`, `${folder}\n`);
    const script = `cat /pfs/${name}-in/*/file > /pfs/out/all; head -c 600000 /dev/zero > /pfs/out/$(ls /pfs/${name}-in)`;
    await control.createPipeline(shell(name, { repo: `${name}-in`, glob: "/*" }, script));
  }

  async function expectWorkDone(name: string): Promise<void> {
    const [job] = await control.ended(name, { count: 1 });
    expect(job, JSON.stringify(job)).toMatchObject({ state: "success", datums: { total: 2, processed: 2 } });
    expect(await s3.keys(`master.${name}`)).toEqual(["all", "one", "two"]);
    expect((await s3.get(`master.${name}`, "all"))?.toString()).toBe("one\ntwo\n");
  }

  test("with a key of level runner does all of its work with the grants of its leases", async () => {
    runners.push(startRunner(await doorOf("runner"), { node: "granted-node" }));
    await makeWork("granted");
    await expectWorkDone("granted");
  });

  test(
    "that comes with a key for writing is told in its log which key it needs, and gets nothing",
    REST,
    async () => {
      const runner = startRunner(await doorOf("write"), { node: "writing-node" });
      runners.push(runner);
      await eventually("the log says which key", () => runner.output().includes("--level runner"));
      const { nodes } = await control.call("GET", "/nodes", { answers: NodeList });
      expect(nodes.map(({ name }) => name)).not.toContain("writing-node");
    },
  );
});

function shell(name: string, input: { repo: string; glob: string }, script: string): object {
  return {
    pipeline: { name },
    transform: { image: "busybox", cmd: ["sh"], stdin: [script] },
    inputs: [{ repo: { name: input.repo }, glob: input.glob }],
  };
}
