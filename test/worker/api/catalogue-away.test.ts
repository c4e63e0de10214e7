import { env, runInDurableObject } from "cloudflare:test";
import { afterEach, describe, expect, test } from "vitest";
import { clientOf } from "../../../worker/objects/facets.ts";
import type { PipelineApi } from "../../../worker/pipeline/contract.ts";
import { branchOf } from "../branch/support.ts";
import { failed, good, makeBranch } from "./support.ts";

const TABLES = ["branches", "pipelines", "proposals", "jobs", "nodes", "access_keys"];
const WRITES = ["INSERT", "UPDATE", "DELETE"];

const undo: string[] = [];

/** No row of the catalogue can be written from here on. */
async function makeReadOnly(): Promise<void> {
  for (const [index, table] of TABLES.entries()) {
    for (const write of WRITES) {
      const name = `read_only_${index}_${write}`;
      const trigger = `CREATE TRIGGER ${name} BEFORE ${write} ON ${table} BEGIN SELECT RAISE(ABORT, 'read-only'); END`;
      await env.DB.prepare(trigger).run();
      undo.push(`DROP TRIGGER ${name}`);
    }
  }
}

/** As if the migration that makes a table had not been applied. */
async function takeAway(table: string): Promise<void> {
  await env.DB.exec(`ALTER TABLE ${table} RENAME TO ${table}_away`);
  undo.push(`ALTER TABLE ${table}_away RENAME TO ${table}`);
}

afterEach(async () => {
  for (const sql of undo.splice(0).reverse()) await env.DB.exec(sql);
});

function spec(name: string, repo: string, more: Record<string, unknown> = {}) {
  return {
    pipeline: { name },
    transform: { image: "none", cmd: ["true"] },
    inputs: [{ repo: { name: repo }, glob: "/*" }],
    ...more,
  };
}

const aKey = { level: "read", description: "one" };
const beat = { node: "n1", executor: "process", capacity: 1 };

describe("while the catalogue can't be written, the control API asks to try again", () => {
  test("with 503 and Retry-After, and does what has begun once it can", async () => {
    for (const repo of ["away-in", "away-other"]) await makeBranch({ repo, branch: "master" });
    for (const name of ["away-updated", "away-stopped", "away-deleted"]) {
      await good("POST /pipelines", { body: spec(name, "away-in") });
    }
    await good("POST /runner/heartbeat", { body: beat });
    const { id } = await good("POST /keys", { body: aKey });
    await makeReadOnly();
    const calls: readonly (readonly [target: string, body?: unknown])[] = [
      ["POST /pipelines", spec("away-new", "away-in")],
      ["POST /pipelines?update=true", spec("away-updated", "away-other")],
      ["POST /pipelines/away-stopped/stop"],
      ["DELETE /pipelines/away-deleted"],
      ["POST /keys", aKey],
      [`DELETE /keys/${id}`],
      ["POST /runner/heartbeat", beat],
      ["DELETE /runner/heartbeat?node=n1"],
      ["POST /nodes/n1/drain"],
    ];
    for (const [target, body] of calls) {
      const answer = await failed(target, body === undefined ? {} : { body });
      expect({ target, status: answer.status, code: answer.code }).toEqual({
        target,
        status: 503,
        code: "Unavailable",
      });
      expect(answer.headers.get("retry-after"), target).toBe("1");
    }
    for (const sql of undo.splice(0)) await env.DB.exec(sql);
    await expect
      .poll(async () => (await failed("POST /pipelines", { body: spec("away-new", "away-in") })).code)
      .toBe("AlreadyExists");
    await good("POST /pipelines/away-stopped/stop");
    await good("POST /runner/heartbeat", { body: beat });
  });
});

describe("a migration that was not applied", () => {
  const NAMED = /lacks a migration that this release needs: apply the migrations/;

  test("is named before a branch is made, and leaves no trace of one", async () => {
    await takeAway("branches");
    const branch = branchOf("master.early");
    expect(await branch.lifecycle.create()).toEqual({ ok: false, reason: "catalogue-outdated" });
    const tables = await runInDurableObject(branch, (_, { storage: { sql } }) =>
      sql.exec("SELECT name FROM sqlite_master WHERE name NOT LIKE '\\_cf%' ESCAPE '\\'").toArray(),
    );
    expect(tables).toEqual([]);
    expect(await branch.lifecycle.status()).toMatchObject({ ok: false });
  });

  test("is named before a pipeline is made, updated, or anything else is written", async () => {
    await makeBranch({ repo: "early-in", branch: "master" });
    await makeBranch({ repo: "early-other", branch: "master" });
    await good("POST /pipelines", { body: spec("early-there", "early-in") });
    await takeAway("proposals");
    for (const [target, body] of [
      ["POST /pipelines", spec("early-new", "early-in")],
      ["POST /pipelines?update=true", spec("early-there", "early-other")],
    ] as const) {
      const { status, code, message } = await failed(target, { body });
      expect({ status, code, message }).toEqual({
        status: 503,
        code: "Unavailable",
        message: expect.stringMatching(NAMED),
      });
    }
    expect(
      await clientOf<PipelineApi>(env.PIPELINE.getByName("early-new")).lifecycle.inspect(),
    ).toMatchObject({ ok: false });
    expect(await branchOf("master.early-new").lifecycle.status()).toMatchObject({ ok: false });
    expect(await good("GET /pipelines/early-there")).toMatchObject({ version: 1, state: "active" });
    await takeAway("access_keys");
    const { status, message } = await failed("POST /keys", { body: aKey });
    expect({ status, message }).toEqual({ status: 503, message: expect.stringMatching(NAMED) });
  });
});
