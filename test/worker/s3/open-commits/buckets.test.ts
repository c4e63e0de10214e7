import { AwsClient } from "aws4fetch";
import { expect, test } from "vitest";
import type { BranchApi } from "../../../../worker/branch/contract/api.ts";
import { handleS3 } from "../../../../worker/s3/gateway.ts";
import {
  answer,
  ENDPOINT,
  failure,
  good,
  ROOT_KEY,
  s3,
  scopedKey,
  signed,
  testContext,
  xml,
} from "../support.ts";
import { finish, keys, openAgain, openOn } from "./support.ts";

test("the bucket of an open commit is there, somewhere, and without versions", async () => {
  const { bucket } = await openOn("there");
  await good(`HEAD ${bucket}`);
  // Tools that make a bucket to be sure of it go on at this code.
  expect(await failure(s3(`PUT ${bucket}`))).toMatchObject({ status: 409, Code: "BucketAlreadyOwnedByYou" });
  expect(await (await good(`GET ${bucket}?location`)).text()).toContain("LocationConstraint");
  expect((await xml(good(`GET ${bucket}?versioning`))).VersioningConfiguration).toEqual("");
});

test("the bucket of an open commit is in no list of buckets", async () => {
  const { repo } = await openOn("hidden");
  const { ListAllMyBucketsResult: all } = await xml(good("GET /"));
  const names = all.Buckets.Bucket.map(({ Name }: { Name: string }) => Name);
  expect(names.filter((name: string) => name.endsWith(`.${repo}`))).toEqual(["master.hidden"]);
});

test("the session in the bucket's name is found in upper and in lower case", async () => {
  const { bucket, openCommit } = await openOn("cased");
  const upper = bucket.replace(openCommit.toLowerCase(), openCommit);
  expect(bucket).toBe(bucket.toLowerCase());
  await good(`PUT ${upper}/key`, { body: "x" });
  expect(await keys(bucket)).toEqual(["key"]);
  const { ListBucketResult } = await xml(good(`GET ${upper}`));
  expect(ListBucketResult.Name).toBe(upper.slice(1));
});

test("the bucket of an open commit is reached by a host of its own, too", async () => {
  const { bucket } = await openOn("hosted");
  const client = new AwsClient({
    accessKeyId: ROOT_KEY.id,
    secretAccessKey: ROOT_KEY.secret,
    service: "s3",
    region: "auto",
  });
  const url = `http://${bucket.slice(1)}.s3.sluice.test/by-host`;
  const request = await client.sign(url, { method: "PUT", body: "x", headers: { "content-length": "1" } });
  const response = await answer(request, { config: { domain: "s3.sluice.test" } });
  expect([response.status, await keys(bucket)]).toEqual([200, ["by-host"]]);
});

test.each([
  ["of a session that was never opened", async () => "/01ARZ3NDEKTSV4RRFFQ69G5FAV.master.there"],
  ["of a branch that is not there", async () => "/01ARZ3NDEKTSV4RRFFQ69G5FAV.master.nowhere"],
  [
    "of one that was finished",
    async () => {
      const open = await openOn("finished");
      await good(`PUT ${open.bucket}/key`, { body: "x" });
      await finish(open);
      return open.bucket;
    },
  ],
  [
    "of one that was aborted",
    async () => {
      const { bucket, api, openCommit } = await openOn("aborted");
      await good(`PUT ${bucket}/key`, { body: "x" });
      await api.openCommits.abort({ openCommit });
      return bucket;
    },
  ],
])("a bucket %s is no bucket, and the answer says what it is", async (_what, make) => {
  const bucket = await make();
  const body = "<Delete><Object><Key>a</Key></Object></Delete>";
  const answers = await Promise.all([
    s3(`PUT ${bucket}`),
    s3(`GET ${bucket}`),
    s3(`GET ${bucket}?max-keys=0`),
    s3(`GET ${bucket}?location`),
    s3(`GET ${bucket}?versioning`),
    s3(`GET ${bucket}?uploads`),
    s3(`GET ${bucket}/key`),
    s3(`PUT ${bucket}/key`, { body: "x" }),
    s3(`PUT ${bucket}/large`, { body: "x".repeat(10_000) }),
    s3(`DELETE ${bucket}/key`),
    s3(`POST ${bucket}?delete`, { body }),
    s3(`POST ${bucket}/key?uploads`),
  ]);
  for (const response of answers) {
    const { status, Code, Message } = await failure(response);
    expect([status, Code]).toEqual([404, "NoSuchBucket"]);
    expect(Message).toContain("open commit");
    expect(Message).toContain("sluice commit start s3://<branch>.<repo>");
  }
  expect((await s3(`HEAD ${bucket}`)).status).toBe(404);
});

test.each([
  "/a.b.c.d",
  "/.master.there",
  "/01ARZ3NDEKTSV4RRFFQ69G5FAV..there",
])("a name that is not of one to three words is no bucket name: %s", async (bucket) => {
  expect(await failure(s3(`GET ${bucket}`))).toMatchObject({ status: 400, Code: "InvalidBucketName" });
});

test("a presigned URL reads and writes in the bucket of an open commit, and opens no other", async () => {
  const { bucket, branch } = await openOn("presigned");
  const client = new AwsClient({
    accessKeyId: ROOT_KEY.id,
    secretAccessKey: ROOT_KEY.secret,
    service: "s3",
    region: "auto",
  });
  const link = async (method: string, target: string): Promise<string> =>
    (await client.sign(ENDPOINT + target, { method, aws: { signQuery: true } })).url;
  const put = await link("PUT", `${bucket}/key`);
  const headers = { "content-length": "6" };
  const sent = await answer(new Request(put, { method: "PUT", body: "linked", headers }));
  expect(sent.status).toBe(200);
  const got = await answer(new Request(await link("GET", `${bucket}/key`)));
  expect(await got.text()).toBe("linked");
  const elsewhere = put.replace(bucket, branch);
  const refused = await answer(new Request(elsewhere, { method: "PUT", body: "linked", headers }));
  expect([refused.status, await keys(branch)]).toEqual([403, []]);
});

test("a key may do with the bucket of an open commit what it may do with the repo", async () => {
  const { bucket } = await openOn("scoped");
  const put = (level: "read" | "write", repo: string) =>
    s3(`PUT ${bucket}/key`, { body: "x", key: scopedKey({ level, repos: [repo] }) });
  expect((await put("write", "scoped")).status).toBe(200);
  expect((await put("read", "scoped")).status).toBe(403);
  expect((await put("write", "there")).status).toBe(403);
  const get = (repo: string) => s3(`GET ${bucket}/key`, { key: scopedKey({ level: "read", repos: [repo] }) });
  expect([(await get("scoped")).status, (await get("there")).status]).toEqual([200, 403]);
});

test("a write that waited too long for a large commit is told to slow down", async () => {
  const { bucket } = await openAgain("there");
  const waited = { files: { put: async () => ({ ok: false, reason: "busy" }) } } as unknown as BranchApi;
  const request = await signed(`PUT ${bucket}/key`, { body: "x" });
  const response = await handleS3(request, {
    context: { ...testContext(), branch: () => waited },
    now: Date.now,
  });
  expect(await failure(response)).toMatchObject({ status: 503, Code: "SlowDown" });
});
