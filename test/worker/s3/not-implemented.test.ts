import { beforeAll, describe, expect, test } from "vitest";
import { failure, good, s3 } from "./support.ts";

beforeAll(async () => {
  await good("PUT /master.kept");
  await good("PUT /master.kept/key", { body: "kept" });
});

describe("a sub-resource is refused before anything is touched", () => {
  test.each([
    "PUT /master.kept/key?uploads",
    "PUT /master.kept/key?renameObject",
    "DELETE /master.kept/key?uploads",
    "DELETE /master.kept?uploads",
    "DELETE /master.kept?inventory&id=x",
    "PUT /master.kept?analytics&id=x",
    "PUT /master.kept?anything",
    "GET /master.kept/key?torrent",
    "GET /master.kept/key?uploads",
    "HEAD /master.kept/key?uploadId=x",
    "POST /master.kept/key?select&select-type=2",
    "POST /master.kept",
    "POST /master.kept/key?restore",
    "GET /master.kept?inventory",
    "GET /master.kept?replication&policy",
    "GET /master.kept?analytics",
    "GET /master.kept?list-type=2&marker=x",
    "GET /?bucket-region=x",
  ])("%s", async (line) => {
    const response = await s3(line, /^P/.test(line) ? { body: "overwritten" } : {});
    expect(response.status).toBe(501);
    if (!line.startsWith("HEAD")) expect((await failure(response)).Code).toBe("NotImplemented");
    expect(await (await good("GET /master.kept/key")).text()).toBe("kept");
  });

  test("but the name that SDKs give to an operation is let through", async () => {
    expect((await s3("GET /master.kept/key?x-id=GetObject")).status).toBe(200);
  });
});

describe("a header that would change what a PUT does is refused by name", () => {
  test.each([
    ["if-modified-since", "Fri, 24 May 2013 00:00:00 GMT"],
    ["if-unmodified-since", "Fri, 24 May 2013 00:00:00 GMT"],
    ["x-amz-acl", "public-read"],
    ["x-amz-acl", "public-read-write"],
    ["x-amz-storage-class", "GLACIER"],
    ["x-amz-server-side-encryption", "aws:kms"],
    ["x-amz-server-side-encryption", ""],
    ["x-amz-server-side-encryption-bucket-key-enabled", "true"],
    ["x-amz-server-side-encryption-customer-algorithm", "AES256"],
    ["x-amz-object-lock-mode", "GOVERNANCE"],
    ["x-amz-website-redirect-location", "/"],
    ["x-amz-grant-read", "id=1"],
    ["x-amz-write-offset-bytes", "4"],
    ["x-amz-checksum-type", "FULL_OBJECT"],
    ["x-amz-mp-object-size", "1"],
    ["x-amz-not-yet-invented", "1"],
  ])("%s: %s", async (name, value) => {
    const refused = await failure(
      s3("PUT /master.kept/key", { headers: { [name]: value }, body: "overwritten" }),
    );
    expect(refused).toMatchObject({ status: 501, Code: "NotImplemented" });
    expect(refused.Message).toContain(name);
    expect(await (await good("GET /master.kept/key")).text()).toBe("kept");
  });

  test.each([
    ["x-amz-acl", "private"],
    ["x-amz-storage-class", "STANDARD"],
    ["x-amz-user-agent", "sdk"],
    ["x-amz-request-payer", "requester"],
    ["x-amz-expected-bucket-owner", "00000000000000000000000000000000"],
    ["amz-sdk-invocation-id", "1"],
    ["amz-sdk-request", "attempt=1"],
    ["content-encoding", ""],
  ])("but %s: %s is let through", async (name, value) => {
    await good("PUT /master.kept/harmless", { headers: { [name]: value }, body: "x" });
  });
});

test.each([
  ["GET /master.kept/key", "x-amz-server-side-encryption-customer-key"],
  ["PUT /master.kept2", "x-amz-bucket-object-lock-enabled"],
  ["POST /master.kept/key?uploads", "x-amz-server-side-encryption"],
  ["POST /master.kept/key?uploads", "if-none-match"],
  ["PUT /master.kept2", "x-amz-grant-full-control"],
])("%s refuses the header %s", async (line, name) => {
  expect(await failure(s3(line, { headers: { [name]: "x" } }))).toMatchObject({
    status: 501,
    Code: "NotImplemented",
  });
});

test("If-None-Match of a write is '*' or nothing, as on S3", async () => {
  const headers = { "if-none-match": '"x"' };
  expect(await failure(s3("PUT /master.kept/key", { headers, body: "overwritten" }))).toMatchObject({
    status: 501,
    Code: "NotImplemented",
    Message: expect.stringContaining("'*'"),
  });
  expect(await (await good("GET /master.kept/key")).text()).toBe("kept");
});

test("encryption with a key of a KMS is refused with what to do instead", async () => {
  const headers = { "x-amz-server-side-encryption": "aws:kms" };
  const { Message } = await failure(s3("PUT /master.kept/key", { headers, body: "overwritten" }));
  expect(Message).toContain("encrypt before sending");
});

test("another expected owner than the one there is is refused", async () => {
  const headers = { "x-amz-expected-bucket-owner": "111122223333" };
  expect(await failure(s3("GET /master.kept/key", { headers }))).toMatchObject({
    status: 403,
    Code: "AccessDenied",
  });
});

describe("what asks for no more than what is so here is let through", () => {
  test.each([
    ["PUT", "x-amz-api-version", "2006-03-01"],
    ["GET", "x-amz-api-version", "2006-03-01"],
    ["PUT", "x-amz-tagging", ""],
    ["PUT", "x-amz-acl", "bucket-owner-full-control"],
    ["DELETE", "x-amz-bypass-governance-retention", "true"],
  ])("%s with %s: '%s'", async (method, name, value) => {
    const body = method === "PUT" ? { body: "x" } : {};
    await good(`PUT /master.kept/asked`, { body: "x" });
    await good(`${method} /master.kept/asked`, { headers: { [name]: value }, ...body });
  });

  test("DeleteObjects with x-amz-bypass-governance-retention", async () => {
    const headers = { "x-amz-bypass-governance-retention": "true" };
    const body = "<Delete><Object><Key>absent</Key></Object></Delete>";
    await good("POST /master.kept?delete", { headers, body });
  });

  test.each([
    ["PUT /master.kept/copied", { "x-amz-copy-source": "/master.kept/key" }],
    ["POST /master.kept/begun?uploads", {}],
  ])("%s with an empty x-amz-tagging and x-amz-acl: bucket-owner-full-control", async (line, more) => {
    const headers = { ...more, "x-amz-tagging": "", "x-amz-acl": "bucket-owner-full-control" };
    await good(line, { headers });
  });

  test("the lifecycle requests of `mc ilm`, which ask when the rules were set", async () => {
    const none = await failure(s3("GET /master.kept?lifecycle&withUpdatedAt=true"));
    expect(none).toMatchObject({ status: 404, Code: "NoSuchLifecycleConfiguration" });
    const rule =
      "<Rule><Filter/><Status>Enabled</Status><AbortIncompleteMultipartUpload><DaysAfterInitiation>9</DaysAfterInitiation></AbortIncompleteMultipartUpload></Rule>";
    const body = `<LifecycleConfiguration>${rule}</LifecycleConfiguration>`;
    await good("PUT /master.kept?lifecycle", { body });
    const answered = await good("GET /master.kept?lifecycle&withUpdatedAt=true");
    expect(await answered.text()).toContain("<DaysAfterInitiation>9</DaysAfterInitiation>");
  });
});

test.each([
  ["PUT /master.kept/key", "x-amz-api-version", "2007-01-01"],
  ["PUT /master.kept/key", "x-amz-acl", "bucket-owner-read"],
  ["PUT /master.kept2", "x-amz-acl", "bucket-owner-full-control"],
  ["PUT /master.kept/key", "x-amz-checksum-blake3", "AA=="],
  ["DELETE /master.kept/key", "x-amz-mfa", "serial 123456"],
  ["DELETE /master.kept/key", "x-amz-if-match-size", "4"],
])("%s with %s: %s is 501, and the header is named", async (line, name, value) => {
  const refused = await failure(s3(line, { headers: { [name]: value } }));
  expect(refused).toMatchObject({ status: 501, Code: "NotImplemented" });
  expect(refused.Message).toContain(name);
  expect(await (await good("GET /master.kept/key")).text()).toBe("kept");
});
