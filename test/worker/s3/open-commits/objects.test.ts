import { expect, test } from "vitest";
import { failure, good, s3, xml } from "../support.ts";
import { commits, finish, keys, openAgain, openOn, text } from "./support.ts";

test("what is put and deleted is seen in the open commit, and in the branch only once it is finished", async () => {
  const { branch, bucket, ...open } = await openOn("seen");
  await good(`PUT ${branch}/kept`, { body: "kept" });
  await good(`PUT ${branch}/gone`, { body: "gone" });
  const put = await good(`PUT ${bucket}/new/file`, { body: "new", headers: { "x-amz-meta-who": "me" } });
  await good(`PUT ${bucket}/new/large`, { body: "x".repeat(10_000) });
  const deleted = await good(`DELETE ${bucket}/gone`);
  expect(deleted.status).toBe(204);
  for (const { headers } of [put, deleted]) {
    expect(headers.get("x-amz-version-id")).toBeNull();
    expect(headers.get("x-amz-delete-marker")).toBeNull();
  }
  expect(await keys(bucket)).toEqual(["kept", "new/file", "new/large"]);
  expect(await text(`${bucket}/gone`)).toBeUndefined();
  const head = await good(`HEAD ${bucket}/new/file`);
  expect(head.headers.get("x-amz-meta-who")).toBe("me");
  expect(head.headers.get("etag")).toBe(put.headers.get("etag"));
  expect(head.headers.get("x-amz-version-id")).toBeNull();
  expect(await keys(branch)).toEqual(["gone", "kept"]);

  const before = await commits(branch);
  const commit = await finish(open);
  expect(await keys(branch)).toEqual(["kept", "new/file", "new/large"]);
  expect(await commits(branch)).toBe(before + 1);
  const read = await good(`GET ${branch}/new/file`);
  expect([await read.text(), read.headers.get("x-amz-version-id")]).toEqual(["new", commit]);
});

test("listings of both versions fold, page and look as those of a branch do", async () => {
  const { branch, bucket } = await openOn("listed");
  await good(`PUT ${branch}/a/1`, { body: "1" });
  for (const key of ["a/2", "b", "c/1"]) await good(`PUT ${bucket}/${key}`, { body: key });
  const name = bucket.slice(1);
  const { ListBucketResult: folded } = await xml(good(`GET ${bucket}?delimiter=/`));
  expect(folded).toMatchObject({
    Name: name,
    Contents: [{ Key: "b" }],
    CommonPrefixes: [{ Prefix: "a/" }, { Prefix: "c/" }],
  });
  const { ListBucketResult: first } = await xml(good(`GET ${bucket}?list-type=2&max-keys=2`));
  expect(first).toMatchObject({ IsTruncated: "true", Contents: [{ Key: "a/1" }, { Key: "a/2" }] });
  const rest = `GET ${bucket}?list-type=2&continuation-token=${first.NextContinuationToken}`;
  expect((await xml(good(rest))).ListBucketResult).toMatchObject({
    IsTruncated: "false",
    Contents: [{ Key: "b" }, { Key: "c/1" }],
  });
  expect((await xml(good(`GET ${bucket}?max-keys=0`))).ListBucketResult.Contents).toBeUndefined();
});

test("many keys are deleted at once, without delete markers", async () => {
  const { branch, bucket, ...open } = await openOn("many-deleted");
  for (const key of ["a", "b", "c"]) await good(`PUT ${branch}/${key}`, { body: key });
  await good(`PUT ${bucket}/d`, { body: "d" });
  const body = "<Delete><Object><Key>a</Key></Object><Object><Key>d</Key></Object></Delete>";
  const { DeleteResult } = await xml(good(`POST ${bucket}?delete`, { body }));
  expect(DeleteResult.Deleted).toEqual([{ Key: "a" }, { Key: "d" }]);
  expect(await keys(bucket)).toEqual(["b", "c"]);
  await finish(open);
  expect(await keys(branch)).toEqual(["b", "c"]);
});

test("conditions are held against what the open commit shows", async () => {
  const { branch, bucket } = await openOn("conditions");
  await good(`PUT ${branch}/key`, { body: "there" });
  const put = (headers: Record<string, string>) => s3(`PUT ${bucket}/key`, { body: "x", headers });
  expect((await put({ "if-none-match": "*" })).status).toBe(412);
  await good(`DELETE ${bucket}/key`);
  expect((await put({ "if-match": "*" })).status).toBe(404);
  const { headers } = await put({ "if-none-match": "*" });
  expect((await put({ "if-match": headers.get("etag") ?? "" })).status).toBe(200);
  const known = { headers: { "if-none-match": headers.get("etag") ?? "" } };
  expect((await s3(`GET ${bucket}/key`, known)).status).toBe(304);
});

test("of two open commits that both found a key free, one gets it; the other is told and can still be aborted", async () => {
  const one = await openOn("contended");
  const two = await openAgain("contended");
  for (const { bucket } of [one, two]) {
    await good(`PUT ${bucket}/key`, { headers: { "if-none-match": "*" }, body: bucket });
  }
  await finish(one);
  const refused = await two.api.openCommits.finish({ openCommit: two.openCommit });
  expect(refused).toMatchObject({
    reason: "conditions-changed",
    changes: [{ path: "key", change: "added" }],
  });
  expect(await text(`${one.branch}/key`)).toBe(one.bucket);
  expect(await two.api.openCommits.abort({ openCommit: two.openCommit })).toEqual({ ok: true });
});

test("a range, attributes and tags are answered without versions", async () => {
  const { bucket } = await openOn("described");
  await good(`PUT ${bucket}/key`, { body: "0123456789" });
  const range = await good(`GET ${bucket}/key`, { headers: { range: "bytes=2-4" } });
  expect([range.status, await range.text()]).toEqual([206, "234"]);
  const asked = { headers: { "x-amz-object-attributes": "ObjectSize,ETag" } };
  const attributes = await good(`GET ${bucket}/key?attributes`, asked);
  expect(attributes.headers.get("x-amz-version-id")).toBeNull();
  expect((await xml(attributes)).GetObjectAttributesResponse.ObjectSize).toBe("10");
  const tags = await good(`GET ${bucket}/key?tagging`);
  expect(tags.headers.get("x-amz-version-id")).toBeNull();
});

test("two open commits of a branch do not see each other", async () => {
  const one = await openOn("two");
  const two = await openAgain("two");
  await good(`PUT ${one.bucket}/one`, { body: "1" });
  await good(`PUT ${two.bucket}/two`, { body: "2" });
  expect([await keys(one.bucket), await keys(two.bucket)]).toEqual([["one"], ["two"]]);
  await finish(one);
  expect(await keys(two.bucket)).toEqual(["one", "two"]);
});

test("a file and a directory of one name are refused, here or at the end, and the branch stays as it is", async () => {
  const { branch, bucket, api, openCommit } = await openOn("conflicts");
  await good(`PUT ${branch}/a`, { body: "a file" });
  const put = await s3(`PUT ${bucket}/a/b`, { body: "under it" });
  const ended = put.ok
    ? await api.openCommits.finish({ openCommit })
    : { ok: false, reason: "path-conflict" };
  expect(ended).toMatchObject({ ok: false, reason: "path-conflict" });
  expect(await keys(branch)).toEqual(["a"]);
});

test.each([
  ["DELETE", "", "DeleteBucket", "sluice commit abort"],
  ["GET", "?versions", "ListObjectVersions", "has no versions"],
  ["GET", "/key?versionId=x", "GetObject of a version", "has no versions"],
  ["HEAD", "/key?versionId=x", "HeadObject of a version", ""],
  ["DELETE", "/key?versionId=x", "DeleteObject of a version", "has no versions"],
  ["GET", "/key?tagging&versionId=x", "GetObjectTagging of a version", "has no versions"],
])("%s <bucket>%s (%s) is refused and says what to do", async (method, target, _name, fix) => {
  const { bucket } = await openAgain("described");
  const response = await s3(`${method} ${bucket}${target}`);
  expect(response.status).toBe(400);
  if (method === "HEAD") return;
  const { Code, Message } = await failure(response);
  expect([Code, Message]).toEqual(["InvalidRequest", expect.stringContaining(fix)]);
});
