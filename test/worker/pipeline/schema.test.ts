import { env, runInDurableObject } from "cloudflare:test";
import { describe, expect, it } from "vitest";
import { migrate } from "../../../worker/objects/migrations.ts";
import { Sql } from "../../../worker/objects/sql.ts";
import { MIGRATIONS } from "../../../worker/pipeline/ledger/migrations.ts";
import { transaction } from "../objects/transaction.ts";
import { allJobs, commit, makeRepo, master, pipelineOf, specOf, workUntil } from "./support.ts";

const DIGEST = "d".repeat(64);

/** A specification as it was stored before it could say how often a datum is tried and whether an input is lazy. */
function storedSpec(name: string): string {
  const { datumTries: _, ...spec } = specOf({ name, globs: { [`${name}-in`]: "/*" } });
  const inputs = spec.inputs.map(({ lazy: __, ...input }) => input);
  return JSON.stringify({ ...spec, inputs }).replaceAll("'", "''");
}

/** Rows that an object of each earlier version may hold, by version: one entry more with each migration. */
function rowsOf(name: string): readonly (readonly string[])[] {
  const positions = '[{"generation":1,"seq":1,"commit":"c"}]';
  const job = (n: number, rest: string): string =>
    `INSERT INTO jobs (n, id, state, reason, source, generation, seq, positions, fill, carried, total, processed,
       skipped, failed, open, output_commit, created_at, started_at, finished_at, version, flushed)
     VALUES (${n}, '0${n}', ${rest})`;
  return [
    [
      `INSERT INTO pipeline (one, name, uid, state, spec, created_at, version, salt, epoch, keep_output, pull_due, alive, committed)
       VALUES (1, '${name}', 'uid', 'active', '${storedSpec(name)}', 5, 2, 'uid', 1, 0, 1, 1, 1)`,
      `INSERT INTO sources (source, repo, branch, subscribed, generation, seq, commit_id, has_data)
       VALUES (0, '${name}-in', 'master', 1, 1, 1, 'c', 1)`,
      job(
        1,
        `'success', NULL, -1, 0, 0, '${positions}', '{"step":"done"}', 1, 1, 1, 0, 0, 0, 'o', 6, 6, 7, 3, 3`,
      ),
      `INSERT INTO elements (input, path, born, died, kind, digest, size) VALUES (0, 'a', 1, NULL, 'file', '${DIGEST}', 1)`,
      "INSERT INTO datums (key, born, died, id) VALUES ('a', 1, NULL, 'i')",
      "INSERT INTO attempts (job, id, key, state, tries, lost, finished_at) VALUES (1, 'i', 'a', 'success', 0, 0, 7)",
      "INSERT INTO results (id, salt, job, exit_code, millis, upload, finished_at) VALUES ('i', 'uid', 1, 0, 1, NULL, 7)",
      `INSERT INTO outputs (id, salt, path, digest, size) VALUES ('i', 'uid', 'a.out', '${DIGEST}', 1)`,
      "INSERT INTO published (path, id) VALUES ('a.out', 'i')",
    ],
    ["UPDATE pipeline SET begun = 1"],
    ["UPDATE revisions SET starts = '[null]'"],
    ["INSERT INTO slots (worker, node, since, until, visit) VALUES ('w0', 'n0', 1, 1, 'v')"],
    [
      "UPDATE slots SET trouble = 'no such image'",
      `INSERT INTO log_chunks (seq, job, datum, node, at, dropped, count, bytes, lines)
       VALUES (1, 1, 'i', 'n0', 7, 0, 1, 110, '[[0,"hi"]]')`,
      "INSERT INTO log_datums (job, datum, bytes, gone, lease, entry, at) VALUES (1, 'i', 110, 0, 'l', 0, 7)",
      "INSERT INTO log_store (one, bytes, next) VALUES (1, 110, 2)",
    ],
    ["UPDATE revisions SET limited = 0"],
    ["INSERT INTO lost_leases (lease) VALUES ('gone')"],
    [
      `UPDATE sources SET lineage = '{"other":1}'`,
      `UPDATE pipeline SET behind = '{"ahead":"a.b","behind":"c.d","until":1}'`,
      "INSERT INTO proposals (id) VALUES ('p')",
    ],
    [
      "INSERT INTO codes (number, revision, node, executor, image) VALUES (1, 1, 'n0', '', '')",
      "UPDATE results SET code = 1",
    ],
    [
      "INSERT INTO errors_claim (one, uid, epoch, settled) VALUES (1, 'uid', 1, 1)",
      "INSERT INTO bad_datums (id, key, told) VALUES ('j', 'z', NULL)",
      "INSERT INTO last_retry (one, asked, every, made) VALUES (1, '01', 0, 1)",
    ],
    ["UPDATE sources SET told = '{}'"],
    ["INSERT INTO given_up (upload, marks) VALUES ('none', 1)", "UPDATE pipeline SET output_due = 1"],
    [
      `INSERT INTO erasures_heard (bucket, number, due) VALUES ('master.${name}-in', 0, 0)`,
      "INSERT INTO erased_paths (source, path, generation, died) VALUES (0, 'e', 1, 1)",
      `INSERT INTO erased_outputs (upload, digest, size) VALUES ('none', '${DIGEST}', 1)`,
    ],
    ["UPDATE jobs SET committing_at = 6"],
    [
      "INSERT INTO rewrite (one, until, paid) VALUES (1, 7, 1)",
      "INSERT INTO erased_jobs (one, job) VALUES (1, 1)",
    ],
    [
      "INSERT INTO submissions (revision, uid, by_key, text) VALUES (1, 'uid', 'K', 'pipeline: …')",
      "INSERT INTO former_sources (uid, repo, branch) VALUES ('uid', 'long-ago', 'master')",
    ],
  ];
}

describe("migrations", () => {
  it("have rows to start from for each version that ever was", () => {
    expect(rowsOf("any")).toHaveLength(MIGRATIONS.length);
  });

  it.each(
    MIGRATIONS.map((_, index) => ({ version: index + 1 })),
  )("bring an object of version $version with rows to the newest version, and it goes on", async ({
    version,
  }) => {
    const name = `from-${version}`;
    await makeRepo(`${name}-in`);
    await commit(`${name}-in`, { a: "1" });
    await runInDurableObject(env.PIPELINE.getByName(name), (_, { storage }) => {
      const sql = new Sql(storage.sql);
      for (let at = 1; at <= version; at++) {
        transaction(storage, (tx) => migrate(tx, sql, MIGRATIONS.slice(0, at)));
        for (const row of rowsOf(name)[at - 1] ?? []) storage.sql.exec(row);
      }
    });
    try {
      await runInDurableObject(env.PIPELINE.getByName(name), (_, state) => state.abort("start anew"));
    } catch {
      // The call that ends the object ends with it.
    }
    const pipeline = pipelineOf(name);
    expect(await pipeline.lifecycle.inspect()).toMatchObject({
      ok: true,
      pipeline: { name, state: "active", version: 1, spec: { datumTries: 3, inputs: [{ lazy: false }] } },
    });
    expect(await allJobs(pipeline)).toMatchObject([
      { id: "01", state: "success", outputCommit: "o", inputs: [{ commit: "c" }], datums: { processed: 1 } },
    ]);
    await master(name).claim({ pipeline: name, uid: "uid" });
    await master(`${name}-in`).subscribe({ uid: "uid", pipeline: name });
    await commit(`${name}-in`, { a: null, b: "1" });
    await workUntil(pipeline, { jobs: 2 });
    expect((await allJobs(pipeline))[1]).toMatchObject({
      state: "success",
      datums: { total: 1, processed: 1 },
    });
  });
});
