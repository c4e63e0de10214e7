// @module-tag rest
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { BranchDetail } from "../../../protocol/repos.ts";
import { parseCliJson } from "../../support/cli-json.ts";
import { Control } from "../../support/control.ts";
import { type DevServer, sluice, sluiceOk, startDevServer, startRunner } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { S3 } from "../../support/s3.ts";
import { scratchFolder } from "../../support/scratch.ts";

const DEFAULTS = { keep: { commits: 1 }, emptyOnly: true };
const NOTHING = { keep: null, emptyOnly: false, lastModified: null };

let server: DevServer;
let s3: S3;
/** Versions of `a` in a bucket that is older than the settings, oldest first. */
const old: string[] = [];

beforeAll(async () => {
  server = await startDevServer();
  s3 = new S3(server);
  for (const bucket of ["master.old", "master.older"]) await s3.createBucket(bucket);
  for (const text of ["1", "2", "3"]) old.push((await s3.put("master.old", "a", text)).version);
  await s3.put("master.older", "a", "1");
  await server.kill9();
  await server.restart({ variables: { SLUICE_KEEP: "commits:1", SLUICE_DELETE: "empty-only" } });
});
afterAll(() => server?.stop());

const ok = (...args: string[]): Promise<string> => sluiceOk(server, ...args);

async function inspect(bucket: string): Promise<BranchDetail> {
  return BranchDetail.parse(parseCliJson(await ok("branch", "inspect", bucket, "--json")));
}

/** A bucket with versions of `a`, of which all but the newest are given back. */
async function trimmed(bucket: string): Promise<void> {
  await s3.createBucket(bucket);
  const { version } = await s3.put(bucket, "a", "1");
  await s3.put(bucket, "a", "2");
  await eventually("the first version was given back", async () => {
    await s3.put(bucket, "b", `${Math.random()}`);
    return (await s3.ask("GET", `/${bucket}/a?versionId=${version}`)).status === 404;
  });
}

describe("a gateway that is set to keep the newest commit, and to delete empty buckets alone", () => {
  test("takes no commit of a folder of before", async () => {
    old.push((await s3.put("master.old", "a", "4")).version);
    // Somebody may have lost what is not to be kept by the time that a new bucket has.
    await trimmed("master.new");
    expect(await inspect("master.new")).toMatchObject(DEFAULTS);
    expect(await inspect("master.old")).toMatchObject(NOTHING);
    for (const [index, version] of old.entries()) {
      const { status, text } = await s3.ask("GET", `/master.old/a?versionId=${version}`);
      expect([status, text]).toEqual([200, `${index + 1}`]);
    }
    expect((await s3.ask("DELETE", "/master.older")).status).toBe(204);
  });

  test("refuses DeleteBucket while the bucket has a file, and rb --force deletes it", async () => {
    await ok("mb", "s3://master.full");
    await s3.put("master.full", "a", "1");
    const refused = await s3.ask("DELETE", "/master.full");
    expect([refused.status, refused.text]).toEqual([409, expect.stringContaining("<Code>BucketNotEmpty<")]);
    expect(await sluice(server, "rb", "s3://master.full")).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("add --force"),
    });
    expect(await ok("rb", "--force", "s3://master.full")).toBe("removed s3://master.full\n");
    expect(await s3.buckets()).not.toContain("master.full");
    await ok("mb", "s3://master.full");
    expect(await ok("branch", "delete", "master.full")).toBe("removed s3://master.full\n");
  });

  test("sets nothing of forks, imports and outputs of pipelines", async () => {
    const control = new Control(server);
    const runner = startRunner(server, { node: "n1" });
    try {
      await s3.createBucket("master.texts");
      await control.createPipeline({
        pipeline: { name: "copies" },
        transform: {
          image: "busybox",
          cmd: ["sh", "-eu"],
          stdin: ["[ ! -e /pfs/texts/bad ]", "cp /pfs/texts/* /pfs/out/"],
        },
        inputs: [{ name: "texts", repo: { name: "texts" }, glob: "/*" }],
        onDatumFailure: "skip",
        datumTries: 1,
      });
      const folder = scratchFolder();
      for (const name of ["good", "bad"]) writeFileSync(join(folder, name), name);
      await ok("cp", "-r", folder, "s3://master.texts");
      expect((await control.ended("copies", { count: 1 })).at(-1)).toMatchObject({ state: "success" });
    } finally {
      await runner.stop();
    }
    await ok("branch", "create", "fork.texts", "--from", "master.texts");
    await ok("branch", "create", "empty.texts");
    const archive = join(scratchFolder(), "texts.tar");
    await ok("repo", "export", "texts", archive);
    expect(await sluice(server, "repo", "import", archive, "--as", "texts-again")).toMatchObject({
      ...{ code: 0, stderr: expect.stringContaining("kept only a part of its history, which is not set") },
    });
    expect(await inspect("master.texts")).toMatchObject(DEFAULTS);
    for (const bucket of ["master.copies", "errors.copies", "fork.texts", "empty.texts", "fork.texts-again"])
      expect([bucket, await inspect(bucket)]).toMatchObject([bucket, NOTHING]);
    // What an archive says is brought, but for what deletes by itself.
    expect(await inspect("master.texts-again")).toMatchObject({ ...NOTHING, emptyOnly: true });
  });
});

describe("one branch", () => {
  test("is set by branch empty-only, and branch inspect shows it", async () => {
    await ok("branch", "create", "master.switched");
    await s3.put("master.switched", "a", "1");
    expect(await ok("branch", "empty-only", "master.switched", "on")).toBe(
      "S3 tools delete s3://master.switched only while it is empty\n",
    );
    expect(await ok("branch", "inspect", "master.switched")).toMatch(/^empty-only +yes$/m);
    expect((await s3.ask("DELETE", "/master.switched")).status).toBe(409);
    expect(await ok("branch", "empty-only", "s3://master.switched", "off")).toBe(
      "S3 tools delete s3://master.switched with its files\n",
    );
    expect(await ok("branch", "inspect", "master.switched")).toMatch(/^empty-only +no$/m);
    expect((await s3.ask("DELETE", "/master.switched")).status).toBe(204);
  });

  test("is made by mb --plain as S3 tools expect a bucket, whatever the gateway says", async () => {
    expect(await ok("mb", "--plain", "s3://plain")).toBe("made s3://master.plain\n");
    expect(await inspect("master.plain")).toMatchObject({
      ...{ keep: { days: 1 }, emptyOnly: true, lastModified: "object" },
    });
    const again = await sluice(server, "mb", "--plain", "s3://plain");
    expect([again.code, again.stderr]).toEqual([1, expect.stringContaining("already")]);
    await s3.put("master.plain", "a", "1");
    expect((await s3.ask("DELETE", "/master.plain")).status).toBe(409);
    await s3.delete("master.plain", "a");
    expect((await s3.ask("DELETE", "/master.plain")).status).toBe(204);
  });
});
