import { env } from "cloudflare:test";
import { createHash } from "node:crypto";
import { beforeAll, expect, test } from "vitest";
import type { BranchApi } from "../../../../worker/branch/contract/api.ts";
import { clientOf } from "../../../../worker/objects/facets.ts";
import { failure, good, s3, scopedKey, xml } from "../support.ts";

const BUCKET = "/master.deletions";
beforeAll(async () => {
  await good(`PUT ${BUCKET}`);
});

const put = (...keys: string[]): Promise<unknown> =>
  Promise.all(keys.map((key) => good(`PUT ${BUCKET}/${encodeURIComponent(key)}`, { body: key })));
const branch = clientOf<BranchApi>(env.BRANCH.getByName("master.deletions"));
const headCommit = async (): Promise<string | null> => {
  const status = await branch.lifecycle.status();
  return status.ok ? status.head : null;
};
const objects = (...keys: string[]): string =>
  keys.map((key) => `<Object><Key>${key}</Key></Object>`).join("");
const ask = (inner: string): Promise<Response> =>
  s3(`POST ${BUCKET}?delete`, {
    body: `<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${inner}</Delete>`,
  });

const keysIn = (tags: readonly { Key: string }[]): string[] => tags.map(({ Key }) => Key);

test("many keys go in one commit, and a missing one counts as deleted", async () => {
  await put("marker", "1", "a&b", "3");
  const before = await headCommit();
  const { DeleteResult } = await xml(ask(objects("1", "a&amp;b", "never-there")));
  expect(keysIn(DeleteResult.Deleted)).toEqual(["1", "a&b", "never-there"]);
  expect(DeleteResult.Error).toBeUndefined();
  expect((await s3(`HEAD ${BUCKET}/1`)).status).toBe(404);
  expect((await s3(`HEAD ${BUCKET}/3`)).status).toBe(200);
  const old = await s3(`HEAD ${BUCKET}/1?versionId=${before}`);
  expect(old.status).toBe(200);
  expect((await s3(`HEAD ${BUCKET}/${encodeURIComponent("a&b")}`)).status).toBe(404);
});

test("only missing keys make no commit", async () => {
  await put("marker");
  const before = await headCommit();
  expect((await ask(objects("missing-1", "missing-2"))).status).toBe(200);
  expect(await headCommit()).toBe(before);
});

test("Quiet leaves out what went well and keeps the errors", async () => {
  await put("quiet");
  const { DeleteResult } = await xml(ask(`<Quiet>true</Quiet>${objects("quiet", "bad//key")}`));
  expect(DeleteResult.Deleted).toBeUndefined();
  expect(DeleteResult.Error).toMatchObject({ Key: "bad//key", Code: "InvalidArgument" });
  expect((await s3(`HEAD ${BUCKET}/quiet`)).status).toBe(404);
});

test("a key that the tree cannot hold, or a version, is an error of its own", async () => {
  await put("kept", "goes");
  const version = "<Object><Key>kept</Key><VersionId></VersionId></Object>";
  const { DeleteResult } = await xml(
    ask(`${objects("goes", "../up", "x".repeat(1025)) + version}<Object><Key></Key></Object>`),
  );
  expect(keysIn(DeleteResult.Deleted)).toEqual(["goes"]);
  expect(DeleteResult.Error.map(({ Code }: { Code: string }) => Code)).toEqual([
    "InvalidArgument",
    "KeyTooLongError",
    "InvalidArgument",
    "InvalidArgument",
  ]);
  expect((await s3(`HEAD ${BUCKET}/kept`)).status).toBe(200);
});

test("an error of a version names it, whatever is wrong", async () => {
  const id = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
  const version = `<VersionId>${id}</VersionId>`;
  const asked = ["<Key>bad//key</Key>", "<Key>a</Key><ETag>b</ETag>", "<Key>a</Key><Size>1</Size>"];
  const { DeleteResult } = await xml(ask(asked.map((text) => `<Object>${text}${version}</Object>`).join("")));
  expect(DeleteResult.Error.map(({ VersionId }: { VersionId: string }) => VersionId)).toEqual([id, id, id]);
});

test("what is deleted names the commit as its delete marker; where there is no commit, none", async () => {
  await put("marked");
  const text = await (await ask(objects("marked"))).text();
  expect(text).toContain("<DeleteMarker>true</DeleteMarker>");
  const version = /<DeleteMarkerVersionId>(.+)<\/DeleteMarkerVersionId>/.exec(text)?.[1];
  expect((await failure(s3(`GET ${BUCKET}/marked?versionId=${version}`))).Code).toBe("MethodNotAllowed");
  expect(await (await ask(objects("marked"))).text()).not.toContain("DeleteMarker");
});

const version = (key: string, id: string | null): string =>
  `<Object><Key>${key}</Key><VersionId>${id}</VersionId></Object>`;

test("versions are erased, each answered by itself, and keys beside them deleted, all in one step", async () => {
  const put = async (key: string, body: string) =>
    (await good(`PUT ${BUCKET}/${key}`, { body })).headers.get("x-amz-version-id");
  const [one, two] = [await put("v1", "1"), await put("v1", "2")];
  const only = await put("v2", "1");
  await put("plain", "1");
  const marker = (await s3(`DELETE ${BUCKET}/v2`)).headers.get("x-amz-version-id");
  const body = version("v1", two) + version("v2", only) + version("v2", marker) + version("v1", "none");
  const { DeleteResult } = await xml(ask(body + objects("plain")));
  expect(DeleteResult.Error).toBeUndefined();
  const said = DeleteResult.Deleted.map((each: Record<string, unknown>) => [
    each.Key,
    each.VersionId,
    each.DeleteMarkerVersionId,
  ]);
  expect(said).toEqual([
    ["plain", undefined, expect.any(String)],
    ["v1", two, undefined],
    ["v2", only, undefined],
    ["v2", marker, marker],
    ["v1", "none", undefined],
  ]);
  expect((await good(`HEAD ${BUCKET}/v1`)).headers.get("x-amz-version-id")).toBe(one);
  const listed = await (await good(`GET ${BUCKET}?versions&prefix=v2`)).text();
  expect(listed).not.toContain("<Version>");
  expect(listed).not.toContain("<DeleteMarker>");
  expect((await s3(`HEAD ${BUCKET}/plain`)).status).toBe(404);
});

test("an error tells which version it is about: a key that may only write erases none, and deletes", async () => {
  const id = (await good(`PUT ${BUCKET}/mine`, { body: "1" })).headers.get("x-amz-version-id");
  await put("goes-too");
  const key = scopedKey({ level: "write", repos: null });
  const body = `<Delete>${version("mine", id)}${objects("goes-too")}</Delete>`;
  const { DeleteResult } = await xml(s3(`POST ${BUCKET}?delete`, { body, key }));
  expect(DeleteResult.Error).toMatchObject({ Key: "mine", VersionId: id, Code: "AccessDenied" });
  expect((await s3(`HEAD ${BUCKET}/mine`)).status).toBe(200);
  expect((await s3(`HEAD ${BUCKET}/goes-too`)).status).toBe(404);
});

test("an ETag lets only that content go, and keeps no other key back", async () => {
  await put("marker", "same", "changed", "free");
  const etag = (await good(`HEAD ${BUCKET}/same`)).headers.get("etag") ?? "";
  const withTag = (key: string, tag: string): string =>
    `<Object><Key>${key}</Key><ETag>${tag.replaceAll('"', "&quot;")}</ETag></Object>`;
  const { DeleteResult } = await xml(
    ask(
      withTag("same", etag) +
        withTag("changed", etag) +
        withTag("free", "*") +
        withTag("not-there", etag) +
        withTag("marker", "d41d8cd98f00b204e9800998ecf8427e"),
    ),
  );
  expect(keysIn(DeleteResult.Deleted)).toEqual(["same", "free"]);
  expect(DeleteResult.Error.map((error: { Key: string; Code: string }) => [error.Key, error.Code])).toEqual([
    ["changed", "PreconditionFailed"],
    ["not-there", "NoSuchKey"],
    ["marker", "PreconditionFailed"],
  ]);
  expect((await s3(`HEAD ${BUCKET}/changed`)).status).toBe(200);
  expect((await s3(`HEAD ${BUCKET}/same`)).status).toBe(404);
});

test("only conditions that do not hold make no commit", async () => {
  await put("marker");
  const before = await headCommit();
  expect((await ask("<Object><Key>marker</Key><ETag>other</ETag></Object>")).status).toBe(200);
  expect(await headCommit()).toBe(before);
});

test("a key that is named twice is deleted once and answered twice", async () => {
  await put("twice");
  const { DeleteResult } = await xml(ask(objects("twice", "twice")));
  expect(keysIn(DeleteResult.Deleted)).toEqual(["twice", "twice"]);
});

test("conditions that S3 has for directory buckets only are an error of their own", async () => {
  await put("sized");
  const { DeleteResult } = await xml(ask("<Object><Key>sized</Key><Size>5</Size></Object>"));
  expect(DeleteResult.Error).toMatchObject({ Key: "sized", Code: "NotImplemented" });
  expect((await s3(`HEAD ${BUCKET}/sized`)).status).toBe(200);
});

test("a bucket that is not there is told before its keys", async () => {
  const body = `<Delete>${objects("bad//key")}</Delete>`;
  expect((await failure(s3("POST /master.nowhere?delete", { body }))).Code).toBe("NoSuchBucket");
});

test("a thousand keys are taken and one more is not", async () => {
  const keys = Array.from({ length: 1001 }, (_, i) => `k${i}`);
  expect((await ask(objects(...keys.slice(1)))).status).toBe(200);
  expect(await failure(ask(objects(...keys)))).toMatchObject({ status: 400, Code: "MalformedXML" });
});

test.each([
  ["no XML", "hello"],
  ["an empty body", ""],
  ["another root", "<Remove/>"],
  ["no Object", "<Delete></Delete>"],
  ["an Object without a Key", "<Delete><Object></Object></Delete>"],
  ["an Object with two Keys", "<Delete><Object><Key>a</Key><Key>b</Key></Object></Delete>"],
  ["a Quiet that is neither true nor false", `<Delete><Quiet>maybe</Quiet>${objects("a")}</Delete>`],
  ["a tag that is not known", `<Delete><Loud/>${objects("a")}</Delete>`],
  ["an entity that it defines", `<!DOCTYPE D [<!ENTITY k "kept">]><Delete>${objects("&k;")}</Delete>`],
])("%s is MalformedXML", async (_what, body) => {
  expect(await failure(s3(`POST ${BUCKET}?delete`, { body }))).toMatchObject({
    status: 400,
    Code: "MalformedXML",
  });
});

test("a body that is too large is refused", async () => {
  const body = `<Delete>${" ".repeat(2 * 1024 * 1024)}</Delete>`;
  const refused = { status: 400, Code: "MaxMessageLengthExceeded" };
  expect(await failure(s3(`POST ${BUCKET}?delete`, { body }))).toMatchObject(refused);
  const stream = new Blob([body]).stream();
  expect(await failure(s3(`POST ${BUCKET}?delete`, { body: stream }))).toMatchObject(refused);
});

test("a body that is not what its hashes say deletes nothing", async () => {
  await put("hashed");
  const body = `<Delete>${objects("hashed")}</Delete>`;
  const other = createHash("md5").update(new TextEncoder().encode("other")).digest();
  const md5 = { "content-md5": btoa(String.fromCharCode(...other)) };
  expect((await failure(s3(`POST ${BUCKET}?delete`, { body, headers: md5 }))).Code).toBe("BadDigest");
  const sha = { "x-amz-content-sha256": "0".repeat(64) };
  expect((await failure(s3(`POST ${BUCKET}?delete`, { body, headers: sha }))).Code).toBe(
    "XAmzContentSHA256Mismatch",
  );
  expect((await s3(`HEAD ${BUCKET}/hashed`)).status).toBe(200);
});
