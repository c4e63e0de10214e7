import { beforeAll, describe, expect, test } from "vitest";
import { Downstream } from "../../../protocol/pipelines.ts";
import type { KeyScope, ScopeLevel } from "../../../worker/core/permissions.ts";
import { REST } from "../../support/suite.ts";
import { allJobs, type Command, echo, pathsOf, pipelineOf, query, workUntil } from "../pipeline/support.ts";
import { commitFiles, failed, good, makeBranch } from "./support.ts";

const as = (level: ScopeLevel, repos: readonly string[] | null) => ({
  caller: { scope: { level, repos } satisfies KeyScope },
});

async function makeRepos(...repos: string[]): Promise<void> {
  for (const repo of repos) await makeBranch({ repo, branch: "master" });
}

async function makePipeline(name: string, inputs: readonly string[], more: object = {}): Promise<void> {
  await good("POST /pipelines", {
    body: {
      pipeline: { name },
      transform: { image: "busybox", cmd: ["true"] },
      parallelism_spec: { strategy: "CONSTANT", constant: 1 },
      datumTries: 1,
      inputs: inputs.map((repo) => ({ repo: { name: repo }, glob: "/*" })),
      ...more,
    },
  });
}

function put(repo: string, files: Readonly<Record<string, string>> = { a: "1" }): Promise<string> {
  return commitFiles({ repo, branch: "master" }, files);
}

/** Runs what a pipeline has to do, until so many jobs have ended. */
async function run(name: string, command: Command = echo, jobs = 1): Promise<void> {
  await workUntil(pipelineOf(name), { command, jobs });
}

/** A commit has its turn at a pipeline by now. */
async function hasJob(name: string, count = 1): Promise<void> {
  await expect.poll(async () => (await allJobs(pipelineOf(name))).length).toBe(count);
}

async function downstream(
  repo: string,
  commit: string,
  repos: readonly string[],
  query = "",
): Promise<Downstream> {
  const target = `GET /repos/${repo}/branches/master/commits/${commit}/downstream${query}`;
  return Downstream.parse(await good(target, as("read", repos)));
}

const counts = (more: Partial<Downstream["unseen"]>) => ({
  ...{ running: 0, success: 0, failure: 0, killed: 0, none: 0, unknown: 0 },
  ...more,
});

const NOTHING: Downstream = { unseen: counts({}), named: [], seen: [], ended: true, more: false, next: null };

describe("what became of a commit at pipelines that a key may not see", () => {
  let commit: string;
  let other: string;

  beforeAll(async () => {
    await makeRepos("in", "other");
    await makePipeline("alone", ["in"]);
    await makePipeline("pair", ["in", "other"]);
    await makePipeline("after", ["alone"]);
    await makePipeline("mine", ["after"]);
    other = await put("other");
    commit = await put("in");
    await run("alone");
    await run("pair", () => "fail");
    await run("after");
    await run("mine");
  });

  test.each([
    "root",
    "admin",
    "write",
    "read",
  ] as const)("is nothing to a key of level %s for all repos", async (level) => {
    const target = `GET /repos/in/branches/master/commits/${commit}/downstream`;
    expect(await good(target, as(level, null))).toEqual(NOTHING);
  });

  test("is counted, all that comes of it as well, and what reads nothing else is named", async () => {
    const told = await downstream("in", commit, ["in"]);
    expect(told).toEqual({
      ...NOTHING,
      unseen: counts({ failure: 1, success: 2 }),
      named: [{ pipeline: "alone", state: "success", reason: null }],
    });
    expect(JSON.stringify(told)).not.toMatch(/pair|after|mine|other|01[0-9A-Z]{24}/);
  });

  test("is a count alone to a key for one of two inputs", async () => {
    expect(await downstream("other", other, ["other"])).toEqual({
      ...NOTHING,
      unseen: counts({ failure: 1 }),
    });
  });

  test("has a reason for a key for all inputs, without what was printed", async () => {
    const { named, unseen } = await downstream("in", commit, ["in", "other"]);
    const [, pair] = named;
    expect(pair).toEqual({
      ...{ pipeline: "pair", state: "failure" },
      reason: "datum in:/a with other:/a failed after 1 try: exit code 3",
    });
    expect(unseen).toEqual(counts({ success: 2 }));
  });

  test("leads to the job of a pipeline that the key may see", async () => {
    const [job] = await allJobs(pipelineOf("mine"));
    expect(await downstream("in", commit, ["in", "mine"])).toEqual({
      ...NOTHING,
      unseen: counts({ failure: 1, success: 1 }),
      named: [{ pipeline: "alone", state: "success", reason: null }],
      seen: [{ pipeline: "mine", state: "success", job: job?.id, reason: null }],
    });
  });

  test("is refused to a key for another repo, and to a runner's", async () => {
    const target = `GET /repos/in/branches/master/commits/${commit}/downstream`;
    for (const caller of [as("admin", ["other", "alone"]), as("runner", null)]) {
      expect(await failed(target, caller)).toMatchObject({ status: 403, code: "AccessDenied" });
    }
  });

  test("is asked by numbers, of a commit that is there", async () => {
    const target = `GET /repos/in/branches/master/commits/${commit}/downstream`;
    expect((await failed(`${target}?after=alone`, as("read", ["in"]))).issues).toMatchObject([
      { path: "after" },
    ]);
    expect((await failed(`${target}?wait=21`, as("read", ["in"]))).issues).toMatchObject([{ path: "wait" }]);
    const missing = "GET /repos/in/branches/master/commits/01ARZ3NDEKTSV4RRFFQ69G5FAV/downstream";
    expect(await failed(missing, as("read", ["in"]))).toMatchObject({ status: 404, code: "NoSuchCommit" });
  });

  test("is not told with names by an object that fails", async () => {
    await makeRepos("breaks");
    await makePipeline("broken", ["breaks"]);
    const at = await put("breaks");
    await run("broken");
    await query("broken", "ALTER TABLE sources RENAME TO sources_gone");
    await query("broken", "ALTER TABLE jobs RENAME TO jobs_gone");
    const error = await failed(
      `GET /repos/breaks/branches/master/commits/${at}/downstream`,
      as("read", ["breaks"]),
    );
    expect(error).toMatchObject({ status: 500, message: "The gateway failed: try again." });
    await query("broken", "ALTER TABLE jobs_gone RENAME TO jobs");
    await query("broken", "ALTER TABLE sources_gone RENAME TO sources");
  });
});

describe("what a pipeline that a key may not see makes of a commit", () => {
  test("has not ended while its job runs, and is waited for", async () => {
    await makeRepos("slow", "slow-2");
    await makePipeline("slowly", ["slow", "slow-2"]);
    await put("slow-2");
    const commit = await put("slow");
    await hasJob("slowly");
    const before = await downstream("slow", commit, ["slow"]);
    expect(before).toMatchObject({ unseen: { running: 1 }, ended: false });
    const waited = downstream("slow", commit, ["slow"], "?wait=20");
    await run("slowly");
    expect(await waited).toMatchObject({ unseen: { running: 0, success: 1 }, ended: true });
  });

  test("is nothing if it is stopped, waits for another input, or begins behind the commit", async () => {
    await makeRepos("still", "empty");
    const commit = await put("still");
    await put("still", { b: "2" });
    await makePipeline("late", ["still"]);
    await hasJob("late");
    await makePipeline("stops", ["still"]);
    await good("POST /pipelines/stops/stop");
    await makePipeline("lacks", ["still", "empty"]);
    const newest = await put("still", { c: "3" });
    const from = {
      inputs: [{ repo: { name: "still" }, glob: "/*", from: { ID: newest, repo: { name: "still" } } }],
    };
    await makePipeline("behind", ["still"], from);
    await hasJob("late", 2);
    await run("late", echo, 2);
    expect(await downstream("still", newest, ["still"])).toMatchObject({
      unseen: counts({ none: 1 }),
      named: [
        { pipeline: "behind", state: "none", reason: "its input begins behind the commit" },
        { pipeline: "late", state: "success" },
        { pipeline: "stops", state: "none", reason: "it is stopped" },
      ],
      ended: true,
    });
    const { named } = await downstream("still", commit, ["still"]);
    expect(named[1]).toEqual({ pipeline: "late", state: "none", reason: "it began with a later commit" });
  });

  test("is not known once its job is kept no more", async () => {
    await makeRepos("gone");
    await makePipeline("forgets", ["gone"]);
    const commit = await put("gone");
    await run("forgets");
    await put("gone", { b: "2" });
    await run("forgets", echo, 2);
    await query("forgets", "DELETE FROM jobs WHERE n = 1");
    const { named, ended } = await downstream("gone", commit, ["gone"]);
    expect({ named, ended }).toEqual({
      named: [{ pipeline: "forgets", state: "unknown", reason: "its job is kept no more" }],
      ended: true,
    });
  });

  test("is the job that came first, also if another input or a start made it", async () => {
    await makeRepos("left", "right");
    await makePipeline("both", ["left", "right"]);
    const commit = await put("left");
    await put("right");
    await run("both", () => "fail");
    await put("right", { b: "2" });
    await run("both", echo, 2);
    expect((await downstream("left", commit, ["left"])).unseen).toEqual(counts({ failure: 1 }));
    await good("POST /pipelines/both/stop");
    const meanwhile = await put("left", { b: "2" });
    await good("POST /pipelines/both/start");
    await run("both", echo, 3);
    expect((await downstream("left", meanwhile, ["left"])).unseen).toEqual(counts({ success: 1 }));
    expect((await downstream("left", commit, ["left"])).unseen).toEqual(counts({ failure: 1 }));
  });

  test("counts once, however many ways lead to it, and as the worst of its jobs", async () => {
    await makeRepos("fork", "veil");
    await makePipeline("way-1", ["fork", "veil"]);
    await makePipeline("way-2", ["fork", "veil"]);
    await makePipeline("joined", ["way-1", "way-2"]);
    await put("veil");
    const commit = await put("fork");
    await run("way-1");
    await run("way-2");
    await hasJob("joined", 1);
    await run("joined", () => "fail");
    expect((await downstream("fork", commit, ["fork"])).unseen).toEqual(counts({ success: 2, failure: 1 }));
  });

  test("comes of what a pipeline that the key may see made of it, too, and of bad datums that it tells of", async () => {
    await makeRepos("seen-in", "veiled");
    await makePipeline("seen", ["seen-in"], { onDatumFailure: "skip" });
    await put("veiled");
    await makePipeline("reads-output", ["seen", "veiled"]);
    const inputs = ["seen", "veiled"].map((repo) => ({
      ...{ repo: { name: repo }, glob: "/*" },
      ...(repo === "seen" && { branch: "errors" }),
    }));
    await makePipeline("reads-errors", [], { inputs });
    const commit = await put("seen-in", { bad: "1", good: "2" });
    await run("seen", (datum) => (pathsOf(datum).includes("bad") ? "fail" : echo(datum)));
    await run("reads-output");
    await run("reads-errors", () => "fail");
    const { seen, unseen } = await downstream("seen-in", commit, ["seen-in", "seen"]);
    expect(seen).toMatchObject([{ pipeline: "seen", state: "success" }]);
    expect(unseen).toEqual(counts({ success: 1, failure: 1 }));
  });
});

describe("the reason of a pipeline that is named", () => {
  test.each([
    ["egress to s3://hush/x failed: hush", "failure", null],
    ["hush: /var/lib/runner/hush", "failure", null],
    ["1 datum failed and is left out: s3://errors.told tells why", "success", null],
    ["it was stopped", "killed", "it was stopped"],
    ["the pipeline was updated", "killed", "the pipeline was updated"],
  ])("is told if it has nothing that others may not know: %s", async (reason, state, told) => {
    const repo = `told-in-${state}-${reason.length}`;
    const name = `told-${state}-${reason.length}`;
    await makeRepos(repo);
    await makePipeline(name, [repo]);
    const commit = await put(repo);
    await run(name);
    await query(name, `UPDATE jobs SET state = '${state}', reason = '${reason}'`);
    const { named } = await downstream(repo, commit, [repo]);
    expect(named).toEqual([{ pipeline: name, state, reason: told }]);
  });

  test("says what its job waits for, and not behind which", async () => {
    await makeRepos("queue");
    await makePipeline("queued", ["queue"]);
    await put("queue");
    const commit = await put("queue", { b: "2" });
    await hasJob("queued", 2);
    const { named } = await downstream("queue", commit, ["queue"]);
    expect(named).toEqual([{ pipeline: "queued", state: "running", reason: "behind an earlier job" }]);
  });
});

describe("one request", () => {
  test(
    "looks at so many readers, and at so many pipelines behind them, and says that there are more",
    REST,
    async () => {
      await makeRepos("wide", "hub-2");
      await makePipeline("hub", ["wide", "hub-2"]);
      await Promise.all(
        Array.from({ length: 21 }, (_, n) =>
          makePipeline(`reads-${String(n).padStart(2, "0")}`, ["wide", "hub-2"]),
        ),
      );
      await put("hub-2");
      const commit = await put("wide");
      await run("hub");
      const first = await downstream("wide", commit, ["wide"]);
      expect({ next: first.next, more: first.more, of: sum(first) }).toEqual({
        next: 20,
        more: false,
        of: 20,
      });
      const last = await downstream("wide", commit, ["wide"], "?after=20");
      expect({ next: last.next, of: sum(last) }).toEqual({ next: null, of: 2 });
      await Promise.all(Array.from({ length: 51 }, (_, n) => makePipeline(`behind-${n}`, ["hub", "hub-2"])));
      const cut = await downstream("wide", commit, ["wide"]);
      expect({ next: cut.next, more: cut.more, of: sum(cut) }).toEqual({ next: 1, more: true, of: 1 });
      expect((await downstream("wide", commit, ["wide"], "?after=1")).more).toBe(false);
    },
  );
});

function sum({ unseen }: Downstream): number {
  return Object.values(unseen).reduce((total, count) => total + count, 0);
}
