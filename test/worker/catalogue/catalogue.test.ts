import { env } from "cloudflare:test";
import { encodeTime } from "ulid";
import { beforeEach, describe, expect, test, vi } from "vitest";
import type { Job } from "../../../protocol/pipelines.ts";
import { NODE_TTL_MS, QUIET_TTL_MS } from "../../../protocol/runner.ts";
import { openCatalogue } from "../../../worker/catalogue/catalogue.ts";
import { isAlive, VOUCHED_MS } from "../../../worker/catalogue/nodes.ts";
import type { PipelineRecord } from "../../../worker/catalogue/pipelines.ts";
import { watchSpace } from "../../../worker/catalogue/space.ts";

const catalogue = openCatalogue(env.DB);

beforeEach(async () => {
  await env.DB.batch(
    [
      "branches",
      "tags",
      "branch_settings",
      "pipelines",
      "proposals",
      "jobs",
      "nodes",
      "fleets",
      "access_keys",
    ].map((table) => env.DB.prepare(`DELETE FROM ${table}`)),
  );
});

describe("branches", () => {
  const record = { repo: "images", branch: "master", createdAt: 1000 };

  test("a branch is listed from its creation to its deletion, and its repo exists as long", async () => {
    await catalogue.branches.record({ ...record, version: 1, deleted: false });
    expect(await catalogue.branches.list({ limit: 10 })).toEqual([record]);
    expect(await catalogue.branches.hasRepo("images")).toBe(true);
    expect(await catalogue.branches.deletedOf("images")).toEqual([]);
    await catalogue.branches.record({ ...record, version: 2, deleted: true });
    expect(await catalogue.branches.list({ limit: 10 })).toEqual([]);
    expect(await catalogue.branches.deletedOf("images")).toEqual(["master"]);
    expect(await catalogue.branches.hasRepo("images")).toBe(false);
  });

  test("a late write of an older version does not bring a deleted branch back", async () => {
    await catalogue.branches.record({ ...record, version: 2, deleted: true });
    await catalogue.branches.record({ ...record, version: 1, deleted: false });
    expect(await catalogue.branches.list({ limit: 10 })).toEqual([]);
  });

  test("pages go on after the last branch of the page before, in order of repo and branch", async () => {
    for (const [repo, branch] of [
      ["b", "x"],
      ["a", "z"],
      ["a", "y"],
    ] as const)
      await catalogue.branches.record({ repo, branch, createdAt: 1, version: 1, deleted: false });
    const first = await catalogue.branches.list({ limit: 2 });
    expect(first.map(({ repo, branch }) => `${branch}.${repo}`)).toEqual(["y.a", "z.a"]);
    const second = await catalogue.branches.list({ limit: 2, after: { repo: "a", branch: "z" } });
    expect(second.map(({ repo, branch }) => `${branch}.${repo}`)).toEqual(["x.b"]);
  });

  test("of some repos alone are listed by those, in pages, whatever their order and whether they are there", async () => {
    for (const address of ["x.a", "y.a", "x.b", "x.c", "y.c", "z.c", "x.d"]) {
      const [branch = "", repo = ""] = address.split(".");
      await catalogue.branches.record({ repo, branch, createdAt: 1, version: 1, deleted: address === "y.c" });
    }
    const repos = ["c", "none", "a", "d", "a"];
    const names: string[] = [];
    let after: { repo: string; branch: string } | undefined;
    for (let page = 0; page < 4; page++) {
      const rows = await catalogue.branches.list({ repos, limit: 2, ...(after && { after }) });
      names.push(...rows.map(({ repo, branch }) => `${branch}.${repo}`), "|");
      after = rows.at(-1) ?? after;
    }
    expect(names).toEqual(["x.a", "y.a", "|", "x.c", "z.c", "|", "x.d", "|", "|"]);
    expect(await catalogue.branches.list({ repos: [], limit: 2 })).toEqual([]);
  });

  test("a page is read from the index of live branches, not past tombstones", async () => {
    const plan = await env.DB.prepare(
      `EXPLAIN QUERY PLAN SELECT repo, branch, createdAt FROM branches
       WHERE (repo, branch) > ('a', 'b') AND deleted = 0 ORDER BY repo, branch LIMIT 3`,
    ).all<{ detail: string }>();
    expect(plan.results.map((row) => row.detail).join("\n")).toContain(
      "SEARCH branches USING INDEX branches_live",
    );
  });
});

describe("tags", () => {
  const branch = { repo: "images", branch: "master", createdAt: 1000 };
  const tag = { name: "v1", version: 2, tag: { commit: "c", createdAt: 5 } };
  const listed = async (
    more: { branch?: string; after?: { branch: string; name: string }; limit?: number } = {},
  ) =>
    (await catalogue.tags.list({ repo: "images", limit: 10, ...more })).map(
      ({ name, branch: of, commit }) => `${name}.${of} ${commit}`,
    );

  beforeEach(() => catalogue.branches.record({ ...branch, version: 2, deleted: false }));

  test("are listed as long as they are there, and a late write of an older version changes nothing", async () => {
    await catalogue.tags.record(branch, [tag]);
    expect(await catalogue.tags.list({ repo: "images", limit: 10 })).toEqual([
      { name: "v1", branch: "master", commit: "c", createdAt: 5 },
    ]);
    await catalogue.tags.record(branch, [{ ...tag, version: 4, tag: null }]);
    await catalogue.tags.record(branch, [{ ...tag, version: 3 }]);
    expect(await listed()).toEqual([]);
    await catalogue.tags.record(branch, [{ ...tag, version: 5 }]);
    expect(await listed()).toEqual(["v1.master c"]);
  });

  test("of a branch that was deleted, or made again since, are not listed, whatever comes late", async () => {
    await catalogue.tags.record(branch, [tag]);
    await catalogue.branches.record({ ...branch, version: 3, deleted: true });
    expect(await listed()).toEqual([]);
    await catalogue.branches.record({ ...branch, createdAt: 2000, version: 4, deleted: false });
    await catalogue.tags.record(branch, [{ ...tag, name: "late", version: 3 }]);
    expect(await listed()).toEqual([]);
    await catalogue.tags.forget(branch, 2);
    const { results } = await env.DB.prepare("SELECT name FROM tags").all();
    expect(results).toEqual([{ name: "late" }]);
  });

  test("come in pages by branch and name, of one branch if that is asked, and of no other repo", async () => {
    const dev = { ...branch, branch: "dev" };
    await catalogue.branches.record({ ...dev, version: 2, deleted: false });
    await catalogue.branches.record({ ...branch, repo: "other", version: 2, deleted: false });
    for (const of of [branch, dev, { ...branch, repo: "other" }]) {
      await catalogue.tags.record(
        of,
        ["b", "a"].map((name) => ({ ...tag, name })),
      );
    }
    expect(await listed()).toEqual(["a.dev c", "b.dev c", "a.master c", "b.master c"]);
    expect(await listed({ limit: 3 })).toHaveLength(3);
    expect(await listed({ after: { branch: "dev", name: "b" } })).toEqual(["a.master c", "b.master c"]);
    expect(await listed({ branch: "dev", after: { branch: "dev", name: "a" } })).toEqual(["b.dev c"]);
  });
});

describe("pipelines", () => {
  const record: PipelineRecord = {
    name: "edges",
    uid: "01A",
    state: "active",
    createdAt: 5,
    inputs: [{ repo: "images", branch: "master" }],
    output: { repo: "edges", branch: "master" },
    errors: true,
    parallelism: { strategy: "CONSTANT", constant: 2 },
    version: 1,
    deleted: false,
  };

  test("a pipeline is listed with what it reads and writes until it is deleted", async () => {
    await catalogue.pipelines.record(record);
    const { version: _version, deleted: _deleted, ...row } = record;
    expect(await catalogue.pipelines.list()).toEqual([row]);
    await catalogue.pipelines.record({ ...record, version: 2, deleted: true });
    expect(await catalogue.pipelines.list()).toEqual([]);
  });

  test("an older version changes nothing", async () => {
    await catalogue.pipelines.record({ ...record, version: 3 });
    await catalogue.pipelines.record({ ...record, version: 2, state: "creating" });
    expect((await catalogue.pipelines.list())[0]?.state).toBe("active");
  });
});

describe("jobs", () => {
  function job(id: string, pipeline: string, state: Job["state"]): Job {
    return {
      id,
      pipeline,
      version: 1,
      output: { repo: pipeline, branch: "master" },
      state,
      reason: null,
      inputs: [],
      outputCommit: null,
      datums: { total: 0, processed: 0, skipped: 0, failed: 0 },
      createdAt: 1,
      startedAt: null,
      finishedAt: null,
    };
  }

  test("jobs are listed newest first, by pipeline and state, page by page", async () => {
    await catalogue.jobs.record(
      [job("1", "a", "success"), job("2", "b", "running"), job("3", "a", "running")].map((j) => ({
        job: j,
        version: 1,
      })),
      { uid: "u" },
    );
    const ids = async (query: Parameters<typeof catalogue.jobs.list>[0]) =>
      (await catalogue.jobs.list(query)).map(({ id }) => id);
    expect(await ids({ limit: 10 })).toEqual(["3", "2", "1"]);
    expect(await ids({ limit: 10, pipeline: "a" })).toEqual(["3", "1"]);
    expect(await ids({ limit: 10, pipeline: "a", states: ["running"] })).toEqual(["3"]);
    expect(await ids({ limit: 1, after: "3" })).toEqual(["2"]);
    expect(await ids({ limit: 10, pipelines: ["b", "none", "a"] })).toEqual(["3", "2", "1"]);
    expect(await ids({ limit: 1, pipelines: ["b", "a"], after: "3" })).toEqual(["2"]);
    expect(await ids({ limit: 10, pipelines: ["b", "none"] })).toEqual(["2"]);
    expect(await ids({ limit: 10, pipelines: ["a", "b"], states: ["running"], after: "3" })).toEqual(["2"]);
    expect(await ids({ limit: 10, pipelines: [] })).toEqual([]);
    expect(await catalogue.jobs.pipelineOf("2")).toBe("b");
    expect(await catalogue.jobs.pipelineOf("9")).toBeNull();
  });

  const record = async (...jobs: Job[]): Promise<void> =>
    await catalogue.jobs.record(
      jobs.map((each) => ({ job: each, version: 1 })),
      { uid: "u" },
    );

  test("jobs are listed by several states and by when they were made", async () => {
    const made = (at: number, n: number): string => `${encodeTime(at, 10)}${String(n).padStart(16, "0")}`;
    const [one, two, three] = [made(1000, 1), made(2000, 2), made(2000, 3)];
    await record(job(one, "a", "starting"), job(two, "b", "running"), job(three, "a", "success"));
    const ids = async (query: Omit<Parameters<typeof catalogue.jobs.list>[0], "limit">) =>
      (await catalogue.jobs.list({ ...query, limit: 10 })).map(({ id }) => id);
    expect(await ids({ states: ["starting", "running"] })).toEqual([two, one]);
    expect(await ids({ states: ["starting", "running"], after: two })).toEqual([one]);
    expect(await ids({ states: ["starting", "success"], pipelines: ["a"] })).toEqual([three, one]);
    expect(await ids({ since: 2000 })).toEqual([three, two]);
    expect(await ids({ since: 1001, before: 2000 })).toEqual([]);
    expect(await ids({ before: 2000 })).toEqual([one]);
    expect(await ids({ before: 2001, after: three })).toEqual([two, one]);
    expect(await ids({ since: 2000, pipeline: "a" })).toEqual([three]);
    expect(await ids({ before: 2000, states: ["starting"] })).toEqual([one]);
  });

  test("a search looks through so many jobs, and says how many it were and where it stands", async () => {
    await record(
      ...["1", "2", "3", "4", "5"].map((id) => ({
        ...job(id, id === "4" ? "Soups" : "a", "failure"),
        reason: "exit code 4",
      })),
      { ...job("6", "a", "success"), reason: null },
      { ...job("7", "b", "killed"), reason: "No soup today, 100%" },
    );
    const find = async (
      query: Omit<Parameters<typeof catalogue.jobs.search>[0], "limit"> & { limit?: number },
    ) => {
      const { jobs, ...rest } = await catalogue.jobs.search({ limit: 10, ...query });
      return [jobs.map(({ id }) => id), rest];
    };
    expect(await find({ search: "soup", scan: 100 })).toEqual([["7", "4"], { looked: 7, last: "1" }]);
    expect(await find({ search: "soup", scan: 3 })).toEqual([["7"], { looked: 3, last: "5" }]);
    expect(await find({ search: "soup", scan: 3, after: "5" })).toEqual([["4"], { looked: 3, last: "2" }]);
    expect(await find({ search: "EXIT", scan: 100, limit: 2 })).toEqual([
      ["5", "4"],
      { looked: 4, last: "4" },
    ]);
    expect(await find({ search: "%", scan: 100 })).toEqual([["7"], { looked: 7, last: "1" }]);
    expect(await find({ search: "", scan: 100, states: ["success"] })).toEqual([
      ["6"],
      { looked: 1, last: "6" },
    ]);
    const limited = { pipelines: ["Soups", "b"], scan: 100 };
    expect(await find({ search: "o", ...limited })).toEqual([["7", "4"], { looked: 2, last: "4" }]);
    expect(await find({ search: "o", ...limited, states: ["failure"] })).toEqual([
      ["4"],
      { looked: 2, last: "4" },
    ]);
    expect(await find({ search: "x", scan: 100, pipelines: [] })).toEqual([[], { looked: 0, last: null }]);
  });

  test("a job that failed is mended by the first one after it that succeeded, of its own pipeline", async () => {
    await record(
      ...[job("1", "a", "failure"), job("2", "b", "success"), job("3", "a", "killed")],
      ...[
        { ...job("4", "a", "success"), finishedAt: 40 },
        job("5", "a", "success"),
        job("6", "a", "failure"),
      ],
    );
    expect(await catalogue.jobs.mended([job("1", "a", "failure"), job("6", "a", "failure")])).toEqual([
      { failed: "1", job: "4", at: 40 },
    ]);
    expect(await catalogue.jobs.mended([])).toEqual([]);
  });

  test("an older version of a job changes nothing", async () => {
    await catalogue.jobs.record([{ job: job("1", "a", "success"), version: 5 }], { uid: "u" });
    await catalogue.jobs.record([{ job: job("1", "a", "running"), version: 4 }], { uid: "u" });
    expect((await catalogue.jobs.list({ limit: 1 }))[0]?.state).toBe("success");
  });

  test("jobs go that are older than one, of one pipeline, some at a time", async () => {
    const ids = Array.from({ length: 750 }, (_, n) => `${1000 + n}`);
    await catalogue.jobs.record(
      ids.flatMap((id) => ({ job: job(id, "a", "success"), version: 1 })),
      { uid: "u" },
    );
    await catalogue.jobs.record([{ job: job("1001b", "b", "success"), version: 1 }], { uid: "u" });
    const old = { pipeline: "a", after: "1009", upTo: "1699" };
    expect(await catalogue.jobs.remove(old)).toBe(true);
    expect(await catalogue.jobs.remove(old)).toBe(false);
    const left = (await catalogue.jobs.list({ limit: 1000 })).map(({ id }) => id).sort();
    expect(left).toEqual([...ids.slice(0, 10), "1001b", ...ids.slice(700)].sort());
  });

  test("a write that comes late brings no job of a deleted pipeline back, and one of the next pipeline is not meant", async () => {
    const record: PipelineRecord = {
      name: "a",
      uid: "u1",
      state: "deleting",
      createdAt: 1,
      inputs: [],
      output: { repo: "a", branch: "master" },
      errors: false,
      parallelism: { strategy: "CONSTANT", constant: 1 },
      version: 4,
      deleted: true,
    };
    await catalogue.pipelines.record(record);
    await catalogue.jobs.record([{ job: job("1", "a", "success"), version: 9 }], { uid: "u1" });
    expect(await catalogue.jobs.list({ limit: 10 })).toEqual([]);
    await catalogue.jobs.record([{ job: job("2", "a", "running"), version: 1 }], { uid: "u2" });
    expect((await catalogue.jobs.list({ limit: 10 })).map(({ id }) => id)).toEqual(["2"]);
  });

  test("pipelines with a job that has not ended are told from the others", async () => {
    const before = await catalogue.jobs.busyPipelines();
    expect(before?.has("busy") || before?.has("done")).toBe(false);
    await catalogue.jobs.record(
      [
        { job: job("b1", "busy", "success"), version: 1 },
        { job: job("b2", "busy", "egressing"), version: 1 },
        { job: job("b3", "busy", "killed"), version: 1 },
        { job: job("d1", "done", "failure"), version: 1 },
      ],
      { uid: "u" },
    );
    const after = await catalogue.jobs.busyPipelines();
    expect([after?.has("busy"), after?.has("done")]).toEqual([true, false]);
    await catalogue.jobs.record([{ job: job("b2", "busy", "success"), version: 2 }], { uid: "u" });
    expect((await catalogue.jobs.busyPipelines())?.has("busy")).toBe(false);
  });
});

describe("nodes", () => {
  const node = {
    name: "n1",
    executor: "process",
    capacity: 2,
    seenAt: 100,
    work: [{ pipeline: "edges", workers: 2, running: 1 }],
  };

  test("a node is live from the time it was last seen until it says good-bye", async () => {
    await catalogue.nodes.record(node);
    await catalogue.nodes.record({ ...node, seenAt: 200 });
    expect(await catalogue.nodes.alive(150 + NODE_TTL_MS)).toEqual([
      { name: "n1", executor: "process", draining: false },
    ]);
    expect(await catalogue.nodes.alive(201 + NODE_TTL_MS)).toEqual([]);
    await catalogue.nodes.leave("n1", 200);
    expect(await catalogue.nodes.list(0)).toEqual([]);
  });

  test("a mark on a node stays while it beats, leaves and comes again, until it is taken away", async () => {
    expect(await catalogue.nodes.setDraining("n1", 1)).toBeNull();
    await catalogue.nodes.record(node);
    expect(await catalogue.nodes.setDraining("n1", 1)).toEqual({ ...node, draining: true });
    await catalogue.nodes.record({ ...node, seenAt: 200, work: [] });
    expect(await catalogue.nodes.alive(150 + NODE_TTL_MS)).toEqual([
      { name: "n1", executor: "process", draining: true },
    ]);
    await catalogue.nodes.leave("n1", 210);
    const left = { ...node, seenAt: 209 - NODE_TTL_MS, work: [], draining: true };
    expect(await catalogue.nodes.list(200)).toEqual([left]);
    expect(await catalogue.nodes.alive(210)).toEqual([]);
    await catalogue.nodes.record({ ...node, seenAt: 300 });
    expect(await catalogue.nodes.setDraining("n1", 0)).toEqual({ ...node, seenAt: 300, draining: false });
    expect(await catalogue.nodes.list(301)).toEqual([]);
  });

  describe("a node that is quiet", () => {
    const start = 1_000_000;
    const quiet = { ...node, seenAt: start, quietUntil: start + QUIET_TTL_MS };
    const alive = async (now: number) => (await catalogue.nodes.alive(now)).map(({ name }) => name);

    test("is live as long as it said, and then no more", async () => {
      await catalogue.nodes.record(quiet);
      expect(await catalogue.nodes.list(0)).toEqual([{ ...quiet, draining: false }]);
      expect(await alive(start + QUIET_TTL_MS)).toEqual(["n1"]);
      expect(await alive(start + QUIET_TTL_MS + 1)).toEqual([]);
    });

    test("is live for as long as any, once it beats and is not quiet", async () => {
      await catalogue.nodes.record(quiet);
      await catalogue.nodes.record({ ...node, seenAt: start + 5 });
      expect(await alive(start + 5 + NODE_TTL_MS)).toEqual(["n1"]);
      expect(await alive(start + 6 + NODE_TTL_MS)).toEqual([]);
    });

    test("is vouched for no more once it beats and is not quiet: then only its heartbeats say that it lives", async () => {
      await catalogue.nodes.record(quiet);
      await catalogue.nodes.vouch("f1", { nodes: ["n1"], now: start });
      await catalogue.nodes.record({ ...node, seenAt: start + 5 });
      await catalogue.nodes.vouch("f1", { nodes: ["n1"], now: start + 60_000 });
      expect(await alive(start + 5 + NODE_TTL_MS)).toEqual(["n1"]);
      const past = start + 6 + NODE_TTL_MS;
      expect(await alive(past)).toEqual([]);
      const [listed] = await catalogue.nodes.list(start);
      expect(listed && isAlive(listed, past)).toBe(false);
      expect(listed?.seenAt).toBe(start + 5);
      // What it does it says as before; that it is quiet again is news.
      await catalogue.nodes.record({ ...quiet, seenAt: past });
      expect(await alive(past + NODE_TTL_MS + 1)).toEqual(["n1"]);
    });

    test("counts as dead until it beats when a lease of it ran out and it was not heard of", async () => {
      await catalogue.nodes.record(quiet);
      await catalogue.nodes.record({ ...quiet, name: "n2" });
      const vouch = () => catalogue.nodes.vouch("f1", { nodes: ["n1", "n2"], now: start });
      await vouch();
      expect(await catalogue.nodes.suspect(["n1"], start + NODE_TTL_MS)).toBe(false);
      const past = start + NODE_TTL_MS + 1;
      expect(await alive(past)).toEqual(["n1", "n2"]);
      expect(await catalogue.nodes.suspect(["n1", "n3"], past)).toBe(true);
      expect(await alive(past)).toEqual(["n2"]);
      // Its socket stays open for long if its machine lost its power.
      await vouch();
      expect(await alive(past)).toEqual(["n2"]);
      await catalogue.nodes.record({ ...quiet, seenAt: past });
      expect(await alive(past + NODE_TTL_MS + 1)).toEqual(["n1", "n2"]);
    });

    test("is not when it lost its socket, unless it was heard of since", async () => {
      await catalogue.nodes.record(quiet);
      await catalogue.nodes.disquiet([{ name: "n1", closedAt: start }]);
      expect(await alive(start + QUIET_TTL_MS)).toEqual(["n1"]);
      await catalogue.nodes.disquiet([{ name: "n1", closedAt: start + 1 }]);
      expect(await alive(start + NODE_TTL_MS + 1)).toEqual([]);
    });

    test("is not when it says good-bye", async () => {
      await catalogue.nodes.record(quiet);
      await catalogue.nodes.setDraining("n1", 1);
      await catalogue.nodes.leave("n1", start + 1);
      expect(await alive(start + 1)).toEqual([]);
    });

    test("is live as long as a Fleet object vouches for it, and is not written down again meanwhile", async () => {
      const seenAt = async () => await env.DB.prepare("SELECT seenAt FROM nodes").first("seenAt");
      const later = (ms: number) => ({ ...quiet, seenAt: start + ms, quietUntil: start + ms + QUIET_TTL_MS });
      await catalogue.nodes.record(quiet);
      await catalogue.nodes.vouch("f1", { nodes: ["n1", "n2"], now: start });
      await catalogue.nodes.record(later(1_000));
      expect(await seenAt()).toBe(start);
      expect(await alive(start + VOUCHED_MS)).toEqual(["n1"]);
      expect(await alive(start + VOUCHED_MS + 1)).toEqual([]);
      const [listed] = await catalogue.nodes.list(start + 1_000);
      expect(listed).toBeUndefined();
      await catalogue.nodes.vouch("f1", { nodes: ["n1"], now: start + 60_000 });
      expect(await catalogue.nodes.list(start + 60_000)).toEqual([
        { ...quiet, seenAt: start + 60_000, quietUntil: start + 60_000 + VOUCHED_MS, draining: false },
      ]);
      // It is said to live for as long as until after its next heartbeat, or that is written down.
      const last = 60_000 + VOUCHED_MS - QUIET_TTL_MS;
      await catalogue.nodes.record(later(last));
      expect(await seenAt()).toBe(start);
      await catalogue.nodes.record(later(last + 1));
      expect(await seenAt()).toBe(start + last + 1);
    });

    test("is written down whenever it has something new to say, or is quiet no more", async () => {
      await catalogue.nodes.record(quiet);
      await catalogue.nodes.vouch("f1", { nodes: ["n1"], now: start });
      const seenAt = async () => await env.DB.prepare("SELECT seenAt FROM nodes").first("seenAt");
      const changes = [
        { executor: "docker" },
        { capacity: 64 },
        { work: [{ pipeline: "p", workers: 2, running: 0 }] },
        { bounds: { running: 1, workers: 2 } },
        { about: { version: "0.9.0" } },
        { quietUntil: undefined },
      ];
      for (const [index, change] of changes.entries()) {
        await catalogue.nodes.record({ ...quiet, ...change, seenAt: start + index + 1 });
        expect(await seenAt()).toBe(start + index + 1);
        await catalogue.nodes.record(quiet);
      }
    });

    test("is written down when its disk or its cache is full by another hundredth, and not at less", async () => {
      const about = (free: number, used = 50) => ({
        disk: { totalBytes: 1000, freeBytes: free },
        cache: { usedBytes: used, maxBytes: 100 },
      });
      const seenAt = async () => await env.DB.prepare("SELECT seenAt FROM nodes").first("seenAt");
      await catalogue.nodes.record({ ...quiet, about: about(500) });
      await catalogue.nodes.vouch("f1", { nodes: ["n1"], now: start });
      await catalogue.nodes.record({ ...quiet, about: about(504), seenAt: start + 1 });
      expect(await seenAt()).toBe(start);
      await catalogue.nodes.record({ ...quiet, about: about(510), seenAt: start + 2 });
      expect(await seenAt()).toBe(start + 2);
      await catalogue.nodes.record({ ...quiet, about: about(510, 51), seenAt: start + 3 });
      expect(await seenAt()).toBe(start + 3);
    });

    test("is live no more when a Fleet object has no socket of it, or it lost it or said good-bye", async () => {
      await catalogue.nodes.record(quiet);
      const past = start + QUIET_TTL_MS + 1;
      const vouch = (nodes: string[], fleet = "f1") => catalogue.nodes.vouch(fleet, { nodes, now: past });
      await vouch(["n1"]);
      await vouch(["n2"], "f2");
      expect(await alive(past)).toEqual(["n1"]);
      await vouch(["n2"]);
      expect(await alive(past)).toEqual([]);
      await vouch(["n1"]);
      await catalogue.nodes.disquiet([{ name: "n1", closedAt: start }]);
      expect(await alive(past)).toEqual([]);
      await vouch(["n1"]);
      await catalogue.nodes.setDraining("n1", 1);
      await catalogue.nodes.leave("n1", past);
      expect(await alive(past)).toEqual([]);
    });

    test("counts for no longer when the clock is set back", async () => {
      await catalogue.nodes.record(quiet);
      const back = start - 500_000;
      await catalogue.nodes.record({ ...node, name: "n2", seenAt: back });
      expect(await alive(back + QUIET_TTL_MS)).toEqual(["n1"]);
      expect(await alive(back + QUIET_TTL_MS + 1)).toEqual([]);
      const listed = await catalogue.nodes.list(0);
      expect(listed.filter((each) => isAlive(each, back + QUIET_TTL_MS + 1))).toEqual([]);
    });

    test("is vouched for no longer either", async () => {
      await catalogue.nodes.record(quiet);
      await catalogue.nodes.vouch("f1", { nodes: ["n1"], now: start });
      const back = start - 500_000;
      await catalogue.nodes.record({ ...node, name: "n2", seenAt: back });
      expect(await alive(back + VOUCHED_MS)).toEqual(["n1"]);
      expect(await alive(back + VOUCHED_MS + 1)).toEqual([]);
    });
  });
});

describe("access keys", () => {
  const row = {
    id: "SLUICE1",
    sealedSecret: "sealed",
    level: "write" as const,
    repos: ["images", "labels"],
    pipelines: true,
    description: "camera",
    createdAt: 7,
  };

  test("a key is found with its sealed secret until it is removed, once", async () => {
    await catalogue.keys.add(row);
    expect(await catalogue.keys.find("SLUICE1")).toEqual(row);
    expect(await catalogue.keys.find("SLUICE2")).toBeNull();
    expect(await catalogue.keys.remove("SLUICE1")).toBe(true);
    expect(await catalogue.keys.remove("SLUICE1")).toBe(false);
    expect(await catalogue.keys.find("SLUICE1")).toBeNull();
  });

  test("keys are listed by id, page by page, without their secrets", async () => {
    for (const id of ["B", "A", "C"]) await catalogue.keys.add({ ...row, id, repos: null });
    const first = await catalogue.keys.list({ limit: 2 });
    const { sealedSecret: _, ...shown } = row;
    expect(first).toEqual(["A", "B"].map((id) => ({ ...shown, id, repos: null })));
    expect((await catalogue.keys.list({ limit: 2, after: "B" })).map(({ id }) => id)).toEqual(["C"]);
  });

  test("an id that is taken is not taken over", async () => {
    await catalogue.keys.add(row);
    await expect(catalogue.keys.add({ ...row, description: "other" })).rejects.toThrow("UNIQUE");
    expect((await catalogue.keys.find("SLUICE1"))?.description).toBe("camera");
  });
});

test("a catalogue that is 80 % full is told of in the log, and once again for each hundredth more", () => {
  const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
  for (const size of [7.9e9, 8e9, 8.05e9, 8.1e9, 7e9, 8.1e9]) watchSpace({ meta: { size_after: size } });
  const told = warn.mock.calls.map(([text]) => /the catalogue has (\d+) %/.exec(String(text))?.[1]);
  warn.mockRestore();
  expect(told).toEqual(["80", "81", "81"]);
});
