import { createHash } from "node:crypto";
import { beforeAll, expect, test } from "vitest";
import { failure, good, s3, xml } from "../support.ts";

const BUCKET = "/master.deletions";
beforeAll(async () => {
  await good(`PUT ${BUCKET}`);
});

const put = (...keys: string[]): Promise<unknown> =>
  Promise.all(keys.map((key) => good(`PUT ${BUCKET}/${encodeURIComponent(key)}`, { body: key })));
const headCommit = async (): Promise<string | null> =>
  (await good(`GET ${BUCKET}/marker`)).headers.get("x-amz-version-id");
const objects = (...keys: string[]): string =>
  keys.map((key) => `<Object><Key>${key}</Key></Object>`).join("");
const ask = (inner: string): Promise<Response> =>
  s3(`POST ${BUCKET}?delete`, {
    body: `<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${inner}</Delete>`,
  });

test("many keys go in one commit, and a missing one counts as deleted", async () => {
  await put("marker", "1", "a&b", "3");
  const before = await headCommit();
  const { DeleteResult } = await xml(ask(objects("1", "a&amp;b", "never-there")));
  expect(DeleteResult.Deleted).toEqual([{ Key: "1" }, { Key: "a&b" }, { Key: "never-there" }]);
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
  const version = "<Object><Key>kept</Key><VersionId>x</VersionId></Object>";
  const { DeleteResult } = await xml(
    ask(`${objects("goes", "../up", "x".repeat(1025)) + version}<Object><Key></Key></Object>`),
  );
  expect(DeleteResult.Deleted).toEqual([{ Key: "goes" }]);
  expect(DeleteResult.Error.map(({ Code }: { Code: string }) => Code)).toEqual([
    "InvalidArgument",
    "KeyTooLongError",
    "NotImplemented",
    "InvalidArgument",
  ]);
  expect((await s3(`HEAD ${BUCKET}/kept`)).status).toBe(200);
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
