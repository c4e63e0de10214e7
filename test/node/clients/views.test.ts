// @module-tag rest
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { BranchList } from "../../../protocol/repos.ts";
import type { Sdk } from "../../support/clients/api-tool.ts";
import { awsApi, hasAws } from "../../support/clients/aws-api.ts";
import { boto3, hasBoto3 } from "../../support/clients/boto3.ts";
import { hasCurl, signingCurl } from "../../support/clients/curl.ts";
import { duckdb, hasDuckdb } from "../../support/clients/duckdb.ts";
import { hasRclone, rclone } from "../../support/clients/rclone.ts";
import { CLIENTS } from "../../support/clients/roster.ts";
import { hasS3fs, mountS3fs } from "../../support/clients/s3fs.ts";
import { readFolder } from "../../support/clients/samples.ts";
import { Control } from "../../support/control.ts";
import { type DevServer, sluice, startDevServer } from "../../support/dev-server.ts";
import { type Ended, mustRun } from "../../support/processes.ts";
import { S3 } from "../../support/s3.ts";
import { removeScratch, scratchFolder } from "../../support/scratch.ts";

const HAS = {
  aws: await hasAws(),
  boto3: await hasBoto3(),
  curl: await hasCurl(),
  duckdb: await hasDuckdb(),
  rclone: hasRclone(),
  s3fs: hasS3fs(),
};
const TEST = { timeout: 180_000 };

/** What the branch of a test held first, and what it holds now. */
const BEFORE = { "a.txt": "first\n", "dir/b.txt": "b\n", "dir/sub/c.txt": "c\n" };
const NOW = { "a.txt": "second\n", "dir/b.txt": "b\n", "new.txt": "new\n" };

let server: DevServer;
let s3: S3;
const scratch = scratchFolder();

beforeAll(async () => {
  server = await startDevServer({ variables: { SLUICE_DOMAIN: "s3.test" } });
  s3 = new S3(server);
});
afterAll(async () => {
  await server?.stop();
  removeScratch(scratch);
});

interface Past {
  readonly repo: string;
  readonly branch: string;
  /** The commit, and its bucket in lower case. */
  readonly commit: string;
  readonly bucket: string;
  /** The bucket of the tag `v1`, which names it. */
  readonly tag: string;
}

let repos = 0;

async function past(name: string): Promise<Past> {
  const repo = `${name}-${++repos}`;
  const branch = `master.${repo}`;
  await s3.createBucket(branch);
  let commit = "";
  for (const [key, body] of Object.entries(BEFORE)) commit = (await s3.put(branch, key, body)).version;
  await s3.delete(branch, "dir/sub/c.txt");
  for (const [key, body] of Object.entries(NOW)) await s3.put(branch, key, body);
  const set = await new Control(server).ask("PUT", `/repos/${repo}/branches/master/tags/v1`, { commit });
  expect(set.status).toBe(201);
  return { repo, branch, commit, bucket: `${commit.toLowerCase()}.${branch}`, tag: `v1.${branch}` };
}

function cli(...args: string[]): Promise<Ended> {
  return sluice(server, ...args);
}

async function ok(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await cli(...args);
  expect([args, code, stderr]).toEqual([args, 0, ""]);
  return stdout.toString();
}

describe("every client", () => {
  for (const { name, here, open } of CLIENTS) {
    test.skipIf(!here)(
      `${name} lists, reads and copies from the bucket of a commit and of a tag, and by a repo's name alone`,
      TEST,
      async () => {
        const { repo, branch, bucket, tag } = await past(name.toLowerCase().replaceAll(/\W/g, "-"));
        const client = open(server);
        try {
          for (const [place, files] of [
            [bucket, BEFORE],
            [tag, BEFORE],
            [repo, NOW],
          ] as const) {
            const keys = await client.list({ bucket: place, prefix: "" });
            expect([place, [...keys].sort()]).toEqual([place, Object.keys(files).sort()]);
            const { folders } = await client.browse({ bucket: place, prefix: "" });
            expect(folders).toEqual(["dir/"]);
            const received = join(scratch, `${place}.received`);
            await client.get({ bucket: place, key: "a.txt" }, received);
            expect(readFileSync(received, "utf8")).toBe(files["a.txt"]);
          }
          await client.copy({ bucket, key: "a.txt" }, { bucket: repo, key: "back.txt" });
          expect((await s3.get(branch, "back.txt"))?.toString()).toBe(BEFORE["a.txt"]);
          const file = join(scratch, "refused.txt");
          writeFileSync(file, "refused");
          for (const place of [bucket, tag]) {
            await expect(client.put(file, { bucket: place, key: "x" })).rejects.toThrow();
          }
          await client.put(file, { bucket: repo, key: "put.txt" });
          expect((await s3.get(branch, "put.txt"))?.toString()).toBe("refused");
        } finally {
          await client.close?.();
        }
      },
    );
  }
});

test.skipIf(!HAS.rclone)(
  "rclone copies and syncs from the bucket of a commit, and finds it unchanged",
  TEST,
  async () => {
    const { bucket, tag } = await past("rclone-sync");
    const client = rclone(server);
    const folder = join(scratch, "rclone");
    mkdirSync(folder);
    writeFileSync(join(folder, "other"), "goes");
    await client.syncDown?.({ bucket, prefix: "" }, folder);
    expect(Object.keys(readFolder(folder))).toEqual(Object.keys(BEFORE));
    await client.syncDown?.({ bucket: tag, prefix: "" }, folder);
    await client.getFolder?.({ bucket, prefix: "dir/" }, join(scratch, "rclone-dir"));
    expect(Object.keys(readFolder(join(scratch, "rclone-dir")))).toEqual(["b.txt", "sub/c.txt"]);
    await expect(client.syncUp?.(folder, { bucket, prefix: "x/" })).rejects.toThrow(/MethodNotAllowed|405/);
  },
);

test.skipIf(!HAS.aws)("aws s3api hears 405 MethodNotAllowed of what writes to the past", TEST, async () => {
  const { bucket, tag } = await past("aws");
  const api = awsApi(server);
  for (const Bucket of [bucket, tag]) {
    const refused = [
      await api.call("put-object", { Bucket, Key: "x" }, Buffer.from("x")),
      await api.call("delete-object", { Bucket, Key: "a.txt" }),
      await api.call("delete-objects", { Bucket, Delete: { Objects: [{ Key: "a.txt" }] } }),
      await api.call("create-multipart-upload", { Bucket, Key: "x" }),
      await api.call("list-multipart-uploads", { Bucket }),
      await api.call("delete-bucket", { Bucket }),
    ];
    expect(refused).toEqual(refused.map(() => ({ ok: false, code: "MethodNotAllowed" })));
    const attributes = await api.call("get-object-attributes", {
      Bucket,
      Key: "a.txt",
      ObjectAttributes: "ObjectSize",
    });
    expect(attributes).toMatchObject({ ok: true, output: { ObjectSize: 6 } });
  }
});

describe("boto3", () => {
  let sdk: Sdk;
  beforeAll(() => {
    if (HAS.boto3) sdk = boto3(server);
  });
  afterAll(() => sdk?.close());

  test.skipIf(!HAS.boto3)(
    "walks, looks, reads ranges and links in the bucket of a commit",
    TEST,
    async () => {
      const { bucket: Bucket } = await past("boto3");
      const walked = await sdk.walk("list-objects-v2", { Bucket }, 1);
      expect(walked.ok && walked.output.Contents?.map(({ Key }) => Key)).toEqual(Object.keys(BEFORE));
      const head = await sdk.call("head-object", { Bucket, Key: "a.txt" });
      expect(head).toMatchObject({ ok: true, output: { ContentLength: 6 } });
      expect(head.ok && head.output.VersionId).toBeFalsy();
      const range = await sdk.call("get-object", { Bucket, Key: "a.txt", Range: "bytes=0-2" });
      expect(range.ok && range.bytes.toString()).toBe("fir");
      const link = await sdk.presign("get-object", { bucket: Bucket, key: "dir/sub/c.txt" });
      expect(await (await fetch(link)).text()).toBe("c\n");
    },
  );
});

test.skipIf(!HAS.duckdb)(
  "DuckDB reads a table as it was at a commit and at a tag, beside what it is now",
  TEST,
  async () => {
    const branch = "master.events";
    await s3.createBucket(branch);
    const make = (path: string, rows: string) =>
      duckdb(
        server,
        `COPY (SELECT * FROM (VALUES ${rows}) AS t(id, name)) TO 's3://${path}' (FORMAT parquet)`,
      );
    await make("events/day=1/part.parquet", "(1, 'one'), (2, 'two')");
    const { version } = await s3.put(branch, "note.txt", "between");
    await make("master.events/day=2/part.parquet", "(3, 'three')");
    await make("master.events/day=1/part.parquet", "(1, 'changed')");
    const tagged = await new Control(server).ask("PUT", "/repos/events/branches/master/tags/v1", {
      commit: version,
    });
    expect(tagged.status).toBe(201);
    const read = (bucket: string): Promise<unknown[][]> =>
      duckdb(
        server,
        `SELECT id, name, day FROM read_parquet('s3://${bucket}/*/*.parquet', hive_partitioning = true) ORDER BY id`,
      );
    const before = [
      [1, "one", 1],
      [2, "two", 1],
    ];
    for (const bucket of [`${version.toLowerCase()}.${branch}`, `v1.${branch}`]) {
      expect(await read(bucket)).toEqual(before);
    }
    expect(await read("events")).toEqual([
      [1, "changed", 1],
      [3, "three", 2],
    ]);
    await expect(make(`v1.${branch}/x.parquet`, "(1, 'x')")).rejects.toThrow(/405|not allowed/i);
  },
);

test.skipIf(!HAS.s3fs)("s3fs mounts the bucket of a commit, and writes nothing there", TEST, async () => {
  const { bucket } = await past("s3fs");
  const mounted = await mountS3fs(server, bucket);
  try {
    // In a process of its own: a file system that hangs then does not hang the test.
    const sh = (script: string): Promise<string> => mustRun(["sh", "-euc", script], { cwd: mounted.folder });
    expect(await sh("find . -type f | sort; cat a.txt dir/sub/c.txt")).toBe(
      "./a.txt\n./dir/b.txt\n./dir/sub/c.txt\nfirst\nc\n",
    );
    // It writes when the file is closed, which the shell does not ask about: to wait for the disk is to hear of it.
    await expect(sh("dd if=/dev/zero of=x.bin bs=1 count=1 conv=fsync")).rejects.toThrow();
  } finally {
    await mounted.unmount();
  }
  expect(await s3.keys(bucket)).toEqual(Object.keys(BEFORE));
});

test.skipIf(!HAS.curl)(
  "hosts of one label reach a repo, its branches, a commit and a tag",
  TEST,
  async () => {
    const { repo, bucket, tag } = await past("host");
    const curl = signingCurl(server);
    const { port } = new URL(server.endpoint);
    const read = (label: string, path: string): Promise<string> =>
      curl("--resolve", `${label}.s3.test:${port}:127.0.0.1`, `http://${label}.s3.test:${port}${path}`);
    expect(await read(repo, "/a.txt")).toBe(NOW["a.txt"]);
    expect(await read(`master--${repo}`, "/a.txt")).toBe(NOW["a.txt"]);
    for (const label of [bucket, tag].map((name) => name.replaceAll(".", "--"))) {
      expect(await read(label, "/a.txt")).toBe(BEFORE["a.txt"]);
      expect(await read(label, "/?list-type=2")).toContain("<Key>dir/sub/c.txt</Key>");
    }
    await expect(read(`xn--${repo}`, "/a.txt")).rejects.toThrow("400");
  },
);

describe("sluice", () => {
  test(
    "lists, copies and prints from the bucket of a commit and of a tag, and by a repo's name alone",
    TEST,
    async () => {
      const { repo, commit, branch, bucket, tag } = await past("cli");
      for (const [place, files] of [
        [bucket, BEFORE],
        [bucket.replace(commit.toLowerCase(), commit), BEFORE],
        [tag, BEFORE],
        [repo, NOW],
      ] as const) {
        const listed = (await ok("ls", "-r", `s3://${place}`, "--json")).trim().split("\n");
        expect(listed.map((line) => JSON.parse(line).path)).toEqual(Object.keys(files));
        expect(await ok("cat", `s3://${place}/a.txt`)).toBe(files["a.txt"]);
        const folder = join(scratch, `cli-${place}`);
        await ok("cp", "-r", `s3://${place}`, folder);
        expect(Object.keys(readFolder(folder))).toEqual(Object.keys(files));
      }
      const file = join(scratch, "cli.txt");
      writeFileSync(file, "from here");
      await ok("cp", file, `s3://${repo}/put.txt`);
      expect((await s3.get(branch, "put.txt"))?.toString()).toBe("from here");
      await ok("rm", `s3://${repo}/put.txt`);
      expect(JSON.parse(await ok("commit", "list", repo, "--json")).commits[0].id).not.toBe(commit);
    },
  );

  test.each([
    [["cp", "FILE", "s3://v1.BRANCH/x"], 2, "is a tag, which is read-only"],
    [["rm", "s3://v1.BRANCH/a.txt"], 2, "is a tag, which is read-only"],
    [["cp", "FILE", "s3://COMMIT.BRANCH/x"], 7, "there is no such open commit"],
    [["rm", "s3://COMMIT.BRANCH/a.txt"], 1, "shows one commit of the branch"],
    [["mb", "s3://v2.BRANCH"], 2, "is a tag and no bucket of its own"],
    [["rb", "s3://COMMIT.BRANCH"], 2, "is an open commit or a commit and no bucket"],
    [["commit", "list", "v1.BRANCH"], 2, "is a tag, which has no history"],
    [["tag", "create", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "BRANCH"], 2, "must not be a ULID"],
    [["tag", "create", "a.b", "BRANCH"], 2, "must start with a letter or digit"],
    [["tag", "create", "v2", "BRANCH@no such"], 2, "must be the id of a commit, or a tag"],
    [["tag", "create", "v2", "BRANCH@nothing"], 7, "has no commit and no tag 'nothing'"],
    [["tag", "create", "v1", "BRANCH"], 1, "--force"],
    [["tag", "delete", "v9", "BRANCH"], 7, "has no tag 'v9'"],
  ])("refuses %j with %d and says why", TEST, async (words, code, says) => {
    const { branch, bucket } = await past("cli-refused");
    const file = join(scratch, "refused.txt");
    writeFileSync(file, "x");
    const args = words.map((word) =>
      word.replace("COMMIT.BRANCH", bucket).replace("BRANCH", branch).replace("FILE", file),
    );
    const ended = await cli(...args);
    expect([ended.code, ended.stderr]).toEqual([code, expect.stringContaining(says)]);
  });

  test("makes, moves, lists and deletes tags", TEST, async () => {
    const { repo, branch, commit } = await past("cli-tags");
    expect(await ok("tag", "create", "again", `${branch}@${commit.toLowerCase()}`)).toBe(
      `s3://again.${branch} is commit ${commit}\n`,
    );
    const latest = JSON.parse(await ok("tag", "create", "latest", `s3://${repo}`, "--json"));
    expect(latest).toMatchObject({ change: "made", bucket: `latest.${branch}` });
    expect(await ok("tag", "create", "--force", "v1", `${branch}@latest`)).toContain(
      `is now commit ${latest.commit}`,
    );
    const { tags } = JSON.parse(await ok("tag", "list", repo, "--json"));
    expect(tags.map(({ name, commit: id }: { name: string; commit: string }) => [name, id])).toEqual([
      ["again", commit],
      ["latest", latest.commit],
      ["v1", latest.commit],
    ]);
    expect(await ok("tag", "list", branch)).toContain(`s3://v1.${branch}`);
    expect(await ok("tag", "delete", "v1", branch)).toBe("deleted v1\n");
    expect(JSON.parse(await ok("tag", "list", repo, "--json")).tags).toHaveLength(2);
  });

  test(
    "mb makes the branch master of a repo's name alone, and says if no host reaches the bucket",
    TEST,
    async () => {
      const made = await cli("mb", "s3://mb-plain");
      expect([made.stdout.toString(), made.stderr]).toEqual(["made s3://master.mb-plain\n", ""]);
      const { branches } = await new Control(server).call("GET", "/repos/mb-plain/branches", {
        answers: BranchList,
      });
      expect(branches.map(({ name }) => name)).toEqual(["master"]);
      const other = await cli("mb", "s3://dev.mb_other");
      expect([other.code, other.stderr]).toEqual([0, expect.stringContaining("no host reaches")]);
      expect(JSON.parse(await ok("mb", "s3://dev.mb-json", "--json"))).toEqual({
        bucket: "dev.mb-json",
        hostLabel: "dev--mb-json",
      });
      await ok("mb", "s3://api");
      expect(await ok("ls", "s3://api")).toBe("");
      await ok("rb", "s3://api");
    },
  );
});
