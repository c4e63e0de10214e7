import { applyD1Migrations, env, evictDurableObject, runInDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import type { Job } from "../../../protocol/pipelines.ts";
import { MIGRATIONS as BRANCH } from "../../../worker/branch/ledger/migrations.ts";
import { openCatalogue } from "../../../worker/catalogue/catalogue.ts";
import { migrate } from "../../../worker/objects/migrations.ts";
import { Sql } from "../../../worker/objects/sql.ts";
import { MIGRATIONS as PIPELINE } from "../../../worker/pipeline/ledger/migrations.ts";
import {
  begin,
  branchOf,
  chunked,
  commitFiles,
  committed,
  completion,
  finished,
  freshBranch,
  listed,
  put,
  stage,
  startOpenCommit,
} from "../branch/support.ts";
import { allJobs, commit, makePipeline, makeRepo, workUntil } from "../pipeline/support.ts";
import { transaction } from "./transaction.ts";

/** What the next release adds: a table, and a column to each table that there is. */
function nextOf(tables: readonly string[]): string {
  const columns = tables.map((table) => `ALTER TABLE ${table} ADD COLUMN later TEXT;`);
  return ["CREATE TABLE later (id INTEGER PRIMARY KEY);", ...columns].join("\n");
}

interface ObjectKind {
  readonly stub: DurableObjectStub<undefined>;
  readonly migrations: readonly string[];
}

/** The object comes up under the next release, and is then put to sleep: the next call wakes it under this one. */
async function underTheNext({ stub, migrations }: ObjectKind): Promise<void> {
  await runInDurableObject(stub, (_, { storage }) => {
    const sql = new Sql(storage.sql);
    const tables = storage.sql
      .exec<{ name: string }>(
        `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_cf%' ESCAPE '\\'
           AND name NOT LIKE 'sqlite%' AND name NOT IN ('family', 'later')`,
      )
      .toArray()
      .map(({ name }) => name);
    transaction(storage, (tx) => migrate(tx, sql, [...migrations, nextOf(tables)]));
    storage.sql.exec("INSERT INTO later DEFAULT VALUES");
  });
  await evictDurableObject(stub);
}

/** Rows that the next release wrote into its table. */
function laterRows({ stub }: ObjectKind): Promise<unknown> {
  return runInDurableObject(stub, (_, { storage }) =>
    storage.sql.exec("SELECT count(*) AS n FROM later").one(),
  );
}

let names = 0;

const KINDS = [
  [
    "a branch",
    async () => {
      const branch = await freshBranch();
      await put(branch, "first");
      let round = 0;
      return {
        kind: { stub: branch as unknown as DurableObjectStub<undefined>, migrations: BRANCH },
        async works() {
          const name = `round-${++round}`;
          await put(branch, `${name}/put`);
          expect(await branch.settings.change({ public: round % 2 === 1 })).toEqual({ ok: true });
          expect(await branch.settings.read()).toMatchObject({ public: round % 2 === 1 });
          committed(await commitFiles(branch, { puts: { [`${name}/bulk`]: "x" }, deletes: ["first"] }));
          const openCommit = await startOpenCommit(branch);
          await stage(branch, openCommit, { puts: [`${name}/staged`], deletes: [`${name}/put`] });
          await finished(branch, openCommit);
          const upload = await begin(branch, { path: `${name}/parts` });
          const one = chunked(name, [`b/${name}`]);
          await branch.multipart.addPart({ upload, number: 1, content: one });
          expect(await branch.multipart.complete(completion(upload, { 1: one }))).toMatchObject({ ok: true });
          await branch.tags.create({ name, force: false });
          expect(await listed(branch, { prefix: `${name}/s`, openCommit: name })).toEqual([`${name}/staged`]);
          const there = await listed(branch, { prefix: name });
          expect(there).toEqual(["bulk", "parts", "staged"].map((path) => `${name}/${path}`));
        },
      };
    },
  ],
  [
    "a pipeline",
    async () => {
      const name = `rolled-back-${++names}`;
      await makeRepo(`${name}-in`);
      const pipeline = await makePipeline({ name, globs: { [`${name}-in`]: "/*" } });
      let jobs = 0;
      return {
        kind: {
          stub: env.PIPELINE.getByName(name) as unknown as DurableObjectStub<undefined>,
          migrations: PIPELINE,
        },
        async works() {
          jobs++;
          await commit(`${name}-in`, { [`file-${jobs}`]: `${jobs}` });
          await workUntil(pipeline, { jobs });
          const states = (await allJobs(pipeline)).map(({ state }) => state);
          expect(states).toEqual(Array.from({ length: jobs }, () => "success"));
        },
      };
    },
  ],
] as const;

describe("a rollback and the way back", () => {
  test.each(
    KINDS,
  )("%s works under the next release, this one, the next and this one again", async (_, make) => {
    const { kind, works } = await make();
    await works();
    for (let times = 1; times <= 3; times++) {
      await underTheNext(kind);
      await works();
      expect(await laterRows(kind)).toEqual({ n: times });
    }
  });

  test("a name that was only probed still leaves nothing", async () => {
    const branch = branchOf("master.never-made");
    expect(await branch.lifecycle.status()).toMatchObject({ ok: false });
    await runInDurableObject(branch, (_, { storage: { sql } }) => {
      expect(
        sql.exec("SELECT name FROM sqlite_master WHERE name NOT LIKE '\\_cf%' ESCAPE '\\'").toArray(),
      ).toEqual([]);
    });
  });

  test("the catalogue works with the tables of the next release, before and after it comes back", async () => {
    const tables = ["branches", "tags", "branch_settings", "pipelines", "jobs", "nodes", "access_keys"];
    const next = { name: "9999_later.sql", queries: nextOf(tables).split("\n") };
    for (const migrations of [[...env.TEST_MIGRATIONS, next], env.TEST_MIGRATIONS]) {
      for (let times = 0; times < 2; times++) await applyD1Migrations(env.DB, migrations);
      await catalogueWorks();
    }
    await applyD1Migrations(env.DB, [...env.TEST_MIGRATIONS, next]);
    const { results } = await env.DB.prepare("SELECT count(*) AS n FROM later").all();
    expect(results).toEqual([{ n: 0 }]);
  });
});

/** Everything that is written to each table and read from it. */
async function catalogueWorks(): Promise<void> {
  const catalogue = openCatalogue(env.DB);
  const id = `k${++names}`;
  await catalogue.branches.record({ repo: id, branch: "master", createdAt: 1, version: 1, deleted: false });
  expect(await catalogue.branches.hasRepo(id)).toBe(true);
  await catalogue.tags.record({ repo: id, branch: "master", createdAt: 1 }, [
    { name: "v1", version: 1, tag: { commit: "c", createdAt: 2 } },
  ]);
  expect(await catalogue.tags.list({ repo: id, limit: 10 })).toMatchObject([{ name: "v1", commit: "c" }]);
  const open = { repo: id, branch: "master", isPublic: true, hasCors: false };
  const writer = { key: "k" };
  await catalogue.settings.record({ ...open, writer, version: 1, revision: 1 });
  expect(await catalogue.settings.listOpen(1000)).toContainEqual(open);
  expect(await catalogue.settings.findOpen(open)).toEqual(open);
  expect(await catalogue.settings.ofRepo(id)).toEqual([{ ...open, writer }]);
  await catalogue.pipelines.record({
    name: id,
    uid: id,
    state: "active",
    createdAt: 1,
    inputs: [],
    output: { repo: id, branch: "master" },
    errors: false,
    parallelism: { strategy: "CONSTANT", constant: 1 },
    version: 1,
    deleted: false,
  });
  expect((await catalogue.pipelines.list()).map(({ name }) => name)).toContain(id);
  const job: Job = {
    id,
    pipeline: id,
    version: 1,
    output: { repo: id, branch: "master" },
    state: "running",
    reason: null,
    inputs: [],
    outputCommit: null,
    datums: { total: 0, processed: 0, skipped: 0, failed: 0 },
    createdAt: 1,
    startedAt: null,
    finishedAt: null,
  };
  await catalogue.jobs.record([{ job, version: 1 }], { uid: id });
  await catalogue.jobs.remove({ pipeline: id, upTo: "" });
  expect(await catalogue.jobs.list({ pipeline: id, limit: 10 })).toEqual([job]);
  await catalogue.nodes.record({ name: id, executor: "process", capacity: 1, seenAt: 1, work: [] });
  expect((await catalogue.nodes.list(0)).map(({ name }) => name)).toContain(id);
  await catalogue.keys.add({
    id,
    sealedSecret: "sealed",
    level: "read",
    repos: null,
    pipelines: false,
    description: "",
    createdAt: 1,
  });
  expect(await catalogue.keys.find(id)).toMatchObject({ id, level: "read" });
}
