import { expect, test } from "vitest";
import { begin, bytes, complete, completed, part, SMALLEST } from "../multipart/support.ts";
import { failure, good, s3, xml } from "../support.ts";
import { commits, finish, keys, openAgain, openOn, text } from "./support.ts";

test("an upload in parts goes into the open commit, and is published with it as one commit", async () => {
  const { branch, bucket, ...open } = await openOn("parts");
  await good(`PUT ${bucket}/small`, { body: "small" });
  const upload = await begin(`${bucket}/large`);
  const [head, tail] = [bytes(SMALLEST, 1), bytes(1000, 2)];
  const parts = [await part(upload, 1, head), await part(upload, 2, tail)];
  const listed = (await xml(good(`GET ${upload.target}`))).ListPartsResult;
  expect(listed).toMatchObject({ Bucket: bucket.slice(1), Part: [{ PartNumber: "1" }, { PartNumber: "2" }] });
  const response = await complete(upload, parts);
  expect(response.headers.get("x-amz-version-id")).toBeNull();
  const { ETag } = await completed(response);
  expect([await keys(branch), await keys(bucket)]).toEqual([[], ["large", "small"]]);

  const commit = await finish(open);
  const read = await good(`GET ${branch}/large`);
  expect([read.headers.get("etag"), read.headers.get("x-amz-version-id")]).toEqual([ETag, commit]);
  const whole = new Uint8Array(await read.arrayBuffer());
  expect([whole.length, whole[0], whole[SMALLEST]]).toEqual([SMALLEST + 1000, head[0], tail[0]]);
  expect(await commits(branch)).toBe(1);
});

test("uploads in progress are those of the bucket that they were begun in", async () => {
  const { branch, bucket } = await openOn("in-progress");
  const other = await openAgain("in-progress");
  const mine = await begin(`${bucket}/mine`);
  const theirs = await begin(`${branch}/theirs`);
  const listed = async (place: string): Promise<string[]> => {
    const { ListMultipartUploadsResult } = await xml(good(`GET ${place}?uploads`));
    return (ListMultipartUploadsResult.Upload ?? []).map(({ Key }: { Key: string }) => Key);
  };
  expect(await listed(bucket)).toEqual(["mine"]);
  expect(await listed(branch)).toEqual(["theirs"]);
  expect(await listed(other.bucket)).toEqual([]);
  for (const [id, place] of [
    [mine.id, `${branch}/mine`],
    [mine.id, `${other.bucket}/mine`],
    [theirs.id, `${bucket}/theirs`],
  ]) {
    for (const line of [`GET ${place}?uploadId=${id}`, `DELETE ${place}?uploadId=${id}`]) {
      expect(await failure(s3(line))).toMatchObject({ status: 404, Code: "NoSuchUpload" });
    }
    const put = s3(`PUT ${place}?uploadId=${id}&partNumber=1`, { body: "x" });
    expect(await failure(put)).toMatchObject({ status: 404, Code: "NoSuchUpload" });
  }
});

test("an aborted upload leaves nothing in the open commit", async () => {
  const { bucket, ...open } = await openOn("given-up");
  const upload = await begin(`${bucket}/key`);
  await part(upload, 1, "part");
  expect((await s3(`DELETE ${upload.target}`)).status).toBe(204);
  expect(await keys(bucket)).toEqual([]);
  expect(await finish(open)).toBeNull();
});

test("an upload cannot be completed once its open commit has ended", async () => {
  const { branch, bucket, api, openCommit } = await openOn("too-late");
  const upload = await begin(`${bucket}/key`);
  const parts = [await part(upload, 1, "part")];
  await api.openCommits.abort({ openCommit });
  expect((await complete(upload, parts)).status).toBe(404);
  expect(await keys(branch)).toEqual([]);
});

test("copies come from the branch, from another branch and from the open commit itself", async () => {
  const { branch, bucket, ...open } = await openOn("copied");
  await good("PUT /master.copy-source");
  await good("PUT /master.copy-source/far", { body: "far".repeat(3000) });
  const near = await good(`PUT ${branch}/near`, { body: "near" });
  await good(`PUT ${bucket}/staged`, { body: "staged" });
  const copy = async (source: string, key: string): Promise<Headers> => {
    const headers = { "x-amz-copy-source": source };
    const copied = await good(`PUT ${bucket}/${key}`, { headers });
    expect(copied.headers.get("x-amz-version-id")).toBeNull();
    return copied.headers;
  };
  const version = near.headers.get("x-amz-version-id");
  expect((await copy(`${branch}/near`, "a")).get("x-amz-copy-source-version-id")).toBe(version);
  await copy("/master.copy-source/far", "b");
  expect((await copy(`${bucket}/staged`, "c")).get("x-amz-copy-source-version-id")).toBeNull();
  expect(await keys(branch)).toEqual(["near"]);
  await finish(open);
  expect(await Promise.all(["a", "b", "c"].map((key) => text(`${branch}/${key}`)))).toEqual([
    "near",
    "far".repeat(3000),
    "staged",
  ]);
});

test("a copy of a file of the branch onto its own key in the open commit is no copy onto itself", async () => {
  const { branch, bucket } = await openOn("onto-itself");
  await good(`PUT ${branch}/key`, { body: "one" });
  await good(`PUT ${bucket}/key`, { body: "two" });
  await good(`PUT ${bucket}/key`, { headers: { "x-amz-copy-source": `${branch}/key` } });
  expect(await text(`${bucket}/key`)).toBe("one");
  const itself = s3(`PUT ${bucket}/key`, { headers: { "x-amz-copy-source": `${bucket}/key` } });
  expect(await failure(itself)).toMatchObject({ status: 400, Code: "InvalidRequest" });
});

test("a part is a copy of what the open commit holds", async () => {
  const { bucket, branch, ...open } = await openOn("part-copied");
  await good(`PUT ${bucket}/source`, { body: "0123456789" });
  const upload = await begin(`${bucket}/made`);
  const headers = { "x-amz-copy-source": `${bucket}/source`, "x-amz-copy-source-range": "bytes=2-5" };
  const copied = await xml(good(`PUT ${upload.target}&partNumber=1`, { headers }));
  await completed(complete(upload, [{ number: 1, etag: copied.CopyPartResult.ETag }]));
  await finish(open);
  expect(await text(`${branch}/made`)).toBe("2345");
});

test("a copy out of the open commit into its branch is a commit of its own", async () => {
  const { branch, bucket, ...open } = await openOn("copied-out");
  await good(`PUT ${bucket}/staged`, { body: "staged" });
  await good(`PUT ${branch}/early`, { headers: { "x-amz-copy-source": `${bucket}/staged` } });
  expect(await keys(branch)).toEqual(["early"]);
  await open.api.openCommits.abort({ openCommit: open.openCommit });
  expect(await text(`${branch}/early`)).toBe("staged");
});

test("a version of an open commit cannot be copied", async () => {
  const { bucket } = await openAgain("copied");
  const headers = { "x-amz-copy-source": `${bucket}/staged?versionId=x` };
  const refused = await failure(s3(`PUT ${bucket}/copy`, { headers }));
  expect(refused).toMatchObject({ status: 400, Code: "InvalidRequest" });
  expect(refused.Message).toContain("no versions");
});
