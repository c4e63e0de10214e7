// @module-tag rest
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { FileErased } from "../../../protocol/files.ts";
import { good } from "../../support/clients/api-tool.ts";
import { awsApi, hasAws } from "../../support/clients/aws-api.ts";
import { hasRclone, rcloneRun } from "../../support/clients/rclone.ts";
import { type DevServer, sluice, sluiceOk, startDevServer } from "../../support/dev-server.ts";
import { S3 } from "../../support/s3.ts";

let server: DevServer;
let s3: S3;

beforeAll(async () => {
  server = await startDevServer();
  s3 = new S3(server);
});
afterAll(() => server?.stop());

describe.skipIf(!(await hasAws()))("aws s3api", () => {
  test("deletes a version as on S3: the one before is the newest again; a deleted marker brings the key back", async () => {
    const aws = awsApi(server);
    const call = (operation: string, parameters: object) => aws.call(operation, parameters);
    const Bucket = "master.versions";
    await s3.createBucket(Bucket);
    await s3.put(Bucket, "a", "one");
    await s3.put(Bucket, "a", "two");
    const versions = async () => good(await call("list-object-versions", { Bucket }));
    const [two, one] = (await versions()).Versions ?? [];
    const gone = good(await call("delete-object", { Bucket, Key: "a", VersionId: two?.VersionId }));
    expect(gone).toMatchObject({ VersionId: two?.VersionId });
    expect(String(await s3.get(Bucket, "a"))).toBe("one");
    expect((await versions()).Versions).toMatchObject([{ VersionId: one?.VersionId, IsLatest: true }]);
    const read = await call("head-object", { Bucket, Key: "a", VersionId: two?.VersionId });
    expect(read).toMatchObject({ ok: false, code: "404" });
    const marker = good(await call("delete-object", { Bucket, Key: "a" }));
    expect(await s3.get(Bucket, "a")).toBeUndefined();
    const back = good(await call("delete-object", { Bucket, Key: "a", VersionId: marker.VersionId }));
    expect(back).toMatchObject({ DeleteMarker: true });
    expect(String(await s3.get(Bucket, "a"))).toBe("one");
    const Objects = [{ Key: "a", VersionId: one?.VersionId }];
    good(await call("delete-objects", { Bucket, Delete: { Objects } }));
    const left = await versions();
    expect([left.Versions ?? [], left.DeleteMarkers ?? []]).toEqual([[], []]);
  });
});

describe.skipIf(!hasRclone())("rclone", () => {
  test("purges a bucket with all of its history", async () => {
    const Bucket = "master.purged";
    await s3.createBucket(Bucket);
    for (const text of ["one", "two"]) await s3.put(Bucket, "dir/a", text);
    await s3.put(Bucket, "b", randomBytes(9 * 1024 * 1024));
    await s3.delete(Bucket, "b");
    await rcloneRun(server, "purge", `it:${Bucket}`);
    expect((await s3.ask("HEAD", `/${Bucket}`)).status).toBe(404);
  });

  test("purges the versions of a folder, and leaves the others", async () => {
    const Bucket = "master.folders";
    await s3.createBucket(Bucket);
    for (const text of ["one", "two"]) await s3.put(Bucket, "dir/a", text);
    await s3.put(Bucket, "kept", "kept");
    await rcloneRun(server, "purge", `it:${Bucket}/dir`);
    const listed = (await s3.ask("GET", `/${Bucket}?versions`)).text;
    expect(listed).toContain("<Key>kept</Key>");
    expect(listed).not.toContain("dir/a");
  });
});

describe("sluice file erase", () => {
  test("erases all versions of a file, also from tags, and says what has the same bytes", async () => {
    const bucket = "master.people";
    const bytes = randomBytes(5 * 1024 * 1024);
    await s3.createBucket(bucket);
    await s3.put(bucket, "ada.bin", bytes);
    await s3.put(bucket, "ada.bin", "short");
    await sluiceOk(server, "tag", "create", "v1", bucket);
    await s3.put(bucket, "copy.txt", "short");
    const done = FileErased.parse(
      JSON.parse(
        await sluiceOk(server, "file", "erase", `s3://${bucket}/ada.bin`, "--all-versions", "--json"),
      ),
    );
    expect(done).toMatchObject({
      erased: [{ kind: "version" }, { kind: "version" }],
      forks: [],
      more: false,
    });
    expect(done.stays).toMatchObject([{ kind: "version", bucket, path: "copy.txt" }]);
    expect(await s3.keys(bucket)).toEqual(["copy.txt"]);
    expect(await s3.keys(`v1.${bucket}`)).toEqual([]);
  });

  test("stops at a copy in another branch, unless it is to go there too", async () => {
    const bucket = "master.forked";
    await s3.createBucket(bucket);
    await s3.put(bucket, "a", "one");
    await s3.put(bucket, "b", "two");
    await sluiceOk(server, "branch", "create", "fork.forked", "--from", bucket);
    const refused = await sluice(server, "file", "erase", `s3://${bucket}/a`);
    expect(refused).toMatchObject({ code: 1 });
    expect(refused.stderr).toContain("s3://fork.forked");
    expect(await s3.keys("fork.forked")).toEqual(["a", "b"]);
    const printed = await sluiceOk(server, "file", "erase", `s3://${bucket}/a`, "--forks");
    expect(printed).toContain("erased 1 version of s3://fork.forked/a");
    expect(await s3.keys("fork.forked")).toEqual(["b"]);
    expect(await s3.keys(bucket)).toEqual(["b"]);
  });

  test("refuses what names no version, and says what to do", async () => {
    const bucket = "master.words";
    await s3.createBucket(bucket);
    await s3.put(bucket, "a", "one");
    for (const [args, says] of [
      [["a", "--version-id", "01ARZ3NDEKTSV4RRFFQ69G5FAV"], "list-object-versions"],
      [["none"], "no version of 'none'"],
      [["a", "--version-id", "x", "--all-versions"], "give one of"],
    ] as const) {
      const [key, ...options] = args;
      const refused = await sluice(server, "file", "erase", `s3://${bucket}/${key}`, ...options);
      expect([refused.code === 0, refused.stderr]).toEqual([false, expect.stringContaining(says)]);
    }
    expect(await s3.keys(bucket)).toEqual(["a"]);
  });
});
