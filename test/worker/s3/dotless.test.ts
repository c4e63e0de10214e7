import { AwsClient } from "aws4fetch";
import { expect, test } from "vitest";
import { OWN_WORDS } from "../../../protocol/names.ts";
import worker from "../../../worker/index.ts";
import { keys, text } from "./open-commits/support.ts";
import { answer, failure, good, ROOT_KEY, s3, signed, testContext, xml } from "./support.ts";

test("a bucket without a dot is the branch master for every operation, and answers name it as it was asked for", async () => {
  const made = await good("PUT /plain");
  expect(made.headers.get("location")).toBe("/plain");
  expect(await failure(s3("PUT /master.plain"))).toMatchObject({ Code: "BucketAlreadyOwnedByYou" });
  await good("PUT /plain/a", { body: "by the short name" });
  await good("PUT /master.plain/b", { body: "by the long name" });
  await good("PUT /plain/c", { headers: { "x-amz-copy-source": "plain/b" } });
  await good("PUT /master.plain/d", { headers: { "x-amz-copy-source": "/plain/a" } });
  for (const bucket of ["/plain", "/master.plain"]) {
    expect(await keys(bucket)).toEqual(["a", "b", "c", "d"]);
    expect(await text(`${bucket}/c`)).toBe("by the long name");
    await good(`HEAD ${bucket}`);
    for (const list of ["", "?list-type=2"]) {
      expect((await xml(good(`GET ${bucket}${list}`))).ListBucketResult.Name).toBe(bucket.slice(1));
    }
    expect((await xml(good(`GET ${bucket}?versions`))).ListVersionsResult.Name).toBe(bucket.slice(1));
    expect((await xml(good(`GET ${bucket}?uploads`))).ListMultipartUploadsResult.Bucket).toBe(
      bucket.slice(1),
    );
  }
  const { ListAllMyBucketsResult: all } = await xml(good("GET /"));
  const names = all.Buckets.Bucket.map(({ Name }: { Name: string }) => Name);
  expect(names.filter((name: string) => name.endsWith("plain"))).toEqual(["master.plain"]);
  await good("DELETE /plain/a");
  const body = "<Delete><Object><Key>b</Key></Object></Delete>";
  await good("POST /plain?delete", { body });
  expect(await keys("/plain")).toEqual(["c", "d"]);
  await good("DELETE /plain");
  expect(await failure(s3("GET /master.plain"))).toMatchObject({ Code: "NoSuchBucket" });
});

test("an upload that began by the short name goes on by either", async () => {
  await good("PUT /parts");
  const begun = (await xml(good("POST /parts/big?uploads"))).InitiateMultipartUploadResult;
  expect(begun.Bucket).toBe("parts");
  const part = await good(`PUT /master.parts/big?uploadId=${begun.UploadId}&partNumber=1`, { body: "whole" });
  const named = `<Part><PartNumber>1</PartNumber><ETag>${part.headers.get("etag")}</ETag></Part>`;
  const body = `<CompleteMultipartUpload>${named}</CompleteMultipartUpload>`;
  const done = await xml(good(`POST /parts/big?uploadId=${begun.UploadId}`, { body }));
  expect(done.CompleteMultipartUploadResult.Bucket).toBe("parts");
  expect(await text("/parts/big")).toBe("whole");
});

const DOMAIN = { config: { domain: "s3.sluice.test" } };
const client = new AwsClient({
  accessKeyId: ROOT_KEY.id,
  secretAccessKey: ROOT_KEY.secret,
  service: "s3",
  region: "auto",
});

async function byHost(
  label: string,
  { path = "/", ...init }: RequestInit & { path?: string } = {},
): Promise<Response> {
  const url = `http://${label}.s3.sluice.test${path}`;
  const length = typeof init.body === "string" ? { "content-length": String(init.body.length) } : undefined;
  return await answer(await client.sign(url, { ...init, headers: { ...length, ...init.headers } }), DOMAIN);
}

test("hosts of one label reach the branches of a repo, and a client's own names of them work in copies", async () => {
  for (const label of ["hosted", "dev--hosted"]) {
    expect((await byHost(label, { method: "PUT" })).status).toBe(200);
    expect((await byHost(label, { method: "PUT", path: "/key", body: label })).status).toBe(200);
  }
  expect([await text("/hosted/key"), await text("/dev.hosted/key")]).toEqual(["hosted", "dev--hosted"]);
  const { ListBucketResult } = await xml(byHost("dev--hosted"));
  expect(ListBucketResult.Name).toBe("dev--hosted");
  const copy = await byHost("hosted", {
    method: "PUT",
    path: "/copy",
    headers: { "x-amz-copy-source": "dev--hosted/key" },
  });
  expect([copy.status, await text("/hosted/copy")]).toEqual([200, "dev--hosted"]);
  // In the path the same words are the name of a repo.
  expect(await failure(s3("GET /dev--hosted/key"))).toMatchObject({ Code: "NoSuchBucket" });
});

test("a bucket with '--' in a name of its own is not made, and one that is there stays", async () => {
  for (const bucket of ["two--names", "master.two--names", "two--names.hosted"]) {
    const refused = await failure(s3(`PUT /${bucket}`));
    expect(refused).toMatchObject({ status: 400, Code: "InvalidBucketName" });
    expect(refused.Message).toContain("'--'");
    expect((await s3(`HEAD /${bucket}`)).status).toBe(404);
  }
  await testContext().branch({ repo: "old--names", branch: "master" }).lifecycle.create();
  expect(await failure(s3("PUT /old--names"))).toMatchObject({ Code: "BucketAlreadyOwnedByYou" });
  await good("PUT /dev.old--names");
  await good("PUT /old--names/key", { body: "old" });
  expect(await text("/old--names/key")).toBe("old");
  for (const bucket of ["dev.old--names", "old--names"]) await good(`DELETE /${bucket}`);
});

test("a label that is also the name of a repo reaches nothing, and the answer has the paths to use", async () => {
  await testContext().branch({ repo: "dev--both", branch: "master" }).lifecycle.create();
  for (const bucket of ["both", "dev.both"]) await good(`PUT /${bucket}`);
  await good("PUT /dev.both/key", { body: "branch" });
  await good("PUT /dev--both/key", { body: "repo" });
  const asked = [
    byHost("dev--both", { path: "/key" }),
    byHost("dev--both", { method: "PUT", path: "/new", body: "x" }),
    byHost("both", { method: "PUT", path: "/copy", headers: { "x-amz-copy-source": "dev--both/key" } }),
  ];
  for (const response of asked) {
    const refused = await failure(response);
    expect(refused).toMatchObject({ status: 400, Code: "InvalidBucketName" });
    expect(refused.Message).toContain("'/dev--both'");
    expect(refused.Message).toContain("'/dev.both'");
  }
  expect([await text("/dev.both/key"), await text("/dev--both/key")]).toEqual(["branch", "repo"]);
});

test.each([
  "xn--hosted",
  "a--b--c--d",
  "dev--",
  "my_repo",
  "a".repeat(64),
])("the host's label %s reaches nothing, and the answer says how labels are made", async (label) => {
  const refused = await failure(byHost(label));
  expect(refused).toMatchObject({ status: 400, Code: "InvalidBucketName" });
  expect(refused.Message).toContain("<branch>--<repo>");
});

test.each(
  OWN_WORDS,
)("'/%s' is no bucket in the path: what the gateway has there itself, it keeps", async (word) => {
  const { Code, Message } = await failure(s3(`PUT /${word}`));
  expect(Code).toBe("InvalidBucketName");
  expect(Message).toContain(`'master.${word}'`);
  await good(`PUT /master.${word}`);
  await good(`PUT /master.${word}/key`, { body: "x" });
  expect((await byHost(word, { path: "/key" })).status).toBe(200);
});

test("no other first word of a path is the gateway's own: each reaches a bucket", async () => {
  const { env } = await import("cloudflare:test");
  const fetched = async (line: string): Promise<Response> =>
    await worker.fetch((await signed(line)) as Parameters<typeof worker.fetch>[0], env as never);
  for (const word of ["health", "v1", "apis", "metric", "status", "login", "cdn", "well-known"]) {
    await good(`PUT /${word}`);
    expect([word, (await fetched(`HEAD /${word}`)).status]).toEqual([word, 200]);
  }
  expect(await (await fetched("GET /healthz")).text()).toBe("ok\n");
  expect((await fetched("GET /api/v1/repos")).status).toBe(200);
});
