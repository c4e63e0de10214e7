// @module-tag rest
import { beforeAll, describe, expect, it } from "vitest";
import { Outbox } from "../../../worker/branch/outbox/outbox-store.ts";
import { UploadStore } from "../../../worker/branch/uploads/upload-store.ts";
import { ResultStore } from "../../../worker/pipeline/attempts/result-store.ts";
import { wakeUps } from "../../../worker/pipeline/calls/lifecycle.ts";
import { ErasureStore } from "../../../worker/pipeline/inputs/erasure-store.ts";
import { JobStore } from "../../../worker/pipeline/jobs/job-store.ts";
import { PublishedStore } from "../../../worker/pipeline/output/published-store.ts";
import { type FaultPoint, insist, killedAt, shortenPauses } from "./faults.ts";
import {
  allJobs,
  branchOf,
  type Command,
  commit,
  filesOf,
  makePipeline,
  makeRepo,
  master,
  pathsOf,
  pipelineOf,
  query,
  workUntil,
} from "./support.ts";

const isOfInput = (_: unknown, { output }: { output?: true }): boolean => output !== true;
const isOfOutput = (_: unknown, { output }: { output?: true }): boolean => output === true;
const WHEN = ["before", "after"] as const;
const both = (points: readonly Omit<FaultPoint, "when">[]): FaultPoint[] =>
  points.flatMap((point) => WHEN.map((when) => ({ ...point, when })));

const OF_INPUT = both([
  { in: "input", at: "the bell is written", of: Outbox.prototype, method: "ring" },
  { at: "the bell is heard", of: wakeUps, method: "ring", which: isOfInput },
  { at: "the first job is killed", of: JobStore.prototype, method: "end" },
  { at: "the second job is killed", of: JobStore.prototype, method: "end", call: 2 },
  { at: "a job is owed", of: ErasureStore.prototype, method: "addDue" },
  { at: "it is heard of", of: ErasureStore.prototype, method: "hear" },
  { at: "the job is made", of: JobStore.prototype, method: "insert" },
]);

const OF_OUTPUT = both([
  { in: "output", at: "the bell is written", of: Outbox.prototype, method: "ring" },
  { at: "the bell is heard", of: wakeUps, method: "ring", which: isOfOutput },
  { at: "it is to be asked", of: ErasureStore.prototype, method: "addDue" },
  { at: "an output is dropped", of: ResultStore.prototype, method: "dropOutput" },
  { at: "its content is to be given up", of: ErasureStore.prototype, method: "giveUp" },
  { at: "what is published is replaced", of: PublishedStore.prototype, method: "replace" },
  { at: "it is heard of", of: ErasureStore.prototype, method: "hear" },
  { in: "output", at: "the branch lets go", of: UploadStore.prototype, method: "letGo" },
  { at: "that it did is noted", of: ErasureStore.prototype, method: "forgetGivenUp" },
]);

const named: Command = (datum) => ({ [`${pathsOf(datum)[0]}.out`]: datum.datum });

beforeAll(shortenPauses);

let names = 0;

async function fresh() {
  const name = `ec-${++names}`;
  const repo = `${name}-in`;
  await makeRepo(repo);
  const pipeline = await makePipeline({ name, globs: { [repo]: "/*" } });
  const output = { repo: name, branch: "master" };
  return { name, repo, pipeline, output, gateway: { input: { repo, branch: "master" }, output } };
}

describe("an input version that is erased", () => {
  it.each(OF_INPUT)("ends its jobs and makes one, wherever a crash comes: $when $at", async (point) => {
    const { name, repo, gateway } = await fresh();
    const one = await commit(repo, { a: "1" });
    await commit(repo, { b: "1" });
    await commit(repo, { a: "2" });
    // They know their datums: one that reads later finds nothing there, and is done.
    const filled = "SELECT count(*) AS n FROM jobs WHERE filled = 1";
    await expect.poll(() => query(name, filled)).toEqual([{ n: 3 }]);
    const erase = () => master(repo).erasures.erase({ versions: [{ path: "a", version: one }] });
    await killedAt(name, { point, gateway, work: erase });
    // Whoever hears nothing asks again.
    expect(await insist(erase)).toMatchObject({ ok: true });
    const after = pipelineOf(name);
    await expect.poll(async () => (await allJobs(after)).length).toBe(4);
    await workUntil(after, { jobs: 4, command: named });
    expect((await allJobs(after)).map(({ state }) => state)).toEqual([
      "killed",
      "killed",
      "success",
      "success",
    ]);
    expect(await filesOf({ repo: name, branch: "master" })).toEqual(["a.out", "b.out"]);
  });
});

describe("an output version that is erased", () => {
  it.each(OF_OUTPUT)("leaves no bytes in a result, wherever a crash comes: $when $at", async (point) => {
    const { name, repo, pipeline, output, gateway } = await fresh();
    await commit(repo, { a: "1", b: "1" });
    await workUntil(pipeline, { jobs: 1, command: named });
    const file = await branchOf(output).files.read({ path: "a.out" });
    if (!file.ok) throw new Error(file.reason);
    const erase = () =>
      branchOf(output).erasures.erase({ versions: [{ path: "a.out", version: file.commit }] });
    await killedAt(name, { point, gateway, work: erase });
    expect(await insist(erase)).toMatchObject({ ok: true });
    const { digest, size } = file;
    await expect
      .poll(() => branchOf(output).files.content({ digest, size }))
      .toEqual({ ok: false, reason: "no-such-content" });
    expect(await query(name, "SELECT count(*) AS n FROM results")).toEqual([{ n: 2 }]);
    await commit(repo, { c: "1" });
    const ran = await workUntil(pipelineOf(name), { jobs: 2, command: named });
    expect(ran.map(({ paths }) => paths[0])).toEqual(["c"]);
    expect(await filesOf(output)).toEqual(["b.out", "c.out"]);
  });
});
