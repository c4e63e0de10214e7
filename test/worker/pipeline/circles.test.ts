import { env } from "cloudflare:test";
import { afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { feed } from "../../../worker/branch/calls/feed.ts";
import { PipelineTable } from "../../../worker/catalogue/pipelines.ts";
import { ProposalTable } from "../../../worker/catalogue/proposals.ts";
import type { PipelineApi } from "../../../worker/pipeline/contract.ts";
import { PipelineStore } from "../../../worker/pipeline/lifecycle/pipeline-store.ts";
import { ProposalStore } from "../../../worker/pipeline/lifecycle/version-store.ts";
import { REST, sampled } from "../../support/suite.ts";
import { failed, good } from "../api/support.ts";
import { type FaultPoint, insist, killedAt, ringAlarms, shortenPauses } from "./faults.ts";
import {
  allJobs,
  branchOf,
  commit,
  dueLoops,
  filesOf,
  makePipeline,
  makeRepo,
  pipelineOf,
  query,
  specOf,
  workOnce,
  workUntil,
} from "./support.ts";

beforeAll(shortenPauses);
afterEach(() => vi.restoreAllMocks());

type Answer = Awaited<ReturnType<PipelineApi["specification"]["update"]>>;

/** So many submissions read the graph when each of them has proposed its edges, and go on when each has read it. */
function meetAtTheCheck(submissions: number): void {
  const { graph } = ProposalTable.prototype;
  let proposed = 0;
  let read = 0;
  vi.spyOn(ProposalTable.prototype, "graph").mockImplementation(async function (this: ProposalTable) {
    proposed += 1;
    // A promise that another object resolves would be of that object's call.
    while (proposed < submissions) await scheduler.wait(1);
    const flows = await graph.call(this);
    read += 1;
    while (read < submissions) await scheduler.wait(1);
    return flows;
  });
}

/** A check that sees nothing, as if somebody had written the edges behind its back. */
async function unseen<T>(work: () => Promise<T>): Promise<T> {
  const blind = vi.spyOn(ProposalTable.prototype, "graph").mockResolvedValue([]);
  try {
    return await work();
  } finally {
    blind.mockRestore();
  }
}

function proposals(): Promise<string[]> {
  return env.DB.prepare("SELECT pipeline FROM proposals ORDER BY pipeline")
    .all<{ pipeline: string }>()
    .then(({ results }) => results.map(({ pipeline }) => pipeline));
}

/** Nothing of what was proposed is left, neither in the catalogue nor with the pipelines. */
async function expectNoProposals(...names: string[]): Promise<void> {
  await expect.poll(proposals).toEqual([]);
  for (const name of names) expect(await rowsOf(name, "proposals")).toEqual([]);
}

/** All rows of a table of a pipeline; none if the pipeline was never written down. */
async function rowsOf(name: string, table: "proposals"): Promise<object[]> {
  const there = await query(name, `SELECT 1 FROM sqlite_master WHERE name = '${table}'`);
  return there.length > 0 ? await query(name, `SELECT * FROM ${table}`) : [];
}

function reads(name: string, repo: string) {
  return specOf({ name, globs: { [repo]: "/*" } });
}

/** Two pipelines, each with an input of its own that holds a file, and one job that has ended. */
async function twoPipelines(prefix: string): Promise<[a: string, b: string]> {
  const names = [`${prefix}-a`, `${prefix}-b`] as const;
  for (const name of names) {
    await makeRepo(`${name}-in`);
    const pipeline = await makePipeline({ name, globs: { [`${name}-in`]: "/*" } });
    await commit(`${name}-in`, { a: "1" });
    await workUntil(pipeline, { jobs: 1 });
  }
  return [...names];
}

const update = (name: string, repo: string) => async (): Promise<Answer> =>
  pipelineOf(name).specification.update({ spec: reads(name, repo), reprocess: false });

function isCircle(answer: { ok: boolean; reason?: string }): boolean {
  return !answer.ok && answer.reason === "circle";
}

describe("two submissions that make a circle only together", () => {
  it("as updates that meet are both refused, and both pipelines run on as they were", async () => {
    const [a, b] = await twoPipelines("meet");
    meetAtTheCheck(2);
    const answers = await Promise.all([update(a, b)(), update(b, a)()]);
    expect(answers).toEqual([
      {
        ok: false,
        reason: "circle",
        circle: {
          ...{ input: { repo: b, branch: "master" }, made: { repo: a, branch: "master" } },
          ...{ through: [b], isProposed: true },
        },
      },
      {
        ok: false,
        reason: "circle",
        circle: {
          ...{ input: { repo: a, branch: "master" }, made: { repo: b, branch: "master" } },
          ...{ through: [a], isProposed: true },
        },
      },
    ]);
    await expectNoProposals(a, b);
    for (const name of [a, b]) {
      expect(await pipelineOf(name).lifecycle.inspect()).toMatchObject({
        pipeline: { state: "active", version: 1 },
      });
      await commit(`${name}-in`, { b: "1" });
      await workUntil(pipelineOf(name), { jobs: 2 });
      expect(await filesOf({ repo: name, branch: "master" })).toEqual(["a.out", "b.out"]);
    }
    vi.restoreAllMocks();
    expect(await update(a, b)()).toMatchObject({ ok: true, pipeline: { version: 2 } });
    expect(isCircle(await update(b, a)())).toBe(true);
  });

  it("as creations that meet are never both made, and a refused one leaves nothing behind", async () => {
    const names = ["born-a", "born-b"] as const;
    const specs = [reads("born-a", "born-b"), reads("born-b", "born-a")] as const;
    meetAtTheCheck(2);
    const answers = await Promise.all(
      specs.map((spec) => pipelineOf(spec.pipeline.name).lifecycle.create(spec)),
    );
    expect(answers.map(isCircle)).toEqual([true, true]);
    await expectNoProposals(...names);
    for (const name of names) {
      expect(await pipelineOf(name).lifecycle.inspect()).toEqual({ ok: false, reason: "no-such-pipeline" });
      expect(await query(name, "SELECT state FROM pipeline")).toEqual([{ state: "deleted" }]);
    }
    expect((await new PipelineTable(env.DB).list()).filter(({ name }) => name.startsWith("born"))).toEqual(
      [],
    );
    vi.restoreAllMocks();
    expect(await pipelineOf("born-a").lifecycle.create(specs[0])).toMatchObject({ ok: true });
  });

  it("in whatever order they come, are not both accepted", REST, async () => {
    for (let round = 0; round < 8; round++) {
      const [a, b] = [`order-${round}-a`, `order-${round}-b`] as const;
      for (const name of [a, b]) {
        await makeRepo(`${name}-in`);
        await makePipeline({ name, globs: { [`${name}-in`]: "/*" } });
      }
      const first = update(a, b)();
      if (round % 4 > 0) await scheduler.wait(round);
      const answers = await Promise.all([first, update(b, a)()]);
      expect(answers.filter(({ ok }) => ok).length).toBeLessThan(2);
      expect(answers.every((answer) => answer.ok || isCircle(answer))).toBe(true);
      await expectNoProposals(a, b);
    }
  });

  it("are not both accepted if one of them is three pipelines long", REST, async () => {
    const [a, b] = await twoPipelines("long");
    await makePipeline({ name: "long-c", globs: { [b]: "/*" } });
    meetAtTheCheck(2);
    const answers = await Promise.all([update(a, "long-c")(), update(b, a)()]);
    expect(answers).toMatchObject([
      { reason: "circle", circle: { through: [b, "long-c"] } },
      { reason: "circle", circle: { through: ["long-c", a] } },
    ]);
  });

  it("as two of which one is to tell of bad datums and the other to read that are both refused", async () => {
    const [a, b] = await twoPipelines("errors-meet");
    const tells = specOf({ name: a, globs: { [b]: "/*" }, more: { onDatumFailure: "skip" } });
    const repo = { name: a };
    const hears = specOf({ name: b, globs: {}, more: { inputs: [{ repo, branch: "errors", glob: "/*" }] } });
    meetAtTheCheck(2);
    const answers = await Promise.all([
      pipelineOf(a).specification.update({ spec: tells, reprocess: false }),
      pipelineOf(b).specification.update({ spec: hears, reprocess: false }),
    ]);
    expect(answers).toMatchObject([
      { reason: "circle", circle: { made: { repo: a, branch: "errors" }, through: [b], isProposed: true } },
      { reason: "circle", circle: { input: { repo: a, branch: "errors" }, through: [a] } },
    ]);
    await expectNoProposals(a, b);
    expect((await branchOf({ repo: a, branch: "errors" }).lifecycle.status()).ok).toBe(false);
    vi.restoreAllMocks();
    expect((await pipelineOf(b).specification.update({ spec: hears, reprocess: false })).ok).toBe(true);
    expect(isCircle(await pipelineOf(a).specification.update({ spec: tells, reprocess: false }))).toBe(true);
    const own = specOf({ name: a, globs: { [`${a}-in`]: "/*" }, more: { onDatumFailure: "skip" } });
    expect((await pipelineOf(a).specification.update({ spec: own, reprocess: false })).ok).toBe(true);
    expect(isCircle(await update(a, b)())).toBe(true);
  });

  it("are told so by the control API, each at the input that would close it", async () => {
    const [a, b] = await twoPipelines("told");
    meetAtTheCheck(2);
    const submit = (name: string, repo: string) =>
      failed("POST /pipelines?update=true", { body: reads(name, repo) });
    const refused = await Promise.all([submit(a, b), submit(b, a)]);
    for (const { status, code, issues } of refused) {
      expect({ status, code }).toEqual({ status: 400, code: "InvalidSpec" });
      expect(issues).toMatchObject([{ path: "inputs[0].repo.name" }]);
      expect(issues[0]?.message).toMatch(/can't go in a circle.*submission of this very moment/);
    }
  });
});

describe("two updates of one pipeline at the same time", () => {
  it("leave no edge unchecked: one that seemed to add nothing is asked again", async () => {
    const [a, b] = await twoPipelines("swap");
    await makeRepo("swap-other");
    const id = await commit(`${a}-in`, { b: "1" });
    const { position } = feed;
    let held = false;
    let goesOn = false;
    vi.spyOn(feed, "position").mockImplementation(async (reach, request) => {
      held = true;
      while (!goesOn) await scheduler.wait(1);
      return await position(reach, request);
    });
    const from = { repo: { name: `${a}-in` }, ID: id };
    const spec = specOf({
      name: a,
      globs: {},
      more: { inputs: [{ repo: { name: `${a}-in` }, glob: "/*", from }] },
    });
    // While it prepares what the pipeline has anyway, another one takes that away.
    const back = pipelineOf(a).specification.update({ spec, reprocess: false });
    await expect.poll(() => held).toBe(true);
    expect(await update(a, "swap-other")()).toMatchObject({ ok: true });
    goesOn = true;
    expect(await back).toEqual({ ok: false, reason: "unavailable" });
    expect(await update(b, a)()).toMatchObject({ ok: true });
    await expectNoProposals(a, b);
  });
});

const POINTS: FaultPoint[] = [
  { at: "its edges are written down", of: ProposalStore.prototype, method: "add", when: "before" },
  { at: "the catalogue is told of its edges", of: ProposalTable.prototype, method: "add", when: "before" },
  { at: "the catalogue has its edges", of: ProposalTable.prototype, method: "add", when: "after" },
  { at: "the graph is read", of: ProposalTable.prototype, method: "graph", when: "after" },
  { at: "the edges count", of: PipelineTable.prototype, method: "record", when: "after" },
  { at: "the edges are taken back", of: ProposalTable.prototype, method: "remove", when: "before" },
  { at: "the catalogue has forgotten them", of: ProposalTable.prototype, method: "remove", when: "after" },
  { at: "that is written down", of: ProposalStore.prototype, method: "remove", when: "before" },
];
const OF_UPDATE: FaultPoint[] = [
  ...POINTS,
  { at: "the version begins", of: PipelineStore.prototype, method: "setNextRevision", when: "before" },
  { at: "the version has begun", of: PipelineStore.prototype, method: "setState", when: "after" },
];

/** The alarms of a pipeline ring, as the platform lets them, until it rests. */
async function comesToRest(...names: string[]): Promise<void> {
  for (const name of names) {
    await expect
      .poll(async () => {
        await ringAlarms(name);
        return (await dueLoops(name)).length;
      })
      .toBe(0);
  }
}

let crashes = 0;

describe("a pipeline that is killed while an update of it is checked for circles", () => {
  for (const [point, options] of sampled(OF_UPDATE, { every: 9 }))
    it(`when ${point.at}, holds no other one back for ever, nor makes a circle`, options, async () => {
      const [a, b] = await twoPipelines(`cut-${++crashes}`);
      await killedAt(a, { point, work: update(a, b) });
      await comesToRest(a);
      await expectNoProposals(a);
      const inspected = await insist(async () => pipelineOf(a).lifecycle.inspect());
      const begun = inspected.ok && inspected.pipeline.version === 2;
      // Its edges count if its version does, and only then.
      const other = await insist(update(b, a));
      expect(isCircle(other)).toBe(begun);
      expect(other.ok).toBe(!begun);
      await expectNoProposals(a, b);
    });
});

describe("a pipeline that is killed while it is being created and checked for circles", () => {
  for (const [point, options] of sampled(POINTS, { every: 9 }))
    it(`when ${point.at}, is made or not, and makes no circle`, options, async () => {
      const name = `begun-${++crashes}`;
      const other = `${name}-other`;
      await makeRepo(`${name}-in`, `${other}-in`);
      await makePipeline({ name: other, globs: { [`${other}-in`]: "/*" } });
      const create = async () => pipelineOf(name).lifecycle.create(reads(name, other));
      await killedAt(name, { point, work: create });
      await comesToRest(name);
      await expectNoProposals(name);
      const made = (await insist(async () => pipelineOf(name).lifecycle.inspect())).ok;
      expect(isCircle(await insist(update(other, name)))).toBe(made);
      if (!made) expect(isCircle(await insist(create))).toBe(true);
      await expectNoProposals(name, other);
    });

  it("is undone by the alarm if there is a circle, when the catalogue has told of it", async () => {
    const name = `begun-${++crashes}`;
    await makePipeline({ name: `${name}-other`, globs: { [name]: "/*" } });
    const point = { ...(POINTS[3] as FaultPoint), call: 1 };
    await killedAt(name, {
      point,
      work: async () => pipelineOf(name).lifecycle.create(reads(name, `${name}-other`)),
    });
    await comesToRest(name);
    await expectNoProposals(name);
    expect(await insist(async () => pipelineOf(name).lifecycle.inspect())).toMatchObject({
      reason: "no-such-pipeline",
    });
    expect(await query(name, "SELECT state FROM pipeline")).toEqual([{ state: "deleted" }]);
  });
});

/** `p` reads `seed`, `q` reads what `p` makes; then `p` is made to read what `q` makes, behind the check's back. */
async function closedCircle(prefix: string): Promise<{ p: string; q: string }> {
  const [p, q] = [`${prefix}-p`, `${prefix}-q`] as const;
  await makeRepo(`${prefix}-seed`);
  const first = await makePipeline({ name: p, globs: { [`${prefix}-seed`]: "/*" } });
  const second = await makePipeline({ name: q, globs: { [p]: "/*" } });
  await commit(`${prefix}-seed`, { a: "1" });
  await workUntil(first, { jobs: 1 });
  await workUntil(second, { jobs: 1 });
  expect(await unseen(update(p, q))).toMatchObject({ ok: true, pipeline: { version: 2 } });
  return { p, q };
}

/** Lets both work until neither has anything left to do; returns how many jobs each has. */
async function workToTheEnd(...names: string[]): Promise<number[]> {
  for (;;) {
    const before = (await Promise.all(names.map((name) => allJobs(pipelineOf(name))))).flat();
    for (const name of names) await workOnce(pipelineOf(name), {});
    const jobs = await Promise.all(names.map((name) => allJobs(pipelineOf(name))));
    const due = await Promise.all(
      names.map((name) => query<{ due: number }>(name, "SELECT pullDue AS due FROM pipeline")),
    );
    const done =
      jobs.flat().every(({ finishedAt }) => finishedAt !== null) && !due.flat().some((row) => row.due);
    if (done && before.length === jobs.flat().length) return jobs.map(({ length }) => length);
  }
}

describe("the brake for a circle that is there all the same", () => {
  it("ends it with a reason, after a round, and the pipelines work again once it is open", async () => {
    const { p, q } = await closedCircle("brake");
    const counts = await workToTheEnd(p, q);
    expect(Math.max(...counts)).toBeLessThan(6);
    const ended = (await Promise.all([p, q].map((name) => allJobs(pipelineOf(name)))))
      .flat()
      .filter(({ state }) => state === "failure");
    expect(ended).toHaveLength(1);
    expect(ended[0]?.reason).toMatch(
      /^the pipelines go in a circle, which ends here: jobs alone made what is in the input 'brake-[pq]' \(s3:\/\/master\.brake-[pq]\) out of this pipeline's own output/,
    );
    expect(await update(p, "brake-seed")()).toMatchObject({ ok: true });
    await workToTheEnd(p, q);
    for (const name of [p, q]) expect((await allJobs(pipelineOf(name))).at(-1)?.state).toBe("success");
    await commit("brake-seed", { b: "1" });
    await workToTheEnd(p, q);
    expect(await filesOf({ repo: q, branch: "master" })).toEqual(["a.out.out", "b.out.out"]);
  });

  it("lets a user put an output back into an input, as often as they like", async () => {
    await makeRepo("copy-in");
    const pipeline = await makePipeline({ name: "copy", globs: { "copy-in": "/*" } });
    await commit("copy-in", { a: "1" });
    for (let round = 1; round < 5; round++) {
      await workUntil(pipeline, { jobs: round });
      const files = await filesOf({ repo: "copy", branch: "master" });
      await commit("copy-in", Object.fromEntries(files.map((path) => [path, `round ${round}`])));
    }
    await workUntil(pipeline, { jobs: 5 });
    expect((await allJobs(pipeline)).map(({ state }) => state)).toEqual(Array(5).fill("success"));
  });

  it("lets the way of data be turned round by updates", REST, async () => {
    const [p, q] = ["turn-p", "turn-q"] as const;
    await makeRepo("turn-seed", "turn-other");
    const first = await makePipeline({ name: p, globs: { "turn-seed": "/*" } });
    const second = await makePipeline({ name: q, globs: { [p]: "/*" } });
    for (const repo of ["turn-seed", "turn-other"]) await commit(repo, { a: "1" });
    await workUntil(first, { jobs: 1 });
    await workUntil(second, { jobs: 1 });
    expect(await update(q, "turn-other")()).toMatchObject({ ok: true });
    // What `q` has in its output still came out of `p`.
    expect(await update(p, q)()).toMatchObject({ ok: true });
    await workToTheEnd(p, q);
    const jobs = (await Promise.all([p, q].map((name) => allJobs(pipelineOf(name))))).flat();
    expect(jobs.filter(({ state }) => state === "failure")).toEqual([]);
  });

  it("answers stop and delete in the middle of a circle", REST, async () => {
    const { p, q } = await closedCircle("spin");
    for (let round = 0; round < 3; round++) {
      await workOnce(pipelineOf(p), {});
      await workOnce(pipelineOf(q), {});
    }
    await good(`POST /pipelines/${p}/stop`);
    await good(`DELETE /pipelines/${q}?force=true`);
    await good(`DELETE /pipelines/${p}`);
    await expectNoProposals(p, q);
  });
});
