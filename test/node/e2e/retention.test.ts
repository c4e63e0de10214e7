// @module-tag rest
import { createHash, randomBytes } from "node:crypto";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { RepoUsage } from "../../../protocol/repos.ts";
import { Control } from "../../support/control.ts";
import { type DevServer, sluice, sluiceOk, startDevServer } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { S3 } from "../../support/s3.ts";

/** Commits of so many small files each, all of them overwritten by each commit, and of one file that is a blob. */
const COMMITS = 30;
const FILES = 100;
const KEPT = 10;
const BLOB_BYTES = 5000;
const PATIENT = { withinMs: 120_000 };
const TIMEOUT = { timeout: 500_000 };

let server: DevServer;
let s3: S3;
let control: Control;

beforeAll(async () => {
  server = await startDevServer();
  s3 = new S3(server);
  control = new Control(server);
});
afterAll(() => server?.stop());

function cli(...args: string[]): Promise<string> {
  return sluiceOk(server, ...args);
}

/** All files of the blob store but for the markers. */
function blobs(): string[] {
  return readdirSync(join(server.data, "blobs", "b"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ name }) => name);
}

/** The database of a branch, while nobody runs. */
function withBranch<T>(bucket: string, look: (db: DatabaseSync) => T): T {
  const folder = join(server.data, "state/do/sluice-Branch");
  for (const file of readdirSync(folder).filter((name) => /^[0-9a-f]{64}\.sqlite$/.test(name))) {
    using db = new DatabaseSync(join(folder, file));
    const there = db.prepare("SELECT 1 FROM sqlite_master WHERE name = 'address'").get();
    if (there && db.prepare("SELECT bucket FROM address").get()?.bucket === bucket) return look(db);
  }
  throw new Error(`there is no branch ${bucket}`);
}

/** One commit that writes all small files anew. */
async function writeAll(repo: string, round: number): Promise<void> {
  const files = Array.from({ length: FILES }, (_, n) => {
    const bytes = Buffer.from(`file ${n} of round ${round}`);
    const digest = createHash("sha256").update(bytes).digest("hex");
    return { put: `small/${n}`, digest, size: bytes.length, bytes: bytes.toString("base64") };
  });
  const upload = await control.openUpload(repo);
  await control.addInlineContents(
    upload,
    files.map(({ digest, size, bytes }) => ({ digest, size, bytes })),
  );
  await control.commit(
    repo,
    upload,
    files.map(({ put, digest, size }) => ({ put, digest, size })),
  );
}

describe("`sluice branch keep`", () => {
  test("shows what is kept, and sets it by number, by days, by both, or to all", async () => {
    await s3.createBucket("master.shown");
    expect(await cli("branch", "keep", "master.shown")).toBe("s3://master.shown keeps all of its history\n");
    expect(await cli("branch", "keep", "master.shown", "--commits", "100", "--days", "30")).toBe(
      "s3://master.shown keeps the newest 100 commits and what was replaced within 30 days\n",
    );
    expect(JSON.parse(await cli("branch", "keep", "s3://master.shown", "--json"))).toEqual({
      keep: { commits: 100, days: 30 },
    });
    const [head, row] = (await cli("branch", "list", "shown")).split("\n");
    expect(head).toMatch(/ WRITTEN BY +KEEPS +STATE$/);
    expect(row).toMatch(/ the newest 100 commits and what was replaced within 30 days +ready$/);
    const { branches } = JSON.parse(await cli("branch", "list", "shown", "--json"));
    expect(branches).toMatchObject([{ name: "master", keep: { commits: 100, days: 30 } }]);
    expect(await cli("branch", "keep", "master.shown", "--days", "1")).toContain("within a day");
    expect(await cli("branch", "inspect", "master.shown")).toMatch(
      /^newest commit {2}-\nstate +ready\nkeeps +what was replaced within a day\nlast-modified {2}what the gateway is set to\nempty-only +no\nreads +of the moment\npublic +no\nwritten by +whoever may write in the repo\n$/m,
    );
    expect(JSON.parse(await cli("branch", "inspect", "s3://master.shown", "--json"))).toMatchObject({
      ...{ name: "master", keep: { days: 1 }, public: false, writer: null },
      ...{ lastModified: null, emptyOnly: false, reads: "fresh" },
    });
    expect(await cli("branch", "keep", "master.shown", "--all")).toContain("all of its history");
    for (const wrong of [
      ["--all", "--days", "1"],
      ["--commits", "0"],
      ["--days", "x"],
    ]) {
      expect(await sluice(server, "branch", "keep", "master.shown", ...wrong)).toMatchObject({ code: 2 });
    }
    const absent = await sluice(server, "branch", "keep", "master.absent", "--days", "1");
    expect(absent).toMatchObject({ code: 7 });
    expect(absent.stderr).toContain("master.absent");
  });
});

describe("a branch with a long history", () => {
  test("shrinks to what it keeps, in rows and in blobs, while it is read and written", TIMEOUT, async () => {
    const bucket = "master.long";
    await s3.createBucket(bucket);
    const first = (await s3.put(bucket, "blob", randomBytes(BLOB_BYTES))).version;
    await cli("tag", "create", "first", `${bucket}@${first}`);
    let second = "";
    for (let round = 1; round <= COMMITS; round++) {
      await writeAll("long", round);
      const { version } = await s3.put(bucket, "blob", randomBytes(BLOB_BYTES));
      if (round === 1) second = version;
    }
    expect(blobs()).toHaveLength(COMMITS + 1);
    await cli("branch", "keep", bucket, "--commits", String(KEPT));
    let busy = true;
    let writes = 0;
    const others = (async () => {
      for (; busy; writes++) {
        await s3.put(bucket, "live", `write ${writes}`);
        expect(String(await s3.get(bucket, "live"))).toBe(`write ${writes}`);
        const n = writes % FILES;
        expect(String(await s3.get(bucket, `small/${n}`))).toBe(`file ${n} of round ${COMMITS}`);
      }
    })();
    const gone = `/${bucket}/small/1?versionId=${first}`;
    try {
      await eventually(
        "the versions were given back",
        async () => {
          const { status } = await s3.ask("GET", `/${bucket}/blob?versionId=${second}`);
          return status === 404 ? true : undefined;
        },
        PATIENT,
      );
    } finally {
      busy = false;
    }
    await others;
    expect(writes).toBeGreaterThan(0);
    for (let n = 0; n < KEPT; n++) await s3.put(bucket, "live", `last write ${n}`);
    expect((await s3.ask("GET", gone)).status).toBe(404);
    expect((await s3.ask("GET", `/first.${bucket}/blob`)).status).toBe(200);
    await eventually("no version was left but of HEAD, of the tag and of the kept writes", async () => {
      const { branches } = await control.call("GET", "/repos/long/usage", { answers: RepoUsage });
      const { history, reclaimable, condemned } = branches[0]?.contents ?? {};
      return history?.count === KEPT && reclaimable?.count === 0 && condemned?.count === blobs().length - 2;
    });
    await server.kill9();
    const left = withBranch(bucket, (db) => {
      const count = (what: string) => Number(db.prepare(`SELECT count(*) AS n FROM ${what}`).get()?.n);
      // The last dead ones may not be gone yet.
      const rows = { files: count("files"), contents: count("contents WHERE refs > 0") };
      // Readers have had their time.
      db.exec("UPDATE pending_deletions SET due = 1");
      return rows;
    });
    // Of HEAD: the small files, the blob and the last write. Beside it: the tagged blob, and the kept writes before the last.
    const kept = FILES + 2 + 1 + (KEPT - 1);
    expect(left).toEqual({ files: kept, contents: kept });
    await server.restart();
    await eventually(
      "the blobs of what is not kept were deleted",
      async () => {
        await s3.put(bucket, "live", randomBytes(8));
        return blobs().length > 2 ? undefined : true;
      },
      PATIENT,
    );
    expect(await s3.get(bucket, "blob")).toHaveLength(BLOB_BYTES);
    expect((await s3.ask("GET", `/first.${bucket}/blob`)).body).toHaveLength(BLOB_BYTES);
  });

  test("answers NoSuchVersion for what it does not keep, to each S3 tool", TIMEOUT, async () => {
    const bucket = "master.short";
    await s3.createBucket(bucket);
    const versions: string[] = [];
    for (const n of [1, 2, 3, 4]) versions.push((await s3.put(bucket, "a", `version ${n}`)).version);
    const [old = "", ...others] = versions;
    await cli("branch", "keep", bucket, "--commits", "1");
    await eventually("the first was given back", async () => {
      const { status } = await s3.ask("GET", `/${bucket}/a?versionId=${old}`);
      return status === 404 ? true : undefined;
    });
    for (const target of [
      `/${bucket}/a?versionId=${old}`,
      `/${bucket}/b?versionId=${others[2]}`,
      `/${old}.${bucket}?list-type=2`,
      `/${old}.${bucket}/a`,
    ]) {
      const answer = await s3.ask("GET", target);
      expect([target, answer.status]).toEqual([target, 404]);
      expect(answer.text).toContain("NoSuchVersion");
    }
    expect((await s3.ask("HEAD", `/${old}.${bucket}`)).status).toBe(404);
    expect((await sluice(server, "commit", "inspect", bucket, old)).stderr).toContain("keeps it no more");
    expect(String(await s3.get(bucket, "a"))).toBe("version 4");
  });
});

test("`repo usage` shows a deleted repo until its bytes are gone", async () => {
  const bucket = "master.gone-soon";
  await s3.createBucket(bucket);
  await s3.put(bucket, "blob", randomBytes(BLOB_BYTES));
  await cli("rb", "--force", `s3://${bucket}`);
  await eventually("its blob was condemned", async () => {
    const rows = (await cli("repo", "usage")).split("\n");
    return rows.some((row) => /^s3:\/\/master\.gone-soon \(deleted\) +- +- +- +1 \(4\.9 KiB\) /.test(row));
  });
  expect(await cli("repo", "usage", "gone-soon")).toContain(`s3://${bucket} (deleted)`);
  expect(await cli("repo", "list")).not.toContain("gone-soon");
});
