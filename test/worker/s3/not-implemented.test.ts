import { beforeAll, describe, expect, test } from "vitest";
import { failure, good, s3 } from "./support.ts";

beforeAll(async () => {
  await good("PUT /master.kept");
  await good("PUT /master.kept/key", { body: "kept" });
});

describe("a sub-resource is refused before anything is touched", () => {
  test.each([
    "PUT /master.kept/key?tagging",
    "PUT /master.kept/key?acl",
    "PUT /master.kept/key?retention",
    "PUT /master.kept/key?partNumber=1&uploadId=x",
    "DELETE /master.kept/key?tagging",
    "DELETE /master.kept/key?uploadId=x",
    "DELETE /master.kept/key?versionId=x",
    "DELETE /master.kept?policy",
    "PUT /master.kept?versioning",
    "PUT /master.kept?anything",
    "GET /master.kept/key?acl",
    "GET /master.kept/key?response-content-type=text/html",
    "GET /master.kept/key?partNumber=1",
    "POST /master.kept/key?uploads",
    "POST /master.kept/key?select&select-type=2",
    "POST /master.kept",
    "GET /master.kept?uploads",
    "GET /master.kept?versions",
    "GET /master.kept?policy",
    "GET /master.kept?list-type=2&marker=x",
    "GET /?prefix=x",
  ])("%s", async (line) => {
    const body = /^P/.test(line) ? { body: "overwritten" } : {};
    expect(await failure(s3(line, body))).toMatchObject({ status: 501, Code: "NotImplemented" });
    expect(await (await good("GET /master.kept/key")).text()).toBe("kept");
  });

  test("but the name that SDKs give to an operation is let through", async () => {
    expect((await s3("GET /master.kept/key?x-id=GetObject")).status).toBe(200);
  });
});

describe("a header that would change what a PUT does is refused by name", () => {
  test.each([
    ["content-encoding", "aws-chunked"],
    ["content-encoding", "gzip"],
    ["cache-control", "no-store"],
    ["content-disposition", "inline"],
    ["content-language", "de"],
    ["expires", "Fri, 24 May 2013 00:00:00 GMT"],
    ["if-match", '"x"'],
    ["if-none-match", "*"],
    ["x-amz-acl", "public-read"],
    ["x-amz-storage-class", "GLACIER"],
    ["x-amz-copy-source", "/master.kept/other"],
    ["x-amz-checksum-crc32", "AAAAAA=="],
    ["x-amz-sdk-checksum-algorithm", "CRC32"],
    ["x-amz-trailer", "x-amz-checksum-crc32"],
    ["x-amz-server-side-encryption", "AES256"],
    ["x-amz-server-side-encryption-customer-algorithm", "AES256"],
    ["x-amz-object-lock-mode", "GOVERNANCE"],
    ["x-amz-tagging", "a=b"],
    ["x-amz-website-redirect-location", "/"],
    ["x-amz-grant-read", "id=1"],
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
    ["content-encoding", ""],
  ])("but %s: %s is let through", async (name, value) => {
    await good("PUT /master.kept/harmless", { headers: { [name]: value }, body: "x" });
  });
});

test.each([
  ["GET /master.kept/key", "x-amz-server-side-encryption-customer-key"],
  ["DELETE /master.kept/key", "if-match"],
  ["DELETE /master.kept/key", "x-amz-bypass-governance-retention"],
  ["PUT /master.kept2", "x-amz-bucket-object-lock-enabled"],
  ["PUT /master.kept2", "x-amz-grant-full-control"],
])("%s refuses the header %s", async (line, name) => {
  expect(await failure(s3(line, { headers: { [name]: "x" } }))).toMatchObject({
    status: 501,
    Code: "NotImplemented",
  });
});

test("an SDK that sends checksums by itself is told how to stop it", async () => {
  const refused = await failure(
    s3("PUT /master.kept/key", { headers: { "x-amz-checksum-crc32": "AAAAAA==" }, body: "x" }),
  );
  expect(refused.Message).toContain("AWS_REQUEST_CHECKSUM_CALCULATION=when_required");
});

test("another expected owner than the one there is is refused", async () => {
  const headers = { "x-amz-expected-bucket-owner": "111122223333" };
  expect(await failure(s3("GET /master.kept/key", { headers }))).toMatchObject({
    status: 403,
    Code: "AccessDenied",
  });
});
