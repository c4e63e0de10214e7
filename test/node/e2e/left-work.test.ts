// @module-tag rest
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { monotonicFactory } from "ulid";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Job, JobPage } from "../../../protocol/pipelines.ts";
import { Control } from "../../support/control.ts";
import { type DevServer, startDevServer, startRunner } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { FakeRunner, smallOutput } from "../../support/fake-runner.ts";
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

/** Changes the rows of the object whose `table` has `name` in `column`, while the gateway does not run. */
function rewrite(
  { kind, table, column, name }: { kind: "Pipeline" | "Branch"; table: string; column: string; name: string },
  change: (db: DatabaseSync) => void,
): void {
  const folder = join(server.data, `state/do/sluice-${kind}`);
  const files = readdirSync(folder).filter((file) => /^[0-9a-f]{64}\.sqlite$/.test(file));
  for (const file of files) {
    using db = new DatabaseSync(join(folder, file));
    const there = db.prepare("SELECT 1 FROM sqlite_master WHERE name = ?").get(table);
    if (!there || db.prepare(`SELECT ${column} AS name FROM ${table}`).get()?.name !== name) continue;
    db.exec("BEGIN");
    change(db);
    db.exec("COMMIT");
    return;
  }
  throw new Error(`there is no object of ${name}`);
}

function rewritePipeline(name: string, change: (db: DatabaseSync) => void): void {
  rewrite({ kind: "Pipeline", table: "pipeline", column: "name", name }, change);
}

function rewriteBranch(bucket: string, change: (db: DatabaseSync) => void): void {
  rewrite({ kind: "Branch", table: "address", column: "bucket", name: bucket }, change);
}

const PRESENT = "revision = (SELECT revision FROM pipeline)";

/** The pipeline reads another repo, as if it had been submitted so when nobody looked, and is being started. */
function readInstead(db: DatabaseSync, repo: string): void {
  const spec = JSON.parse(String(db.prepare(`SELECT spec FROM revisions WHERE ${PRESENT}`).get()?.spec));
  spec.inputs[0].repo.name = repo;
  const text = JSON.stringify(spec);
  db.prepare(`UPDATE revisions SET spec = ? WHERE ${PRESENT}`).run(text);
  db.exec("UPDATE pipeline SET state = 'starting', version = version + 1, wholeJobDue = 1");
  db.prepare(
    `UPDATE sources SET repo = ?, subscribed = 0, generation = 0, seq = 0, "commit" = NULL, lineage = NULL,
       hasData = 0`,
  ).run(repo);
}

/** As if so many commits had come while nobody had time for them. */
function queueJobs(db: DatabaseSync, count: number): void {
  const id = monotonicFactory();
  const source = db.prepare(`SELECT generation, seq, "commit" FROM sources`).get();
  const insert = db.prepare(
    `INSERT INTO jobs (n, id, state, revision, source, generation, seq, positions, fill, filled, tookOver, committing,
       reaping, total, processed, skipped, failed, open, createdAt, version, flushed)
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
    rewritePipeline("flood", (db) => queueJobs(db, QUEUED));
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

test(
  "a gateway that finds a circle which runs gets ready and ends it, with the reason, and answers stop and delete",
  TIMEOUT,
  async () => {
    const queued = 20;
    const control = new Control(server);
    const s3 = new S3(server);
    const copying = (name: string, repo: string) => ({
      ...spec(name, repo),
      transform: { image: "none", cmd: ["sh"], stdin: ["cp /pfs/in/* /pfs/out/"] },
      inputs: [{ name: "in", repo: { name: repo }, glob: "/*" }],
    });
    await s3.createBucket("master.ring-in");
    await control.createPipeline(copying("ring-p", "ring-in"));
    await control.createPipeline(copying("ring-q", "ring-p"));
    const runner = startRunner(server, { node: "ring" });
    try {
      await s3.put("master.ring-in", "a", "a");
      for (const name of ["ring-p", "ring-q"]) await settled(control, name);
      await server.kill9();
      // As a release leaves it that let two submissions pass each other and does not note what commits descend from: the
      // second pipeline has jobs left, and the first is to make one of each commit that comes of them.
      rewritePipeline("ring-p", (db) => readInstead(db, "ring-q"));
      rewritePipeline("ring-q", (db) => {
        db.exec("UPDATE sources SET lineage = NULL");
        queueJobs(db, queued);
      });
      for (const bucket of ["master.ring-p", "master.ring-q"])
        rewriteBranch(bucket, (db) => db.exec("DELETE FROM lineages"));
      await server.restart();

      for (const name of ["ring-p", "ring-q"])
        expect((await control.ask("GET", `/pipelines/${name}`)).status).toBe(200);
      let before = 0;
      const jobs = await eventually(
        "all that went round has been ended",
        async () => {
          const all = [...(await control.jobs("ring-p")), ...(await control.jobs("ring-q"))];
          const failed = all.filter(({ state }) => state === "failure").length;
          const open = all.filter(({ finishedAt }) => finishedAt === null).length;
          const isOver = failed > 0 && open === 0 && all.length === before;
          before = all.length;
          // Each of the jobs that were left comes round once, and so does the one that the first pipeline starts with, in which are
          // those that had ended by then.
          if (isOver) return all;
          throw new Error(`of ${all.length} jobs ${failed} have failed and ${open} not ended`);
        },
        PATIENT,
      );
      // Whenever each began to follow the other: of every commit from then on it has a job.
      for (const [reader, source] of [
        ["ring-p", "ring-q"],
        ["ring-q", "ring-p"],
      ]) {
        const read = new Set(
          jobs.flatMap(({ pipeline, inputs }) => (pipeline === reader ? [inputs[0]?.commit] : [])),
        );
        const made = jobs.flatMap(({ pipeline, outputCommit }) =>
          pipeline === source && outputCommit !== null ? [outputCommit] : [],
        );
        const first = made.sort().findIndex((commit) => read.has(commit));
        expect(first).toBeGreaterThanOrEqual(0);
        expect(made.slice(first).filter((commit) => !read.has(commit))).toEqual([]);
      }
      const reasons = new Set(jobs.flatMap(({ state, reason }) => (state === "failure" ? [reason] : [])));
      for (const reason of reasons)
        expect(reason).toMatch(/^the pipelines go in a circle, which ends here: .*s3:\/\/master\.ring-[pq]/);
      // What was there, what was queued, and no more than one round of it.
      expect(jobs.length).toBeLessThanOrEqual(2 + 3 * (queued + 1));

      expect((await control.ask("POST", "/pipelines/ring-p/stop")).status).toBe(200);
      expect((await control.ask("DELETE", "/pipelines/ring-q?force=true")).status).toBe(204);
      expect((await control.ask("DELETE", "/pipelines/ring-p")).status).toBe(204);
      expect((await fetch(`${server.endpoint}/healthz`)).status).toBe(200);
    } finally {
      await runner.stop();
    }
  },
);

test(
  "a gateway whose jobs end in a row, without a runner in between, answers others meanwhile",
  TIMEOUT,
  async () => {
    const count = 500;
    const control = new Control(server);
    const s3 = new S3(server);
    const runner = new FakeRunner(server, { node: "row" });
    const newest = async (): Promise<Job | undefined> => {
      const { text } = await control.ask("GET", "/jobs?pipeline=row&limit=1");
      return JobPage.parse(JSON.parse(text)).jobs[0];
    };
    await s3.createBucket("master.row-in");
    await control.createPipeline({
      ...spec("row", "row-in"),
      inputs: [{ name: "in", repo: { name: "row-in" }, glob: "/held" }],
    });
    // The first job's only datum is held back, and the others wait behind it with none of their own.
    await s3.put("master.row-in", "held", "held");
    for (let n = 1; n < count; n++) await s3.put("master.row-in", `other-${n}`, String(n));
    const last = await s3.headCommit("master.row-in");
    await eventually(
      "each commit has its job",
      async () => (await newest())?.inputs[0]?.commit === last,
      PATIENT,
    );

    const answeredAt: number[] = [];
    let goesOn = true;
    const asking = (async () => {
      while (goesOn) {
        expect((await fetch(`${server.endpoint}/healthz`)).status).toBe(200);
        answeredAt.push(Date.now());
      }
    })();
    await runner.work("row", { count: 1, outputs: () => [smallOutput("held", "held")] });
    await eventually("the last job has ended", async () => (await newest())?.finishedAt !== null, PATIENT);
    goesOn = false;
    await asking;
    const ends = (await control.jobs("row")).map(({ finishedAt }) => finishedAt ?? Number.NaN);
    const between = answeredAt.map(
      (at, n) => ends.filter((end) => end > (answeredAt[n - 1] ?? 0) && end <= at).length,
    );
    // From one answer to the next, however fast the machine is.
    expect(Math.max(...between)).toBeLessThan(count / 10);
  },
);
