import { env } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import { CatalogueRebuilt } from "../../../protocol/admin.ts";
import { openCatalogue } from "../../../worker/catalogue/catalogue.ts";
import { branchOf } from "../branch/support.ts";
import { allJobs, commit, makePipeline, makeRepo, pipelineOf, workUntil } from "../pipeline/support.ts";
import { good, testContext } from "./support.ts";

/** What the object is the truth about. Access keys and nodes are not among it. */
const COPIES = ["branches", "branch_settings", "tags", "pipelines", "jobs"];

async function catalogue(): Promise<Record<string, unknown>> {
  const tables: Record<string, unknown> = {};
  for (const table of COPIES) {
    const { results } = await env.DB.prepare(`SELECT * FROM ${table} ORDER BY 1, 2, 3`).all();
    // Versions only say what is newer.
    tables[table] = results.filter(({ deleted }) => deleted !== 1).map(({ version: _, ...row }) => row);
  }
  return tables;
}

/** All pages. */
async function rebuilt(limit = 50): Promise<Omit<CatalogueRebuilt, "next">> {
  const all = { branches: 0, pipelines: 0, deleted: 0, missing: [] as string[], failed: [] as string[] };
  for (let after: string | null = ""; after !== null; ) {
    const query: string = after === "" ? "" : `&after=${encodeURIComponent(after)}`;
    const page = CatalogueRebuilt.parse(await good(`POST /admin/rebuild?limit=${limit}${query}`));
    all.branches += page.branches;
    all.pipelines += page.pipelines;
    all.deleted += page.deleted;
    all.missing.push(...page.missing);
    all.failed.push(...page.failed);
    after = page.next;
  }
  return all;
}

/** A pipeline with jobs, branches that are set to something, tagged, forked, deleted. */
async function everything(): Promise<void> {
  await makeRepo("kept");
  await commit("kept", { a: "1" });
  const branch = branchOf("master.kept");
  await branch.tags.create({ name: "v1", force: false });
  await branch.tags.create({ name: "v2", force: false });
  await branch.tags.delete({ name: "v2" });
  await branch.settings.change({ public: true, writer: { key: "SLUICE1" } });
  await branchOf("other.kept").lifecycle.fork({ parent: "master.kept" });
  await expect.poll(async () => (await branchOf("other.kept").lifecycle.status()).ok).toBe(true);
  await branchOf("gone.kept").lifecycle.create();
  await branchOf("gone.kept").lifecycle.destroy();
  await makeRepo("read");
  const pipeline = await makePipeline({ name: "reads", globs: { read: "/*" } });
  for (const n of [1, 2]) {
    await commit("read", { [`file-${n}`]: `${n}` });
    await workUntil(pipeline, { jobs: n });
  }
  await expect
    .poll(async () =>
      (await openCatalogue(env.DB).jobs.list({ pipeline: "reads", limit: 10 })).map(({ state }) => state),
    )
    .toEqual(["success", "success"]);
}

describe("POST /admin/rebuild", () => {
  test("makes a lost catalogue as it was: branches, settings, tags, forks, pipelines, jobs", async () => {
    await everything();
    const before = await catalogue();
    for (const table of COPIES) await env.DB.exec(`DELETE FROM ${table}`);
    const found = await rebuilt(2);
    expect(found).toMatchObject({ branches: 4, pipelines: 1, deleted: 1, missing: [], failed: [] });
    await expect.poll(catalogue).toEqual(before);
    // It may be run at any time, and then changes nothing.
    await rebuilt();
    await expect.poll(catalogue).toEqual(before);
  });

  test("undoes what the catalogue knows of a later time than the objects", async () => {
    const { branches, settings, tags, pipelines, jobs } = openCatalogue(env.DB);
    const before = await catalogue();
    const kept = { repo: "kept", branch: "master" };
    await branches.record({ ...kept, version: 99, deleted: true, createdAt: 1 });
    await settings.record({
      ...kept,
      version: 99,
      revision: 1,
      isPublic: false,
      hasCors: true,
      writer: null,
    });
    await tags.record({ ...kept, createdAt: 1 }, [
      { name: "v3", version: 99, tag: { commit: "x", createdAt: 1 } },
    ]);
    const [row] = (await pipelines.list()).filter(({ name }) => name === "reads");
    if (!row) throw new Error("there is no pipeline");
    await pipelines.record({ ...row, state: "stopped", version: 99, deleted: true });
    const [newest] = await allJobs(pipelineOf("reads"));
    if (!newest) throw new Error("there is no job");
    await jobs.record(
      [
        { job: { ...newest, state: "failure" }, version: 999 },
        { job: { ...newest, id: "7ZZZZZZZZZZZZZZZZZZZZZZZZZ" }, version: 1 },
      ],
      { uid: row.uid },
    );
    expect(await catalogue()).not.toEqual(before);
    await rebuilt();
    await expect.poll(catalogue).toEqual(before);
  });

  test("names what left a marker and no object", async () => {
    await testContext().blobs.put("m/branches/lost/master", new Uint8Array([1]));
    expect(await rebuilt()).toMatchObject({ missing: ["branch master.lost"], failed: [] });
  });
});
