import { beforeAll, describe, expect, it } from "vitest";
import { CommitStore } from "../../../worker/branch/tree/commit-store.ts";
import { DatumStore } from "../../../worker/pipeline/inputs/datum-store.ts";
import { JobStore } from "../../../worker/pipeline/jobs/job-store.ts";
import { ErrorsClaimStore } from "../../../worker/pipeline/lifecycle/version-store.ts";
import {
  BadDatumStore,
  EndingStore,
  ErrorChangeStore,
  OperationStore,
} from "../../../worker/pipeline/output/draft-store.ts";
import { sampled } from "../../support/suite.ts";
import { type FaultPoint, insist, killedAt, ringAlarms, shortenPauses } from "./faults.ts";
import {
  allJobs,
  branchOf,
  type Command,
  commit,
  expireLeases,
  filesOf,
  makeRepo,
  pathsOf,
  pipelineOf,
  query,
  specOf,
  textOf,
  workOnce,
} from "./support.ts";

const isOfJob = ({ origin }: { origin?: string }): boolean => origin !== undefined;

/** The steps about bad datums, and those of the output commit beside them: a moment before and a moment after each. */
const STEPS: readonly Omit<FaultPoint, "when">[] = [
  { at: "the bad datums of before are looked at", of: BadDatumStore.prototype, method: "page" },
  { at: "a cured datum is born for the output", of: DatumStore.prototype, method: "replace" },
  { at: "a cure is noted", of: ErrorChangeStore.prototype, method: "set" },
  { at: "another cure is noted", of: ErrorChangeStore.prototype, method: "set", call: 2 },
  { at: "a bad datum is noted", of: ErrorChangeStore.prototype, method: "set", call: 3 },
  { at: "the end goes on to what is bad now", of: EndingStore.prototype, method: "set" },
  { at: "the end goes on to the changes", of: EndingStore.prototype, method: "set", call: 2 },
  { at: "the commits are announced", of: JobStore.prototype, method: "setCommitting" },
  { at: "the files are made", of: ErrorChangeStore.prototype, method: "page" },
  {
    ...{ in: "output", at: "the errors are committed" },
    ...{ of: CommitStore.prototype, method: "insert", which: isOfJob },
  },
  { at: "that they are committed is noted", of: JobStore.prototype, method: "setErrorsCommit" },
  { at: "what is told is taken", of: ErrorChangeStore.prototype, method: "take" },
  { at: "what is told no more is noted", of: BadDatumStore.prototype, method: "remove" },
  { at: "what is told now is noted", of: BadDatumStore.prototype, method: "set" },
  { at: "the output commit is made", of: OperationStore.prototype, method: "page" },
  { at: "that the output is committed is noted", of: JobStore.prototype, method: "setCommitted" },
  { at: "the job ends", of: JobStore.prototype, method: "end" },
];

const CLAIMING: readonly Omit<FaultPoint, "when">[] = [
  { at: "the claim is written down", of: ErrorsClaimStore.prototype, method: "begin" },
  { at: "the claim is granted", of: ErrorsClaimStore.prototype, method: "take" },
  { at: "the claim is settled", of: ErrorsClaimStore.prototype, method: "settle" },
];

function aroundEach(steps: readonly Omit<FaultPoint, "when">[]): FaultPoint[] {
  return steps.flatMap((step): FaultPoint[] => [
    { ...step, when: "before", at: `before ${step.at}` },
    { ...step, when: "after", at: `after ${step.at}` },
  ]);
}

const more = { onDatumFailure: "skip", datumTries: 1 } as const;

/** Works until so many jobs have ended, whatever dies; leases that a death left behind run out. */
async function workThrough(
  name: string,
  { jobs, command }: { jobs: number; command: Command },
): Promise<void> {
  for (;;) {
    const all = await insist(async () => allJobs(pipelineOf(name)));
    if (all.length === jobs && all.every(({ finishedAt }) => finishedAt !== null)) return;
    const ran = await workOnce(pipelineOf(name), { command }).catch(() => []);
    if (ran.length > 0) continue;
    await insist(async () => expireLeases(name));
    await ringAlarms(name);
  }
}

/** Datums by their paths: those that fail. */
const failing =
  (...paths: string[]): Command =>
  (datum) => {
    const path = pathsOf(datum)[0] ?? "";
    return paths.includes(path) ? "fail" : { [`${path}.out`]: path };
  };

async function toldPaths(name: string): Promise<string[]> {
  const errors = { repo: name, branch: "errors" };
  const listed = await branchOf(errors).files.list({ prefix: "", limit: 100 });
  if (!listed.ok) throw new Error(listed.reason);
  const texts = await Promise.all(
    listed.entries.map((entry) => (entry.kind === "file" ? textOf(errors, entry) : "")),
  );
  return texts.map((text) => JSON.parse(text).inputs[0].path).sort();
}

async function commitsOf(name: string, branch: string): Promise<(string | null)[]> {
  const { events } = await branchOf({ repo: name, branch }).feed.read({
    cursor: { generation: 0, seq: 0 },
    limit: 100,
  });
  return events.map(({ id }) => id);
}

async function expectWhole(
  name: string,
  { output, bad }: { output: readonly string[]; bad: readonly string[] },
): Promise<void> {
  expect(await filesOf({ repo: name, branch: "master" })).toEqual(output.map((path) => `${path}.out`));
  expect(await toldPaths(name)).toEqual(bad);
  const jobs = await allJobs(pipelineOf(name));
  expect(jobs.map(({ state }) => state)).toEqual(jobs.map(() => "success"));
  expect(await commitsOf(name, "master")).toEqual(jobs.map(({ outputCommit }) => outputCommit));
  expect(await commitsOf(name, "errors")).toEqual(jobs.flatMap(({ errorsCommit }) => errorsCommit ?? []));
  const keys = await query<{ key: string }>(name, "SELECT key FROM bad_datums WHERE fileHash IS NOT NULL");
  expect(keys.map(({ key }) => key).sort()).toEqual(bad);
  for (const table of ["ending", "changed", "operations", "error_changes", "tasks"]) {
    expect(await query(name, `SELECT * FROM ${table}`)).toEqual([]);
  }
}

beforeAll(shortenPauses);

let lives = 0;

describe("a gateway that is killed while a job tells of its bad datums", () => {
  for (const [point, options] of sampled(aroundEach(STEPS), { every: 17 })) {
    it(`${point.at}, tells of them once and right, and so does the next job`, options, async () => {
      const name = `errors-cut-${++lives}`;
      const input = `${name}-in`;
      const gateway = {
        input: { repo: input, branch: "master" },
        output: { repo: name, branch: "errors" },
      };
      await makeRepo(input);
      await pipelineOf(name).lifecycle.create(specOf({ name, globs: { [input]: "/*" }, more }));
      await commit(input, { a: "1", evil: "1", worse: "1" });
      await workThrough(name, { jobs: 1, command: failing("evil", "worse") });
      await expectWhole(name, { output: ["a"], bad: ["evil", "worse"] });

      const command = failing("b");
      const work = async (): Promise<void> => {
        await commit(input, { worse: null, b: "1", c: "1" });
        await workThrough(name, { jobs: 2, command });
      };
      await killedAt(name, { point, gateway, work });
      await workThrough(name, { jobs: 2, command });
      await expectWhole(name, { output: ["a", "c", "evil"], bad: ["b"] });

      await commit(input, { d: "1" });
      await workThrough(name, { jobs: 3, command: failing() });
      await expectWhole(name, { output: ["a", "b", "c", "d", "evil"], bad: [] });
    });
  }
});

describe("a gateway that is killed while a pipeline claims its errors branch", () => {
  for (const [point, options] of sampled(aroundEach(CLAIMING), { every: 6 })) {
    it(`in its creation, ${point.at}, has both in the end`, options, async () => {
      const name = `errors-made-${++lives}`;
      await makeRepo(`${name}-in`);
      const spec = specOf({ name, globs: { [`${name}-in`]: "/*" }, more });
      await killedAt(name, { point, work: async () => pipelineOf(name).lifecycle.create(spec) });
      await expect
        .poll(async () => {
          await ringAlarms(name);
          return await insist(async () => pipelineOf(name).lifecycle.inspect());
        })
        .toMatchObject({ pipeline: { state: "active" } });
      expect(await branchOf({ repo: name, branch: "errors" }).lifecycle.status()).toMatchObject({
        claimedBy: name,
      });
    });

    it(`in an update, ${point.at}, has the branch with the new version or neither`, options, async () => {
      const name = `errors-new-${++lives}`;
      const input = `${name}-in`;
      await makeRepo(input);
      const plain = { name, globs: { [input]: "/*" } };
      await pipelineOf(name).lifecycle.create(specOf(plain));
      const spec = specOf({ ...plain, more });
      const update = async () => pipelineOf(name).specification.update({ spec, reprocess: false });
      await killedAt(name, { point, work: update });
      const claims = () => query<{ settled: number }>(name, "SELECT settled FROM errors_claim");
      await expect
        .poll(async () => {
          await ringAlarms(name);
          return (await claims()).filter(({ settled }) => settled === 0);
        })
        .toEqual([]);
      const found = await pipelineOf(name).lifecycle.inspect();
      const isUpdated = found.ok && found.pipeline.version === 2;
      expect((await branchOf({ repo: name, branch: "errors" }).lifecycle.status()).ok).toBe(isUpdated);
      expect((await insist(update)).ok).toBe(true);
      expect(await branchOf({ repo: name, branch: "errors" }).lifecycle.status()).toMatchObject({
        claimedBy: name,
      });
    });
  }
});
