import { afterEach, describe, expect, it, vi } from "vitest";
import { INLINE_LIMIT_BYTES } from "../../../protocol/content.ts";
import type { LeasedDatum, Outcome } from "../../../protocol/runner.ts";
import { output as branchOutput } from "../../../worker/branch/calls/output.ts";
import type { PipelineApi } from "../../../worker/pipeline/contract.ts";
import { REST } from "../../support/suite.ts";
import {
  allJobs,
  branchOf,
  type Command,
  commit,
  echo,
  expireLeases,
  filesOf,
  leaseSome,
  makePipeline,
  makeRepo,
  outcomeOf,
  pathsOf,
  pipelineOf,
  query,
  type SpecOptions,
  specOf,
  textOf,
  workUntil,
} from "./support.ts";
import { FakeStore } from "./tasks.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

const SKIP = { onDatumFailure: "skip", datumTries: 2 } as const;

/** Fails datums of files that hold this. */
const BAD = "bad";

/** Fails the datums of these paths. */
const failing =
  (...paths: string[]): Command =>
  (datum) =>
    paths.includes(pathsOf(datum)[0] ?? "") ? "fail" : echo(datum);

interface Begun {
  readonly name: string;
  readonly input: string;
  readonly pipeline: PipelineApi;
}

/** A pipeline of one input that goes on without bad datums. */
/** The next claim of a branch comes there only when it is told to. `untold`: it can't tell the catalogue. */
function claimIsLate({ untold = false }: { untold?: boolean | undefined }): {
  begun(): Promise<void>;
  goesOn(): void;
} {
  const { claim } = branchOutput;
  // An object can't wait for a promise that was made outside of it.
  const state = { hasBegun: false, goesOn: false };
  vi.spyOn(branchOutput, "claim").mockImplementationOnce(async (reach, owner) => {
    state.hasBegun = true;
    while (!state.goesOn) await scheduler.wait(1);
    const claimed = await claim(reach, owner);
    return untold ? { ok: false, reason: "catalogue-unavailable" } : claimed;
  });
  return {
    begun: () => expect.poll(() => state.hasBegun).toBe(true),
    goesOn() {
      state.goesOn = true;
    },
  };
}

async function begin(which: string, more: SpecOptions["more"] = {}): Promise<Begun> {
  const name = `bad-${which}`;
  const input = `${name}-in`;
  await makeRepo(input);
  const pipeline = await makePipeline({ name, globs: { [input]: "/*" }, more: { ...SKIP, ...more } });
  return { name, input, pipeline };
}

function errorsOf(name: string): { repo: string; branch: string } {
  return { repo: name, branch: "errors" };
}

function output(name: string): Promise<string[]> {
  return filesOf({ repo: name, branch: "master" });
}

interface Told {
  readonly datum: string;
  readonly job: string;
  readonly inputs: readonly { readonly path: string; readonly commit: string }[];
  readonly log: readonly string[];
}

/** The files of the errors branch, by the path of the datum's first input. */
async function told(name: string): Promise<Record<string, Told & Record<string, unknown>>> {
  const listed = await branchOf(errorsOf(name)).files.list({ prefix: "", limit: 1000 });
  if (!listed.ok) throw new Error(listed.reason);
  const files = await Promise.all(
    listed.entries.map(async (entry) => {
      if (entry.kind !== "file") throw new Error(entry.path);
      const file = JSON.parse(await textOf(errorsOf(name), entry));
      expect(entry.path).toBe(`errors/${file.datum}.json`);
      return [file.inputs[0].path, file];
    }),
  );
  return Object.fromEntries(files);
}

/** Oldest first. */
async function errorCommits(name: string): Promise<string[]> {
  const log = await branchOf(errorsOf(name)).history.list({ limit: 100 });
  if (!log.ok) throw new Error(log.reason);
  return log.commits.map(({ id }) => id).reverse();
}

async function states(pipeline: PipelineApi): Promise<string[]> {
  return (await allJobs(pipeline)).map(({ state }) => state);
}

/** Reports a failure of a leased datum as a runner does. */
function failure(datum: LeasedDatum, more: Partial<Extract<Outcome, { state: "failed" }>> = {}): Outcome {
  return {
    lease: datum.lease,
    state: "failed",
    blame: "node",
    exitCode: null,
    reason: "no",
    log: "",
    millis: 1,
    ...more,
  };
}

describe("a job of a pipeline that skips bad datums", () => {
  it("succeeds without them, and a file of the errors branch tells of each", async () => {
    const { name, input, pipeline } = await begin("skip");
    const read = await commit(input, { evil: "1", good: "2" });
    const ran = await workUntil(pipeline, { jobs: 1, command: failing("evil") });
    expect(ran.filter(({ paths }) => paths[0] === "evil")).toHaveLength(2);
    const [job] = await allJobs(pipeline);
    expect(job).toMatchObject({
      state: "success",
      datums: { total: 2, processed: 1, skipped: 0, failed: 1 },
      reason: "1 datum failed and is left out: s3://errors.bad-skip tells why",
    });
    expect(await output(name)).toEqual(["good.out"]);
    const page = await pipeline.datums.list({ job: job?.id ?? "", limit: 10 });
    const evil = page.ok ? page.datums.find(({ state }) => state === "failed") : undefined;
    expect(await told(name)).toEqual({
      evil: {
        datum: evil?.id,
        pipeline: name,
        version: 1,
        job: job?.id,
        inputs: [
          expect.objectContaining({
            ...{ name: input, repo: input, branch: "master", commit: read, path: "evil", kind: "file" },
            ...{ digest: expect.stringMatching(/^[0-9a-f]{64}$/), size: 1 },
          }),
        ],
        exitCode: 3,
        reason: "the command failed",
        tries: 2,
        node: "n1",
        failedAt: expect.any(Number),
        log: ["one", "two"],
      },
    });
    expect(await errorCommits(name)).toEqual([job?.errorsCommit]);
  });

  it("takes away what a datum wrote before it went bad, and brings it back with its cure", async () => {
    const { name, input, pipeline } = await begin("turn");
    const command: Command = (datum) =>
      datum.inputs[0]?.content?.size === BAD.length ? "fail" : { [`${pathsOf(datum)}.out`]: datum.datum };
    await commit(input, { a: "1", b: "1" });
    await workUntil(pipeline, { jobs: 1, command });
    await commit(input, { a: BAD, c: "1" });
    await workUntil(pipeline, { jobs: 2, command });
    expect(await output(name)).toEqual(["b.out", "c.out"]);
    expect(Object.keys(await told(name))).toEqual(["a"]);
    await commit(input, { a: "2" });
    await workUntil(pipeline, { jobs: 3, command });
    expect(await output(name)).toEqual(["a.out", "b.out", "c.out"]);
    expect(await told(name)).toEqual({});
  });

  it(
    "is tried again by the next job with all its tries, also if nothing else has changed of it",
    REST,
    async () => {
      const { name, input, pipeline } = await begin("again");
      await commit(input, { a: "1", evil: "1" });
      await workUntil(pipeline, { jobs: 1, command: failing("evil") });
      await commit(input, { b: "1" });
      const ran = await workUntil(pipeline, { jobs: 2, command: failing("evil") });
      expect(ran.map(({ paths }) => paths[0]).sort()).toEqual(["b", "evil", "evil"]);
      const jobs = await allJobs(pipeline);
      expect(jobs[1]?.datums).toEqual({ total: 3, processed: 1, skipped: 1, failed: 1 });
      // It failed in the same way: its file tells of the first time, and nothing is committed.
      expect(jobs[1]?.errorsCommit).toBeUndefined();
      expect(await errorCommits(name)).toEqual([jobs[0]?.errorsCommit]);
      expect((await told(name)).evil?.job).toBe(jobs[0]?.id);

      await commit(input, { c: "1" });
      await workUntil(pipeline, { jobs: 3 });
      expect(await output(name)).toEqual(["a.out", "b.out", "c.out", "evil.out"]);
      expect(await told(name)).toEqual({});
      expect((await allJobs(pipeline))[2]?.datums).toEqual({ total: 4, processed: 2, skipped: 2, failed: 0 });
    },
  );

  it("tells anew of a datum that fails in another way", REST, async () => {
    const { name, input, pipeline } = await begin("other");
    await commit(input, { a: "1", evil: "1" });
    await workUntil(pipeline, { jobs: 1, command: failing("evil") });
    await commit(input, { b: "1" });
    for (let tries = 0; tries < 2; ) {
      const { datums, output: to } = await leaseSome(pipeline);
      const outcomes = await Promise.all(
        datums.map((datum) =>
          pathsOf(datum)[0] === "evil"
            ? failure(datum, { exitCode: 9, blame: "datum", log: "worse\n" })
            : outcomeOf(datum, { command: echo, output: to }),
        ),
      );
      tries += datums.filter((datum) => pathsOf(datum)[0] === "evil").length;
      await pipeline.leases.finish({ worker: "w1", outcomes });
    }
    await workUntil(pipeline, { jobs: 2 });
    const [, second] = await allJobs(pipeline);
    expect((await told(name)).evil).toMatchObject({ job: second?.id, exitCode: 9, log: ["worse"] });
  });

  it("lets the file of a datum go that is no longer in the input", REST, async () => {
    const { name, input, pipeline } = await begin("gone");
    await commit(input, { a: "1", evil: "1" });
    await workUntil(pipeline, { jobs: 1, command: failing("evil") });
    await commit(input, { evil: null });
    expect(await workUntil(pipeline, { jobs: 2 })).toEqual([]);
    expect(await states(pipeline)).toEqual(["success", "success"]);
    expect(await told(name)).toEqual({});
    expect(await query(name, "SELECT * FROM bad_datums")).toEqual([]);
  });

  it("fails if every datum that ran failed, and changes no branch", async () => {
    const { name, input, pipeline } = await begin("all");
    await commit(input, { a: "1", b: "1" });
    await workUntil(pipeline, { jobs: 1, command: () => "fail" });
    const [job] = await allJobs(pipeline);
    expect(job).toMatchObject({ state: "failure", outputCommit: null });
    expect(job?.reason).toBe(
      "every datum that ran failed: datum /a failed after 2 tries: exit code 3: the command failed: two (and 1 more)",
    );
    expect(await errorCommits(name)).toEqual([]);
    await commit(input, { c: "1" });
    await workUntil(pipeline, { jobs: 2, command: failing("a") });
    expect(await output(name)).toEqual(["b.out", "c.out"]);
    expect(Object.keys(await told(name))).toEqual(["a"]);
  });

  it("puts together what the good datums wrote to one path alone", REST, async () => {
    const { name, input, pipeline } = await begin("merge");
    await commit(input, { a: "1", b: "1", c: "1" });
    const command: Command = (datum) => (pathsOf(datum)[0] === "b" ? "fail" : { all: `${pathsOf(datum)}\n` });
    await workUntil(pipeline, { jobs: 1, command });
    const read = await branchOf({ repo: name, branch: "master" }).files.read({ path: "all" });
    if (!read.ok) throw new Error(read.reason);
    expect(await textOf({ repo: name, branch: "master" }, read)).toBe("a\nc\n");
  });

  it("takes what a bad datum wrote before from the external store", REST, async () => {
    const { input, pipeline } = await begin("push", { egress: { URL: "s3://bucket" } });
    const store = new FakeStore();
    const command: Command = (datum) =>
      datum.inputs[0]?.content?.size === BAD.length ? "fail" : { [`${pathsOf(datum)}.out`]: "x" };
    await commit(input, { a: "1", b: "1" });
    await workUntil(pipeline, { jobs: 1, command, push: store.push });
    await commit(input, { a: BAD, c: "1" });
    await workUntil(pipeline, { jobs: 2, command, push: store.push });
    expect([...store.files.keys()].sort()).toEqual(["b.out", "c.out"]);
  });

  it(
    "contributes nothing of a datum that fails in it while a later job has its result already",
    REST,
    async () => {
      const { name, input, pipeline } = await begin("ahead", { datumTries: 1 });
      await commit(input, { a: "1" });
      await workUntil(pipeline, { jobs: 1 });
      await commit(input, { evil: "1", b: "1" });
      await commit(input, { evil: null });
      await commit(input, { evil: "1" });
      await expect.poll(async () => (await allJobs(pipeline)).length).toBe(4);
      const { datums, output: to } = await leaseSome(pipeline);
      const evil = datums.find((datum) => pathsOf(datum)[0] === "evil");
      const other = datums.find((datum) => pathsOf(datum)[0] === "b");
      if (!evil || !other) throw new Error("both are to be leased");
      await pipeline.leases.finish({ worker: "w1", outcomes: [failure(evil, { blame: "datum" })] });
      // The fourth job waited for it, and tries it while the second goes on.
      const ahead = await leaseSome(pipeline);
      expect(ahead.datums.map((datum) => pathsOf(datum)[0])).toEqual(["evil"]);
      for (const datum of [...ahead.datums, other]) {
        await pipeline.leases.finish({
          worker: "w1",
          outcomes: [await outcomeOf(datum, { command: echo, output: to })],
        });
      }
      await workUntil(pipeline, { jobs: 4 });
      const jobs = await allJobs(pipeline);
      expect(jobs.map(({ state, datums: { failed } }) => [state, failed])).toEqual([
        ["success", 0],
        ["success", 1],
        ["success", 0],
        ["success", 0],
      ]);
      const listed = await branchOf({ repo: name, branch: "master" }).files.list({
        ...{ prefix: "", limit: 10 },
        commit: jobs[1]?.outputCommit ?? "",
      });
      expect(listed.ok && listed.entries.map(({ path }) => path)).toEqual(["a.out", "b.out"]);
      expect(await output(name)).toEqual(["a.out", "b.out", "evil.out"]);
    },
  );
});

describe("what does not count as a bad datum", () => {
  it("is trouble of the node, which is counted apart and fails the job in the end", REST, async () => {
    const { input, pipeline } = await begin("node");
    await commit(input, { a: "1" });
    const blames = ["node", "datum", "node"] as const;
    for (const blame of blames) {
      const [datum] = (await leaseSome(pipeline)).datums;
      if (datum)
        await pipeline.leases.finish({ worker: "w1", outcomes: [failure(datum, { blame, exitCode: 1 })] });
    }
    await workUntil(pipeline, { jobs: 1 });
    const [job] = await allJobs(pipeline);
    expect(job).toMatchObject({ state: "failure", reason: "datum /a failed after 3 tries: exit code 1: no" });
  });

  it("does not use up a datum's own tries", async () => {
    const { name, input, pipeline } = await begin("apart");
    await commit(input, { a: "1", b: "1" });
    for (const blame of ["node", "datum", "datum"] as const) {
      const { datums, output: to } = await leaseSome(pipeline);
      const outcomes = await Promise.all(
        datums.map((datum) =>
          pathsOf(datum)[0] === "a"
            ? failure(datum, { blame })
            : outcomeOf(datum, { command: echo, output: to }),
        ),
      );
      await pipeline.leases.finish({ worker: "w1", outcomes });
    }
    await workUntil(pipeline, { jobs: 1 });
    expect(await states(pipeline)).toEqual(["success"]);
    expect((await told(name)).a).toMatchObject({ tries: 3 });
  });

  it("is a worker that vanishes again and again", async () => {
    const { name, input, pipeline } = await begin("lost");
    await commit(input, { a: "1", b: "1" });
    for (let losses = 0; losses < 10; losses++) {
      const worker = `w${losses}`;
      const { datums, output: to } = await leaseSome(pipeline, { worker });
      // The others are done, so that it is not for want of any that the job fails.
      const good = datums.filter((datum) => pathsOf(datum)[0] === "b");
      const outcomes = await Promise.all(
        good.map((datum) => outcomeOf(datum, { command: echo, output: to })),
      );
      if (outcomes.length > 0) await pipeline.leases.finish({ worker, outcomes });
      await query(name, "UPDATE slots SET until = 1");
      await expireLeases(name);
    }
    await workUntil(pipeline, { jobs: 1, worker: "w10" });
    expect(await states(pipeline)).toEqual(["failure"]);
    expect((await allJobs(pipeline))[0]?.reason).toContain("its worker was lost 10 times");
  });

  it("is unlike an output that can't be stored, which is the datum's own fault", REST, async () => {
    const { name, input, pipeline } = await begin("path");
    await commit(input, { a: "1", b: "1" });
    const command: Command = (datum) => (pathsOf(datum)[0] === "a" ? { "x/../y": "x" } : echo(datum));
    await workUntil(pipeline, { jobs: 1, command });
    expect((await told(name)).a?.reason).toContain("bad output path 'x/../y'");
  });
});

describe("the file of a bad datum", () => {
  it(
    "is no larger than a branch keeps in its rows: the end of the log is left, and the first of many inputs",
    REST,
    async () => {
      const repos = Array.from({ length: 20 }, (_, index) => `bad-many-${String(index).padStart(2, "0")}`);
      await makeRepo(...repos);
      const globs = Object.fromEntries(repos.map((repo) => [repo, "/*/*"]));
      const pipeline = await makePipeline({ name: "bad-many", globs, more: { ...SKIP, datumTries: 1 } });
      const long = `${"directory".repeat(20)}/${"ö".repeat(60)}`;
      for (const repo of repos) await commit(repo, { [`${long}-${repo}`]: "1" });
      await commit("bad-many-00", { "d/good": "1" });
      await expect.poll(async () => (await allJobs(pipeline)).length).toBe(2);
      const log = `${Array.from({ length: 60 }, (_, line) => `line ${line}: "\u0007"`).join("\n")}\n`;
      for (let done = 0; done < 2; ) {
        const { datums, output: to } = await leaseSome(pipeline);
        const outcomes = await Promise.all(
          datums.map((datum) =>
            pathsOf(datum)[0] === "d/good"
              ? outcomeOf(datum, { command: () => ({ good: "x" }), output: to })
              : failure(datum, { exitCode: 1, reason: "\u0001".repeat(2000), log, blame: "datum" }),
          ),
        );
        done += datums.length;
        await pipeline.leases.finish({ worker: "w1", outcomes });
      }
      await workUntil(pipeline, { jobs: 2, command: () => "fail" });
      const listed = await branchOf(errorsOf("bad-many")).files.list({ prefix: "", limit: 10 });
      const [file] = listed.ok ? listed.entries : [];
      if (file?.kind !== "file") throw new Error("there is no file");
      expect(file.size).toBeLessThanOrEqual(INLINE_LIMIT_BYTES);
      const parsed = JSON.parse(await textOf(errorsOf("bad-many"), file));
      expect(parsed.inputs.length + parsed.inputsLeftOut).toBe(20);
      expect(parsed.inputs.length).toBeGreaterThan(0);
    },
  );
});

describe("the errors branch", () => {
  it(
    "is claimed with the pipeline: nobody else writes to it, and it goes with the pipeline",
    REST,
    async () => {
      const { name, pipeline } = await begin("claimed");
      const branch = branchOf(errorsOf(name));
      expect(await branch.lifecycle.status()).toMatchObject({ ok: true, claimedBy: name });
      const written = await branch.files.commit({ operations: [{ delete: "x" }] });
      expect(written).toEqual({ ok: false, reason: "pipeline-output" });
      expect(await branch.lifecycle.destroy()).toEqual({ ok: false, reason: "pipeline-output" });
      const found = await pipeline.lifecycle.inspect();
      expect(found.ok && found.pipeline.errorsBranch).toBe("errors");
      await pipeline.lifecycle.destroy({ keepOutput: false });
      expect((await branch.lifecycle.status()).ok).toBe(false);
    },
  );

  it("is kept with the output", REST, async () => {
    const { name, pipeline } = await begin("kept");
    await pipeline.lifecycle.destroy({ keepOutput: true });
    expect(await branchOf(errorsOf(name)).lifecycle.status()).toMatchObject({ ok: true, claimedBy: null });
  });

  it.each([
    { but: "", options: {} },
    { but: ", of which the catalogue does not hear", options: { untold: true } },
  ])("is nobody's if the pipeline is deleted while an update claims it$but", async ({ options: late }) => {
    const name = late.untold ? "bad-ended-untold" : "bad-ended";
    await makeRepo(`${name}-in`);
    const options = { name, globs: { [`${name}-in`]: "/*" } };
    const pipeline = await makePipeline(options);
    const claim = claimIsLate(late);
    const spec = specOf({ ...options, more: SKIP });
    const updated = pipeline.specification.update({ spec, reprocess: false });
    await claim.begun();
    expect(await pipeline.lifecycle.destroy({ keepOutput: false })).toMatchObject({ ok: true });
    claim.goesOn();
    expect((await updated).ok).toBe(false);
    const branch = branchOf(errorsOf(name));
    expect(await branch.lifecycle.status()).toEqual({ ok: false, reason: "no-such-branch" });
    expect((await branch.lifecycle.create()).ok).toBe(true);
  });

  it("is refused if somebody has it: a creation is undone, an update changes nothing", REST, async () => {
    await makeRepo("bad-taken-in");
    await branchOf(errorsOf("bad-taken")).lifecycle.create();
    const options = { name: "bad-taken", globs: { "bad-taken-in": "/*" } };
    const pipeline = pipelineOf("bad-taken");
    expect(await pipeline.lifecycle.create(specOf({ ...options, more: SKIP }))).toEqual({
      ok: false,
      reason: "errors-exist",
    });
    await expect.poll(async () => (await pipeline.lifecycle.inspect()).ok).toBe(false);
    expect((await branchOf({ repo: "bad-taken", branch: "master" }).lifecycle.status()).ok).toBe(false);
    expect(await branchOf(errorsOf("bad-taken")).lifecycle.status()).toMatchObject({
      ok: true,
      claimedBy: null,
    });

    expect((await pipeline.lifecycle.create(specOf(options))).ok).toBe(true);
    const spec = specOf({ ...options, more: SKIP });
    expect(await pipeline.specification.update({ spec, reprocess: false })).toEqual({
      ok: false,
      reason: "errors-exist",
    });
    const found = await pipeline.lifecycle.inspect();
    expect(found.ok && found.pipeline).toMatchObject({ version: 1, state: "active" });
    await branchOf(errorsOf("bad-taken")).lifecycle.destroy();
    expect((await pipeline.specification.update({ spec, reprocess: false })).ok).toBe(true);
    expect(await branchOf(errorsOf("bad-taken")).lifecycle.status()).toMatchObject({
      ok: true,
      claimedBy: "bad-taken",
    });
  });

  it(
    "comes with an update, which runs nothing again; the jobs after another one empty it, and it stays",
    REST,
    async () => {
      await makeRepo("bad-later-in");
      const options = { name: "bad-later", globs: { "bad-later-in": "/*" } };
      const pipeline = await makePipeline(options);
      await commit("bad-later-in", { a: "1" });
      await workUntil(pipeline, { jobs: 1 });
      const skips = specOf({ ...options, more: SKIP });
      expect((await pipeline.specification.update({ spec: skips, reprocess: false })).ok).toBe(true);
      expect(await workUntil(pipeline, { jobs: 2 })).toEqual([]);
      await commit("bad-later-in", { b: "1", evil: "1" });
      await workUntil(pipeline, { jobs: 3, command: failing("evil") });
      expect(Object.keys(await told("bad-later"))).toEqual(["evil"]);

      expect((await pipeline.specification.update({ spec: specOf(options), reprocess: false })).ok).toBe(
        true,
      );
      await workUntil(pipeline, { jobs: 4, command: failing("evil") });
      expect((await allJobs(pipeline))[3]).toMatchObject({ state: "failure" });
      expect(Object.keys(await told("bad-later"))).toEqual(["evil"]);
      await commit("bad-later-in", { evil: null });
      await workUntil(pipeline, { jobs: 5 });
      expect(await told("bad-later")).toEqual({});
      expect(await branchOf(errorsOf("bad-later")).lifecycle.status()).toMatchObject({
        ok: true,
        claimedBy: "bad-later",
      });
      const found = await pipeline.lifecycle.inspect();
      expect(found.ok && found.pipeline.errorsBranch).toBe("errors");
    },
  );

  it("takes an explicit 'fail' for what is the default", REST, async () => {
    const { pipeline, name, input } = await begin("same", { onDatumFailure: "fail" });
    const spec = specOf({ name, globs: { [input]: "/*" }, more: { datumTries: 2 } });
    await pipeline.specification.update({ spec, reprocess: false });
    const found = await pipeline.lifecycle.inspect();
    expect(found.ok && found.pipeline.version).toBe(1);
  });

  it("is claimed again if somebody else has fenced the pipeline off", REST, async () => {
    const { name, input, pipeline } = await begin("fenced");
    const found = await query<{ uid: string }>(name, "SELECT uid FROM pipeline");
    await branchOf(errorsOf(name)).output.claim({ pipeline: name, uid: found[0]?.uid ?? "" });
    await commit(input, { a: "1", evil: "1" });
    await workUntil(pipeline, { jobs: 1, command: failing("evil") });
    expect(Object.keys(await told(name))).toEqual(["evil"]);
    expect(await states(pipeline)).toEqual(["success"]);
  });

  it("fails the job if it can't be claimed again", REST, async () => {
    const { name, input, pipeline } = await begin("robbed");
    const found = await query<{ uid: string }>(name, "SELECT uid FROM pipeline");
    await branchOf(errorsOf(name)).output.release({ uid: found[0]?.uid ?? "", destroy: false });
    await commit(input, { a: "1", evil: "1" });
    await workUntil(pipeline, { jobs: 1, command: failing("evil") });
    expect((await allJobs(pipeline))[0]).toMatchObject({
      state: "failure",
      outputCommit: null,
      reason:
        "its failed datums can't be told in s3://errors.bad-robbed: the branch can't be claimed: already-exists",
    });
  });

  it("tells with the next job of a datum that goes bad only once it is done again", REST, async () => {
    const { name, input, pipeline } = await begin("redone", { datumTries: 1 });
    await commit(input, { a: "1", b: "1", evil: "1" });
    const { datums, output: to } = await leaseSome(pipeline);
    const outcomes = await Promise.all(
      datums.map((datum) => outcomeOf(datum, { command: failing("evil"), output: to })),
    );
    const dropped = outcomes.find((_, index) => pathsOf(datums[index] as LeasedDatum)[0] === "b");
    await pipeline.leases.finish({
      worker: "w1",
      outcomes: outcomes.filter((outcome) => outcome !== dropped),
    });
    if (dropped?.state !== "success" || !dropped.upload) throw new Error("b is done");
    // Its content is gone before the output is committed: it is done again, and fails.
    await branchOf(to).uploads.abort({ upload: dropped.upload });
    await pipeline.leases.finish({ worker: "w1", outcomes: [dropped] });
    await workUntil(pipeline, { jobs: 1, command: failing("b") });
    const [job] = await allJobs(pipeline);
    expect(job).toMatchObject({ state: "success", datums: { processed: 1, failed: 2 } });
    expect(await output(name)).toEqual(["a.out"]);
    expect(Object.keys(await told(name))).toEqual(["evil"]);
    await commit(input, { c: "1" });
    await workUntil(pipeline, { jobs: 2, command: failing("b", "evil") });
    expect(Object.keys(await told(name)).sort()).toEqual(["b", "evil"]);
    await commit(input, { d: "1" });
    await workUntil(pipeline, { jobs: 3 });
    expect(await output(name)).toEqual(["a.out", "b.out", "c.out", "d.out", "evil.out"]);
    expect(await told(name)).toEqual({});
  });

  it("takes a great many of them in pages, and lets go of them so", REST, async () => {
    const { name, input, pipeline } = await begin("pages", { datumTries: 1 });
    const files = Object.fromEntries(Array.from({ length: 2600 }, (_, index) => [`f${index}`, "1"]));
    await commit(input, { ...files, good: "1" });
    const command: Command = (datum) => (pathsOf(datum)[0] === "good" ? { good: "x" } : "fail");
    await workUntil(pipeline, { jobs: 1, command, max: 64 });
    const count = async () => {
      const rows = await query<{ count: number }>(name, "SELECT count(*) AS count FROM bad_datums");
      return rows[0]?.count;
    };
    expect(await states(pipeline)).toEqual(["success"]);
    expect(await count()).toBe(2600);
    const page = await branchOf(errorsOf(name)).files.list({ prefix: "errors/", limit: 1000 });
    expect(page.ok && page.entries.length).toBe(1000);
    expect(await errorCommits(name)).toHaveLength(1);
    await commit(input, { ...Object.fromEntries(Object.keys(files).map((path) => [path, null])), b: "1" });
    await workUntil(pipeline, { jobs: 2 });
    expect(await count()).toBe(0);
    expect(await told(name)).toEqual({});
    expect(await errorCommits(name)).toHaveLength(2);
  });

  it(
    "tells of the bad datums of a job whose output was refused, and the next job goes on from there",
    REST,
    async () => {
      const { name, input, pipeline } = await begin("clash");
      await commit(input, { a: "1", b: "1", evil: "1" });
      const clash: Command = (datum) => {
        const path = pathsOf(datum)[0];
        if (path === "evil") return "fail";
        return path === "a" ? { out: "x" } : { "out/deep": "y" };
      };
      await workUntil(pipeline, { jobs: 1, command: clash });
      expect(await states(pipeline)).toEqual(["failure"]);
      expect(Object.keys(await told(name))).toEqual(["evil"]);
      await commit(input, { b: null });
      await workUntil(pipeline, { jobs: 2 });
      expect(await states(pipeline)).toEqual(["failure", "success"]);
      expect(await told(name)).toEqual({});
      expect(await output(name)).toEqual(["evil.out", "out"]);
    },
  );
});
