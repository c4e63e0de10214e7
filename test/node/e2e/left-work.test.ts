// @module-tag rest
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { monotonicFactory } from "ulid";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Control } from "../../support/control.ts";
import { type DevServer, startDevServer } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { S3 } from "../../support/s3.ts";

const QUEUED = 20_000;
const TIMEOUT = { timeout: 600_000 };
const PATIENT = { withinMs: 240_000 };

let server: DevServer;
beforeEach(async () => {
  server = await startDevServer();
});
afterEach(() => server?.stop());

/** A pipeline whose glob matches nothing: each of its jobs ends by itself, with an empty output commit. */
function spec(name: string, repo: string) {
  return {
    pipeline: { name },
    transform: { image: "none", cmd: ["true"] },
    inputs: [{ name: "in", repo: { name: repo }, glob: "/none" }],
  };
}

/** Changes the rows of a pipeline's object, while the gateway does not run. */
function rewrite(name: string, change: (db: DatabaseSync) => void): void {
  const folder = join(server.data, "state/do/sluice-Pipeline");
  const files = readdirSync(folder).filter((file) => /^[0-9a-f]{64}\.sqlite$/.test(file));
  for (const file of files) {
    using db = new DatabaseSync(join(folder, file));
    const there = db.prepare("SELECT 1 FROM sqlite_master WHERE name = 'pipeline'").get();
    if (!there || db.prepare("SELECT name FROM pipeline").get()?.name !== name) continue;
    db.exec("BEGIN");
    change(db);
    db.exec("COMMIT");
    return;
  }
  throw new Error(`there is no object of the pipeline ${name}`);
}

/** As if so many commits had come while nobody had time for them. */
function queueJobs(db: DatabaseSync, count: number): void {
  const id = monotonicFactory();
  const source = db.prepare(`SELECT generation, seq, commit_id AS "commit" FROM sources`).get();
  const insert = db.prepare(
    `INSERT INTO jobs (n, id, state, revision, source, generation, seq, positions, fill, filled, carried, committing,
       reaping, total, processed, skipped, failed, open, created_at, version, flushed)
     VALUES ((SELECT max(n) + 1 FROM jobs), ?, 'starting', 1, 0, 1, ?, ?, '{"step":"settle","from":null}', 0, 0, 0,
       0, 0, 0, 0, 0, 0, ?, 1, 0)`,
  );
  for (let n = 0; n < count; n++) {
    insert.run(id(), 1000 + n, JSON.stringify([source]), Date.now());
  }
}

/** What takes long is answered all the same: it goes on by itself, and is asked for again. */
function done(status: number, wanted: readonly number[]): boolean {
  expect([...wanted, 503]).toContain(status);
  return wanted.includes(status);
}

async function settled(control: Control, name: string): Promise<void> {
  await eventually(`the first job of ${name} has ended`, async () => {
    const jobs = await control.jobs(name);
    return jobs.length === 1 && jobs[0]?.finishedAt !== null;
  });
}

test(
  "a gateway that finds 20,000 queued jobs gets ready, and answers stop and delete before they have ended",
  TIMEOUT,
  async () => {
    const control = new Control(server);
    const s3 = new S3(server);
    await s3.createBucket("master.flood-in");
    await control.createPipeline(spec("flood", "flood-in"));
    await s3.put("master.flood-in", "a", "a");
    await settled(control, "flood");
    await server.kill9();
    rewrite("flood", (db) => queueJobs(db, QUEUED));
    await server.restart();

    // The first call wakes the object, and it goes to work.
    expect((await control.ask("GET", "/pipelines/flood")).status).toBe(200);
    const left = await control.ask("GET", "/jobs?pipeline=flood&state=running&limit=1");
    expect(left.status).toBe(200);
    expect((await fetch(`${server.endpoint}/healthz`)).status).toBe(200);
    const newest = async () => JSON.parse((await control.ask("GET", "/pipelines/flood")).text);
    expect(await newest()).toMatchObject({ state: "active" });

    const stop = async () => (await control.ask("POST", "/pipelines/flood/stop")).status;
    await eventually("the stop is done", async () => done(await stop(), [200]), PATIENT);
    const killed = await control.ask("GET", "/jobs?pipeline=flood&state=killed&limit=1");
    // It was answered while jobs were left: they did not all have to end first.
    expect(JSON.parse(killed.text).jobs).toHaveLength(1);
    const remove = async () => (await control.ask("DELETE", "/pipelines/flood")).status;
    await eventually("the deletion is done", async () => done(await remove(), [204, 404]), PATIENT);
    expect((await fetch(`${server.endpoint}/healthz`)).status).toBe(200);
  },
);
