import { env, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { describe, expect, it } from "vitest";
import type { ContentId } from "../../../protocol/content.ts";
import {
  type LeasedDatum,
  NODE_TTL_MS,
  type Outcome,
  QUIET_TTL_MS,
  WakeUp,
} from "../../../protocol/runner.ts";
import { UploadStore } from "../../../worker/branch/uploads/upload-store.ts";
import { openCatalogue } from "../../../worker/catalogue/catalogue.ts";
import { FLEET_NAME } from "../../../worker/fleet/door.ts";
import { LostLeaseStore } from "../../../worker/pipeline/attempts/upload-store.ts";
import type { PipelineApi } from "../../../worker/pipeline/contract.ts";
import { sampled } from "../../support/suite.ts";
import { type FaultPoint, insist, killedAt, ringAlarms } from "./faults.ts";
import {
  allJobs,
  branchOf,
  commit,
  contentOf,
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
  workUntil,
} from "./support.ts";

function success(datum: LeasedDatum | undefined): Outcome {
  return {
    lease: datum?.lease ?? "",
    state: "success",
    exitCode: 0,
    outputs: [],
    millis: 1,
    ran: { executor: "process", image: null },
  };
}

describe("what was uploaded under a lease", () => {
  /** The leases that the output branch knows, whether each is lost, and whether contents are held under it. */
  async function uploadsOf(repo: string): Promise<unknown[]> {
    const stub = env.BRANCH.getByName(`master.${repo}`);
    await runDurableObjectAlarm(stub);
    return runInDurableObject(stub, (_, { storage }) =>
      storage.sql
        .exec(
          "SELECT lease, lost, EXISTS (SELECT 1 FROM holds WHERE upload = id) AS holds FROM uploads ORDER BY lease",
        )
        .toArray(),
    );
  }

  it.each([
    {
      how: "ran out",
      end: async (_: PipelineApi, name: string) => {
        await expireLeases(name);
        await runDurableObjectAlarm(env.PIPELINE.getByName(name));
      },
    },
    {
      how: "was returned",
      end: (pipeline: PipelineApi, _: string, lease: string) =>
        pipeline.leases.finish({ worker: "w1", outcomes: [{ lease, state: "returned" }] }),
    },
    {
      how: "failed",
      end: (pipeline: PipelineApi, _: string, lease: string) => {
        const failed = {
          state: "failed",
          blame: "datum",
          exitCode: 1,
          reason: "no",
          log: "",
          millis: 1,
        } as const;
        return pipeline.leases.finish({ worker: "w1", outcomes: [{ lease, ...failed }] });
      },
    },
    { how: "was of a job that was stopped", end: (pipeline: PipelineApi) => pipeline.lifecycle.stop() },
  ])("that $how goes at once, and what still comes is refused; a result keeps its own", async ({
    how,
    end,
  }) => {
    const name = how.replaceAll(" ", "-");
    await makeRepo(`${name}-in`);
    const pipeline = await makePipeline({ name, globs: { [`${name}-in`]: "/*" } });
    await commit(`${name}-in`, { a: "1", b: "2" });
    const { datums, output } = await leaseSome(pipeline);
    const [kept, lost] = await Promise.all(
      datums.map((datum) => outcomeOf(datum, { command: echo, output })),
    );
    if (kept?.state !== "success" || lost?.state !== "success" || !lost.upload || !kept.upload)
      throw new Error("two datums were to upload");
    await pipeline.leases.finish({ worker: "w1", outcomes: [kept] });
    await end(pipeline, name, lost.lease);
    const uploads = [
      { lease: kept.lease, lost: 0, holds: 1 },
      { lease: lost.lease, lost: 1, holds: 0 },
    ].sort((one, other) => (one.lease < other.lease ? -1 : 1));
    await expect.poll(() => uploadsOf(name)).toEqual(uploads);
    const branch = branchOf(output);
    const [own, others] = [kept, lost].map(({ outputs }) => outputs[0] as ContentId);
    expect(await branch.files.content(others as ContentId)).toEqual({ ok: false, reason: "no-such-content" });
    expect(await branch.files.content(own as ContentId)).toMatchObject({ ok: true });

    const closed = { ok: false, reason: "no-such-upload" };
    const { upload, lease } = lost;
    expect(await branch.uploads.add({ upload, contents: [contentOf("late")] })).toEqual(closed);
    expect(await branch.uploads.reserve({ upload, contents: [own as ContentId] })).toEqual(closed);
    expect(await branch.uploads.renew({ upload })).toEqual(closed);
    expect(await branch.uploads.open({ lease })).toEqual({ ok: false, reason: "lost-lease" });
    expect(await uploadsOf(name)).toEqual(uploads);
    await expect.poll(() => query(name, "SELECT lease FROM lost_leases")).toEqual([]);
  });

  it("that never uploaded anything is refused, too, if it comes late", async () => {
    await makeRepo("tardy-in");
    const pipeline = await makePipeline({ name: "tardy", globs: { "tardy-in": "/*" } });
    await commit("tardy-in", { a: "1" });
    const { datums, output } = await leaseSome(pipeline);
    const [{ lease } = { lease: "" }] = datums;
    await pipeline.leases.finish({ worker: "w1", outcomes: [{ lease, state: "returned" }] });
    await expect.poll(() => uploadsOf("tardy")).toEqual([{ lease, lost: 1, holds: 0 }]);
    expect(await branchOf(output).uploads.open({ lease })).toEqual({ ok: false, reason: "lost-lease" });
    expect(await uploadsOf("tardy")).toEqual([{ lease, lost: 1, holds: 0 }]);
  });
});

const FORGOTTEN: readonly FaultPoint[] = (["before", "after"] as const).flatMap((when) => [
  { when, at: `${when} it is noted`, of: LostLeaseStore.prototype, method: "ofAttempt" },
  {
    when,
    at: `${when} the branch ends its upload`,
    of: UploadStore.prototype,
    method: "abortLease",
    in: "output",
  },
  { when, at: `${when} the note goes`, of: LostLeaseStore.prototype, method: "forget" },
]);

describe("a gateway that is killed while a lease is lost", () => {
  for (const [point, options] of sampled(FORGOTTEN, { every: 6 }))
    it(
      `${point.at}, gives up what was uploaded under it all the same, and nothing else`,
      options,
      async () => {
        const name = point.at.replaceAll(" ", "-");
        const [input, output] = [`${name}-in`, name].map((repo) => ({ repo, branch: "master" }));
        if (!input || !output) throw new Error("two branches");
        await makeRepo(input.repo);
        const pipeline = await makePipeline({ name, globs: { [input.repo]: "/*" } });
        await commit(input.repo, { a: "1", b: "2" });
        const { datums } = await leaseSome(pipeline);
        const [kept, lost] = await Promise.all(
          datums.map((datum) => outcomeOf(datum, { command: echo, output })),
        );
        if (kept?.state !== "success" || lost?.state !== "success")
          throw new Error("two datums were to upload");
        await pipeline.leases.finish({ worker: "w1", outcomes: [kept] });
        const outcomes = [{ lease: lost.lease, state: "returned" as const }];
        const work = async () =>
          insist(async () => pipelineOf(name).leases.finish({ worker: "w1", outcomes }));
        await killedAt(name, { point, gateway: { input, output }, work });
        const [own, others] = [kept, lost].map(({ outputs }) => outputs[0] as ContentId);
        const found = async (content: ContentId | undefined) =>
          content && (await insist(async () => branchOf(output).files.content(content))).ok;
        await expect
          .poll(async () => {
            await ringAlarms(name, { input, output });
            return { own: await found(own), others: await found(others) };
          })
          .toEqual({ own: true, others: false });
        await expect.poll(() => query(name, "SELECT lease FROM lost_leases")).toEqual([]);
        await workUntil(pipelineOf(name), { jobs: 1 });
        expect(await filesOf(output)).toEqual(["a.out", "b.out"]);
      },
    );
});

let made = 0;

async function ring(name: string): Promise<void> {
  await runDurableObjectAlarm(env.PIPELINE.getByName(name));
}

/** The socket of a node that is new to the fleet, and how often it was told to beat since: first when it opened, and as one that came. */
async function openSocketOf(node: string): Promise<{ beats(): number }> {
  const fleet = env.FLEET.getByName(FLEET_NAME);
  const { webSocket } = await fleet.fetch(`http://fleet/?node=${node}`, {
    headers: { upgrade: "websocket" },
  });
  const told: WakeUp[] = [];
  webSocket?.addEventListener("message", ({ data }) => {
    told.push(WakeUp.parse(JSON.parse(String(data))));
  });
  webSocket?.accept();
  const beats = () => told.filter(({ beat }) => beat).length;
  await expect.poll(beats).toBeGreaterThan(1);
  return { beats };
}

describe("a lease", () => {
  it("that ran out can't record a result, and its datum goes to another worker", async () => {
    await makeRepo("slow-in");
    const pipeline = await makePipeline({ name: "slow", globs: { "slow-in": "/*" }, workers: 2 });
    await commit("slow-in", { a: "1" });
    const { datums } = await leaseSome(pipeline, { worker: "w1" });
    await expireLeases("slow");
    const other = await leaseSome(pipeline, { worker: "w2" });
    expect(other.datums.map(pathsOf)).toEqual(datums.map(pathsOf));

    const late = await pipeline.leases.finish({ worker: "w1", outcomes: [success(datums[0])] });
    expect(late.lost).toEqual([datums[0]?.lease]);
    expect(await query("slow", "SELECT id FROM results")).toEqual([]);

    expect(
      (await pipeline.leases.finish({ worker: "w2", outcomes: [success(other.datums[0])] })).lost,
    ).toEqual([]);
    await workUntil(pipeline, { jobs: 1 });
    expect((await allJobs(pipeline))[0]?.datums).toEqual({ total: 1, processed: 1, skipped: 0, failed: 0 });
  });

  it.each([
    { of: "a datum", seen: "when it has run out", more: {}, look: async (name: string) => await ring(name) },
    {
      of: "a datum",
      seen: "by the next call for datums",
      more: {},
      look: async (name: string) => {
        await pipelineOf(name).leases.take({ node: "n2", worker: "w2", max: 1, waitMs: 0 });
      },
    },
    {
      of: "a task",
      seen: "when it has run out",
      more: { egress: { URL: "s3://bucket/dir" } },
      look: async (name: string) => await ring(name),
    },
  ])("of $of that ran out has its node count as dead, and the others woken, $seen", async ({
    more,
    look,
  }) => {
    const name = `dies-${++made}`;
    const survivor = `survives-${made}`;
    await makeRepo(`${name}-in`);
    const pipeline = await makePipeline({ name, globs: { [`${name}-in`]: "/*" }, workers: 2, more });
    await commit(`${name}-in`, { a: "1" });
    const { nodes } = openCatalogue(env.DB);
    const seenAt = Date.now() - NODE_TTL_MS - 1;
    const quiet = {
      executor: "process",
      capacity: 1,
      work: [],
      seenAt,
      quietUntil: Date.now() + QUIET_TTL_MS,
    };
    await env.DB.prepare("DELETE FROM nodes").run();
    for (const node of ["n1", survivor]) await nodes.record({ ...quiet, name: node });
    const { datums, output } = await leaseSome(pipeline);
    if ("egress" in more) {
      const outcomes = await Promise.all(datums.map((datum) => outcomeOf(datum, { command: echo, output })));
      await pipeline.leases.finish({ worker: "w1", outcomes });
      const leased = await pipeline.leases.take({ node: "n1", worker: "w1", max: 1, waitMs: 10_000 });
      expect(leased).toMatchObject({ tasks: [{ kind: "egress" }] });
    }
    const alive = async () => (await nodes.alive(Date.now())).map((node) => node.name);
    expect(await alive()).toEqual(["n1", survivor]);
    const other = await openSocketOf(survivor);
    const before = other.beats();
    await expireLeases(name);
    await look(name);
    await expect.poll(alive).toEqual([survivor]);
    await expect.poll(() => other.beats()).toBeGreaterThan(before);
  });

  it("that ran out can't record a result even before anybody noticed", async () => {
    await makeRepo("unseen-in");
    const pipeline = await makePipeline({ name: "unseen", globs: { "unseen-in": "/*" } });
    await commit("unseen-in", { a: "1" });
    const { datums } = await leaseSome(pipeline);
    await expireLeases("unseen");
    const { lost } = await pipeline.leases.finish({ worker: "w1", outcomes: [success(datums[0])] });
    expect(lost).toEqual([datums[0]?.lease]);
  });

  it("that ran out is lost although so many others did that it is not swept yet", async () => {
    await makeRepo("crowd-in");
    const pipeline = await makePipeline({ name: "crowd", globs: { "crowd-in": "/*" } });
    // One more than are swept before a call is answered, and one for each call.
    const files = Array.from({ length: 1_600 }, (_, n) => [`f${n}`, "1"]);
    await commit("crowd-in", Object.fromEntries(files));
    await expect.poll(async () => (await allJobs(pipeline))[0]?.datums.total).toBe(1_600);
    const { datums } = await leaseSome(pipeline, { max: 1_600 });
    expect(datums.length).toBe(1_600);
    await expireLeases("crowd");
    const last = datums[0]?.lease ?? "";
    await query("crowd", `UPDATE attempts SET leaseUntil = 2 WHERE lease = '${last}'`);
    expect(await pipeline.leases.renew({ worker: "w1", leases: [last] })).toEqual({ lost: [last] });
    const { lost } = await pipeline.leases.finish({ worker: "w1", outcomes: [success(datums[0])] });
    expect(lost).toEqual([last]);
    const entry = { lease: last, seq: 0, dropped: 0, lines: [[0, "late"] as [number, string]] };
    expect((await pipeline.logs.add({ worker: "w1", entries: [entry] })).lost).toEqual([last]);
    expect(await query("crowd", "SELECT id FROM results")).toEqual([]);
  });

  it("records one result, however often it is finished", async () => {
    await makeRepo("again-in");
    const pipeline = await makePipeline({ name: "again", globs: { "again-in": "/*" } });
    await commit("again-in", { a: "1" });
    const { datums } = await leaseSome(pipeline);
    expect((await pipeline.leases.finish({ worker: "w1", outcomes: [success(datums[0])] })).lost).toEqual([]);
    expect(
      (await pipeline.leases.finish({ worker: "w1", outcomes: [success(datums[0])] })).lost,
    ).toHaveLength(1);
    await workUntil(pipeline, { jobs: 1 });
    expect((await allJobs(pipeline))[0]?.datums.processed).toBe(1);
  });

  it("of a datum that comes back while it runs is for both jobs, and no other worker gets that datum", async () => {
    await makeRepo("back-in");
    const pipeline = await makePipeline({ name: "back", globs: { "back-in": "/*" }, workers: 2 });
    await commit("back-in", { a: "1" });
    const { datums } = await leaseSome(pipeline);
    await commit("back-in", { a: "2" });
    await commit("back-in", { a: "1" });
    await expect
      .poll(async () => (await allJobs(pipeline)).map(({ datums: { total } }) => total))
      .toEqual([1, 1, 1]);
    const others = await leaseSome(pipeline, { worker: "w2" });
    expect(others.datums.map(({ job }) => job)).toEqual([(await allJobs(pipeline))[1]?.id]);
    await pipeline.leases.finish({ worker: "w2", outcomes: others.datums.map(success) });
    await pipeline.leases.finish({ worker: "w1", outcomes: datums.map(success) });
    await workUntil(pipeline, { jobs: 3 });
    const counts = (await allJobs(pipeline)).map(({ datums: { processed, skipped } }) => [
      processed,
      skipped,
    ]);
    expect(counts).toEqual([
      [1, 0],
      [1, 0],
      [0, 1],
    ]);
  });

  it("lives on when it is renewed, and is named when it is lost", async () => {
    await makeRepo("renew-in");
    const pipeline = await makePipeline({ name: "renew", globs: { "renew-in": "/*" } });
    await commit("renew-in", { a: "1" });
    const { datums } = await leaseSome(pipeline);
    const lease = datums[0]?.lease ?? "";
    await query("renew", "UPDATE attempts SET leaseUntil = leaseUntil - 20000");
    expect((await pipeline.leases.renew({ worker: "w1", leases: [lease, "strange"] })).lost).toEqual([
      "strange",
    ]);
    const [row] = await query<{ left: number }>("renew", "SELECT leaseUntil AS left FROM attempts");
    expect(row?.left).toBeGreaterThan(Date.now() + 20_000);
    await expireLeases("renew");
    expect((await pipeline.leases.renew({ worker: "w1", leases: [lease] })).lost).toEqual([lease]);
  });

  it("that ran out is noticed by the alarm, with nobody else asking", async () => {
    await makeRepo("alarm-in");
    const pipeline = await makePipeline({ name: "alarm", globs: { "alarm-in": "/*" } });
    await commit("alarm-in", { a: "1" });
    await leaseSome(pipeline);
    await expireLeases("alarm");
    expect(await runDurableObjectAlarm(env.PIPELINE.getByName("alarm"))).toBe(true);
    expect(await query("alarm", "SELECT state, lost FROM attempts")).toEqual([{ state: "queued", lost: 1 }]);
  });

  it("fails its datum when the worker vanished ten times", async () => {
    await makeRepo("doom-in");
    const pipeline = await makePipeline({ name: "doom", globs: { "doom-in": "/*" } });
    await commit("doom-in", { a: "1" });
    for (let time = 0; time < 10; time++) {
      await leaseSome(pipeline);
      await expireLeases("doom");
    }
    await workUntil(pipeline, { jobs: 1 });
    const [job] = await allJobs(pipeline);
    expect(job?.reason).toBe("datum /a failed: its worker was lost 10 times while it ran");
  });

  it("that is given back counts no try", async () => {
    await makeRepo("give-in");
    const pipeline = await makePipeline({ name: "give", globs: { "give-in": "/*" } });
    await commit("give-in", { a: "1" });
    for (let time = 0; time < 5; time++) {
      const { datums } = await leaseSome(pipeline, { worker: `w${time}` });
      const outcomes: Outcome[] = datums.map(({ lease }) => ({ lease, state: "returned" }));
      expect((await pipeline.leases.finish({ worker: `w${time}`, outcomes })).lost).toEqual([]);
      await pipeline.leases.renew({ worker: `w${time}`, leases: [], leaving: true });
    }
    await workUntil(pipeline, { jobs: 1, worker: "w9" });
    expect((await allJobs(pipeline))[0]?.state).toBe("success");
  });

  it("is for the oldest job first, then in order of the datum's key", async () => {
    await makeRepo("order-in");
    const pipeline = await makePipeline({ name: "order", globs: { "order-in": "/*" } });
    await commit("order-in", { m: "1", b: "1" });
    await commit("order-in", { a: "1" });
    const ran = await workUntil(pipeline, { jobs: 2, max: 1 });
    expect(ran.map(({ paths }) => paths[0])).toEqual(["b", "m", "a"]);
  });
});

describe("slots", () => {
  it("go to exactly as many workers as the specification says", async () => {
    await makeRepo("slot-in");
    const pipeline = await makePipeline({ name: "slot", globs: { "slot-in": "/*" }, workers: 3 });
    const asked = await Promise.all(
      ["a", "b", "c", "d", "e"].map((worker) =>
        pipeline.leases.take({ node: "n", worker, max: 1, waitMs: 0 }),
      ),
    );
    expect(asked.map((leased) => leased.ok && leased.slot)).toEqual([true, true, true, false, false]);
    const again = await pipeline.leases.take({ node: "n", worker: "d", max: 1, waitMs: 0 });
    expect(again.ok && again.slot).toBe(false);
  });

  it("are free again when their worker is silent for too long", async () => {
    const pipeline = await makePipeline({ name: "free", globs: { "free-in": "/*" } });
    await pipeline.leases.take({ node: "n", worker: "a", max: 1, waitMs: 0 });
    await query("free", "UPDATE slots SET until = 1");
    const other = await pipeline.leases.take({ node: "n", worker: "b", max: 1, waitMs: 0 });
    expect(other.ok && other.slot).toBe(true);
  });

  it("are kept by a worker that gives datums back and goes on", async () => {
    await makeRepo("goes-on-in");
    const pipeline = await makePipeline({ name: "goes-on", globs: { "goes-on-in": "/*" } });
    await commit("goes-on-in", { a: "1" });
    const { datums } = await leaseSome(pipeline, { worker: "a" });
    const outcomes: Outcome[] = datums.map(({ lease }) => ({ lease, state: "returned" }));
    await pipeline.leases.finish({ worker: "a", outcomes });
    const other = await pipeline.leases.take({ node: "n", worker: "b", max: 1, waitMs: 0 });
    expect(other.ok && other.slot).toBe(false);
  });

  it("are free at once when their worker says that it leaves", async () => {
    const pipeline = await makePipeline({ name: "leave", globs: { "leave-in": "/*" } });
    await pipeline.leases.take({ node: "n", worker: "a", max: 1, waitMs: 0 });
    const before = await pipeline.leases.take({ node: "n", worker: "b", max: 1, waitMs: 0 });
    expect(before.ok && before.slot).toBe(false);
    await pipeline.leases.renew({ worker: "a", leases: [], leaving: true });
    const after = await pipeline.leases.take({ node: "n", worker: "b", max: 1, waitMs: 0 });
    expect(after.ok && after.slot).toBe(true);
  });

  it("are kept by a worker that renews a datum's lease", async () => {
    await makeRepo("keep-in");
    const pipeline = await makePipeline({ name: "keep", globs: { "keep-in": "/*" } });
    await commit("keep-in", { a: "1" });
    const { datums } = await leaseSome(pipeline, { worker: "a" });
    await query("keep", "UPDATE slots SET until = until - 25000");
    await pipeline.leases.renew({ worker: "a", leases: datums.map(({ lease }) => lease) });
    const [row] = await query<{ until: number }>("keep", "SELECT until FROM slots");
    expect(row?.until).toBeGreaterThan(Date.now() + 20_000);
  });

  it("share a short queue: two workers that ask for ten get half each", async () => {
    await makeRepo("share-in");
    const pipeline = await makePipeline({ name: "share", globs: { "share-in": "/*" }, workers: 2 });
    await commit("share-in", { a: "1", b: "1", c: "1", d: "1" });
    await expect.poll(() => query("share", "SELECT id FROM attempts")).toHaveLength(4);
    const first = await leaseSome(pipeline, { worker: "w1" });
    expect(first.datums.map(pathsOf)).toEqual([["a"], ["b"]]);
  });
});

describe("a lease call", () => {
  it("waits for a datum and gets it when a commit brings one", async () => {
    await makeRepo("poll-in");
    const pipeline = await makePipeline({ name: "poll", globs: { "poll-in": "/*" } });
    const waiting = pipeline.leases.take({ node: "n", worker: "w1", max: 5, waitMs: 20_000 });
    await commit("poll-in", { a: "1" });
    const leased = await waiting;
    expect(leased.ok && leased.datums.map(pathsOf)).toEqual([["a"]]);
  });

  it("leases nothing to a caller that has gone while it waited", async () => {
    await makeRepo("went-in");
    const pipeline = await makePipeline({ name: "went", globs: { "went-in": "/*" } });
    let asked = 0;
    const waiting = pipeline.leases.take({
      node: "n",
      worker: "w1",
      max: 5,
      waitMs: 20_000,
      present: async () => {
        asked++;
        throw new Error("its connection is closed");
      },
    });
    await commit("went-in", { a: "1" });
    expect(await waiting).toMatchObject({ ok: true, slot: false, datums: [] });
    expect(asked).toBe(1);
    const present = async (): Promise<void> => {};
    const next = await pipeline.leases.take({ node: "n", worker: "w1", max: 5, waitMs: 20_000, present });
    expect(next.ok && next.datums.map(pathsOf)).toEqual([["a"]]);
  });

  it("tells what to run, where outputs go and what the datum reads", async () => {
    await makeRepo("tell-in");
    const pipeline = await makePipeline({ name: "tell", globs: { in: "/*" }, repos: { in: "tell-in" } });
    const id = await commit("tell-in", { a: "hello" });
    const leased = await leaseSome(pipeline);
    expect(leased.transform).toEqual({ image: "none", cmd: ["true"] });
    expect(leased.output).toEqual({ repo: "tell", branch: "master" });
    expect(leased.datums[0]?.inputs).toEqual([
      {
        name: "in",
        repo: "tell-in",
        branch: "master",
        commit: id,
        path: "a",
        kind: "file",
        content: { digest: expect.stringMatching(/^[0-9a-f]{64}$/), size: 5 },
        lazy: false,
        from: null,
      },
    ]);
    const [datum] = leased.datums;
    if (!datum) throw new Error("no datum");
    const outcome = await outcomeOf(datum, { command: echo, output: leased.output });
    expect((await pipeline.leases.finish({ worker: "w1", outcomes: [outcome] })).lost).toEqual([]);
  });

  it("to a pipeline that is not there is refused, and leaves no trace", async () => {
    const { pipelineOf } = await import("./support.ts");
    const pipeline = pipelineOf("nowhere");
    expect(await pipeline.leases.take({ node: "n", worker: "w", max: 1, waitMs: 0 })).toEqual({
      ok: false,
      reason: "no-such-pipeline",
    });
    expect(await pipeline.leases.finish({ worker: "w", outcomes: [success(undefined)] })).toEqual({
      lost: [""],
    });
    expect(
      await query("nowhere", "SELECT name FROM sqlite_master WHERE name NOT LIKE '\\_cf%' ESCAPE '\\'"),
    ).toEqual([]);
  });
});

describe("lease calls that wait together", () => {
  const held = Promise.withResolvers<void>();
  const isThere = async (): Promise<void> => {};
  const hasGone = async (): Promise<void> => {
    throw new Error("its connection is closed");
  };

  /** A call for each caller, which wait in this order. */
  async function waitTogether(name: string, callers: readonly (() => Promise<void>)[]) {
    await makeRepo(`${name}-in`);
    const workers = callers.length;
    const pipeline = await makePipeline({ name, globs: { [`${name}-in`]: "/*" }, workers });
    const answers: ReturnType<PipelineApi["leases"]["take"]>[] = [];
    for (const [n, present] of callers.entries()) {
      const call = { node: "n", worker: `w${n}`, max: 1, waitMs: 20_000, present };
      answers.push(pipeline.leases.take(call));
      await expect.poll(() => query(name, "SELECT worker FROM slots")).toHaveLength(n + 1);
    }
    return { pipeline, answers };
  }

  it("are woken for as many datums as a commit brings, and not all of them", async () => {
    let asked = 0;
    const counted = async (): Promise<void> => void asked++;
    const callers = Array.from({ length: 20 }, () => counted);
    const { pipeline, answers } = await waitTogether("many", callers);
    const found: string[] = [];
    for (const answer of answers)
      void answer.then((leased) => leased.ok && found.push(...leased.datums.flatMap(pathsOf)));
    await commit("many-in", { a: "1", b: "2", c: "3" });
    await expect.poll(() => found.toSorted()).toEqual(["a", "b", "c"]);
    expect(asked).toBeLessThan(callers.length);
    await pipeline.lifecycle.stop();
    await Promise.all(answers);
  });

  it("wake the next one if their callers have gone or can't be asked", async () => {
    const { answers } = await waitTogether("passed", [hasGone, () => held.promise, isThere]);
    await commit("passed-in", { a: "1" });
    const leased = await answers[2];
    expect(leased?.ok && leased.datums.map(pathsOf)).toEqual([["a"]]);
    expect(await answers[1]).toMatchObject({ ok: true, slot: false, datums: [] });
    held.resolve();
  });

  it("end when their pipeline is stopped", async () => {
    const { pipeline, answers } = await waitTogether("ended", [isThere, isThere, isThere]);
    await pipeline.lifecycle.stop();
    for (const answer of answers) expect(await answer).toMatchObject({ ok: true, slot: false });
  });
});
