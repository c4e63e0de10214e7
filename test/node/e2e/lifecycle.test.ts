// @module-tag rest
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ApiTool, ToolAnswer } from "../../support/clients/api-tool.ts";
import { good, keysOf } from "../../support/clients/api-tool.ts";
import { awsApi, hasAws } from "../../support/clients/aws-api.ts";
import { boto3, hasBoto3 } from "../../support/clients/boto3.ts";
import { type DevServer, sluice, sluiceOk, startDevServer } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { S3 } from "../../support/s3.ts";

const DAY_MS = 24 * 60 * 60 * 1000;
const [AWS_CLI, BOTO3] = [await hasAws(), await hasBoto3()];

let server: DevServer;
let s3: S3;

beforeAll(async () => {
  server = await startDevServer({ variables: { SLUICE_BRANCH_BYTES: "2000000" } });
  s3 = new S3(server);
});
afterAll(async () => {
  await server?.stop();
});

/** As if so many days had passed for a bucket's branch while the gateway was off. */
async function passed(bucket: string, days: number): Promise<void> {
  await server.kill9();
  const database = databaseOf(bucket);
  for (const [table, columns] of [
    ["commits", ["createdAt"]],
    ["files", ["bytesAt"]],
    ["multiparts", ["initiatedAt"]],
    ["lifecycle_scans", ["due", "midnight", "cutoff", "oldest"]],
  ] as const) {
    database.exec(
      `UPDATE ${table} SET ${columns.map((column) => `${column} = ${column} - ${days * DAY_MS}`)}`,
    );
  }
  database.close();
  await server.restart();
}

function databaseOf(bucket: string): DatabaseSync {
  const files = readdirSync(server.data, { recursive: true, withFileTypes: true });
  for (const file of files) {
    if (!file.isFile() || !file.name.endsWith(".sqlite")) continue;
    const database = new DatabaseSync(join(file.parentPath, file.name));
    const isBranch =
      database.prepare("SELECT 1 FROM sqlite_master WHERE name = 'address'").get() !== undefined;
    if (isBranch && database.prepare("SELECT bucket FROM address").get()?.bucket === bucket) return database;
    database.close();
  }
  throw new Error(`no file of ${server.data} is the object of ${bucket}`);
}

const RULES = [
  {
    ID: "logs",
    Filter: { Prefix: "logs/" },
    Status: "Enabled",
    Expiration: { Days: 30 },
    AbortIncompleteMultipartUpload: { DaysAfterInitiation: 7 },
  },
  { ID: "tmp", Filter: { Prefix: "tmp/" }, Status: "Disabled", Expiration: { Days: 1 } },
  {
    ID: "tagged",
    Filter: { Tag: { Key: "for", Value: "now" } },
    Status: "Enabled",
    Expiration: { Days: 30 },
  },
];

/** The rules that a tool shows. */
function rulesIn(answer: ToolAnswer): unknown {
  return (good(answer) as { readonly Rules?: unknown }).Rules;
}

const TOOLS: readonly (readonly [name: string, there: boolean, open: () => ApiTool])[] = [
  ["boto3", BOTO3, () => boto3(server)],
  ["the AWS command line", AWS_CLI, () => awsApi(server)],
];

describe.each(TOOLS)("a lifecycle configuration written by %s", (name, there, open) => {
  // The command line is a process for each call.
  test.skipIf(!there)(
    "is shown as it was put, does what it does on S3, and is deleted",
    { timeout: 180_000 },
    async () => {
      const Bucket = `master.ruled-${name.length}`;
      await s3.createBucket(Bucket);
      for (const key of ["logs/a", "logs/b", "tmp/c", "kept"]) await s3.put(Bucket, key, key);
      let tool = open();
      try {
        expect(await tool.call("get-bucket-lifecycle-configuration", { Bucket })).toEqual({
          ok: false,
          code: "NoSuchLifecycleConfiguration",
        });
        const LifecycleConfiguration = { Rules: RULES };
        good(await tool.call("put-bucket-lifecycle-configuration", { Bucket, LifecycleConfiguration }));
        expect(rulesIn(await tool.call("get-bucket-lifecycle-configuration", { Bucket }))).toEqual(RULES);
        const upload = { Bucket, Key: "logs/parts" };
        good(await tool.call("create-multipart-upload", upload));
        for (const refused of [
          { Transitions: [{ Days: 1, StorageClass: "GLACIER" }] },
          { Filter: { ObjectSizeGreaterThan: 1 }, Expiration: { Days: 1 } },
          { Expiration: { ExpiredObjectDeleteMarker: true } },
        ]) {
          const Rules = [{ ID: "no", Filter: { Prefix: "" }, Status: "Enabled", ...refused }];
          const answer = await tool.call("put-bucket-lifecycle-configuration", {
            Bucket,
            LifecycleConfiguration: { Rules },
          });
          expect(answer).toEqual({ ok: false, code: "NotImplemented" });
        }
        await tool.close();
        await passed(Bucket, 32);
        tool = open();
        const keys = await eventually("what is due is gone", async () => {
          const listed = keysOf(await tool.call("list-objects-v2", { Bucket }));
          return !listed.includes("logs/a") && listed;
        });
        expect(keys).toEqual(["kept", "tmp/c"]);
        const uploads = await eventually("the upload is gone", async () => {
          const listed = good(await tool.call("list-multipart-uploads", { Bucket })).Uploads ?? [];
          return listed.length === 0 && "none";
        });
        expect(uploads).toBe("none");
        const { Versions = [] } = good(await tool.call("list-object-versions", { Bucket, Prefix: "logs/" }));
        expect(Versions.map(({ Key, IsLatest }) => [Key, IsLatest])).toEqual([
          ["logs/a", false],
          ["logs/b", false],
        ]);
        good(await tool.call("delete-bucket-lifecycle", { Bucket }));
        expect(await tool.call("get-bucket-lifecycle-configuration", { Bucket })).toMatchObject({
          ok: false,
        });
      } finally {
        await tool.close();
      }
    },
  );
});

describe("a branch whose database is full", () => {
  const bucket = "master.small";
  /** Small enough to be in the rows, and never the same. */
  const put = (n: number) => s3.ask("PUT", `/${bucket}/key-${n % 7}`, `${n}`.padEnd(4000, "x"));
  const usage = async () =>
    JSON.parse(await sluiceOk(server, "repo", "usage", "small", "--json")).repos[0].branches[0];

  test("says what to do, is told of, takes deletions alone, and gets going again by retention", {
    timeout: 180_000,
  }, async () => {
    await s3.createBucket(bucket);
    const empty = (await usage()).database;
    let puts = 0;
    for (let answer = await put(puts++); answer.status !== 400; answer = await put(puts++)) {
      expect(answer.status).toBe(200);
      expect(puts).toBeLessThan(2000);
    }
    const refused = await put(puts++);
    expect(refused.text).toContain("<Code>BranchFull</Code>");
    expect(refused.text).toContain("sluice branch keep");

    const full = await usage();
    expect(full.database.usedBytes).toBeGreaterThan(0.95 * full.database.limitBytes);
    expect(full.contents.live.count).toBe(7);
    expect(full.contents.history.count).toBeGreaterThan(300);
    expect(full.contents.holder).toMatchObject({ kind: "keep", versions: full.contents.history.count });
    const told = await sluice(server, "repo", "usage");
    expect(told.stderr).toContain(`the database of ${bucket} has`);
    expect(told.stdout.toString()).toContain(
      "the whole history, which is kept: 'sluice branch keep master.small",
    );
    const { findings } = JSON.parse((await sluice(server, "doctor", "--json")).stdout.toString());
    expect(findings).toContainEqual({
      check: "space",
      state: "warn",
      found: expect.stringContaining(`the branch ${bucket} is `),
      fix: expect.stringContaining(`sluice branch keep ${bucket}`),
    });

    await s3.delete(bucket, "key-0");
    expect((await put(puts++)).status).toBe(400);
    await sluiceOk(server, "branch", "keep", bucket, "--commits", "1");
    await eventually("it takes commits again", async () => (await put(puts++)).status === 200);
    const freed = await eventually("what nobody keeps is gone", async () => {
      const { contents, database } = await usage();
      return contents.history.count + contents.reclaimable.count < 10 && database;
    });
    // The seven files that are left are of 28 KB; an empty branch has a page for each of its tables.
    expect(freed.usedBytes - empty.usedBytes).toBeLessThan(0.03 * freed.limitBytes);
    expect((await sluice(server, "repo", "usage")).stderr).not.toContain(bucket);
  });
});
