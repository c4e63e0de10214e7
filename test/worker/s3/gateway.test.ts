import { describe, expect, test } from "vitest";
import { answer, failure, good, ROOT_KEY, s3, scopedKey, signed, unsigned } from "./support.ts";

describe("a signature", () => {
  const withHeader = async (name: string, value: string | null): Promise<Request> => {
    const request = await signed("GET /");
    const headers = new Headers(request.headers);
    if (value === null) headers.delete(name);
    else headers.set(name, value);
    return new Request(request.url, { headers });
  };

  test("is refused when the clocks are more than 15 minutes apart", async () => {
    const request = await signed("GET /");
    const refused = await failure(answer(request, { now: () => Date.now() + 16 * 60_000 }));
    expect(refused).toMatchObject({ status: 403, Code: "RequestTimeTooSkewed" });
  });

  test("of version 2 is refused by name", async () => {
    const version2 = "GET /master.data/k?AWSAccessKeyId=a&Signature=b&Expires=1";
    expect(await failure(answer(unsigned(version2)))).toMatchObject({
      status: 400,
      Code: "InvalidRequest",
      Message: expect.stringContaining('Config(signature_version="s3v4")'),
    });
  });

  test.each([
    ["authorization", "AWS AKIA:c2ln", 400, "InvalidRequest"],
    ["authorization", "Bearer abc", 400, "InvalidArgument"],
    ["authorization", "AWS4-HMAC-SHA256 nonsense", 400, "AuthorizationHeaderMalformed"],
    ["x-amz-content-sha256", null, 400, "InvalidRequest"],
    ["x-amz-content-sha256", "abc", 400, "InvalidArgument"],
    ["x-amz-date", null, 403, "AccessDenied"],
    ["x-amz-date", "today", 403, "AccessDenied"],
    ["x-amz-acl", "private", 403, "AccessDenied"],
  ])("whose request then has the header %s: %s is refused", async (name, value, status, Code) => {
    expect(await failure(answer(await withHeader(name, value)))).toMatchObject({ status, Code });
  });

  test("leaves headers open, and the refusal names them", async () => {
    const request = await signed("PUT /master.data/k", { body: "x" });
    const headers = new Headers(request.headers);
    headers.set("x-amz-meta-a", "1");
    headers.set("x-amz-meta-b", "2");
    expect(await failure(answer(new Request(request, { headers })))).toMatchObject({
      status: 403,
      Code: "AccessDenied",
      HeadersNotSigned: "x-amz-meta-a, x-amz-meta-b",
    });
  });

  test("may cover a session token, but there are no sessions here", async () => {
    const headers = { "x-amz-security-token": "abc" };
    expect(await failure(s3("GET /", { headers }))).toMatchObject({ status: 400, Code: "InvalidToken" });
  });

  test("covers Accept-Encoding as the client sent it, though a proxy rewrote it", async () => {
    const request = await signed("GET /", { headers: { "accept-encoding": "identity" } });
    const headers = new Headers(request.headers);
    headers.set("accept-encoding", "br, gzip");
    const proxied = new Request(request.url, { headers, cf: { clientAcceptEncoding: "identity" } });
    expect((await answer(proxied)).status).toBe(200);
    expect((await answer(new Request(request.url, { headers }))).status).toBe(403);
  });

  test("covers a header that is a list and came twice, however it was joined on the way", async () => {
    await good("PUT /master.twice");
    const request = await signed("PUT /master.twice/k", { headers: { "cache-control": "a,b" }, body: "x" });
    const headers = new Headers(request.headers);
    headers.set("cache-control", "a, b");
    expect((await answer(new Request(request, { headers }))).status).toBe(200);
  });
});

describe("an error", () => {
  test("has a code, a message, the resource and the id of the request, which is a header, too", async () => {
    const response = await s3("GET /master.nowhere/a%20b?versionId=x");
    const header = response.headers.get("x-amz-request-id");
    expect(response.headers.get("content-type")).toBe("application/xml");
    const { RequestId, ...rest } = await failure(response);
    expect(rest).toEqual({
      status: 404,
      Code: "NoSuchBucket",
      Message: "The bucket does not exist.",
      Resource: "/master.nowhere/a%20b",
    });
    expect(RequestId).toBe(header);
  });

  test("has no body in an answer to HEAD", async () => {
    const response = await s3("HEAD /master.nowhere/key");
    expect([response.status, response.body]).toEqual([404, null]);
    expect(response.headers.get("x-amz-request-id")).not.toBeNull();
  });

  test("is told of the first fault in the order that is contract", async () => {
    const codeOf = async (response: Promise<Response>) => (await failure(response)).Code;
    const wrong = { key: { ...ROOT_KEY, secret: "not-the-secret" } };
    const locked = { headers: { "x-amz-object-lock-mode": "GOVERNANCE" } };
    const reader = { key: scopedKey({ level: "read", repos: null }) };
    // Address before signature before bucket before operation before headers before permission before values.
    expect(await codeOf(answer(unsigned("PATCH /bad/%zz")))).toBe("InvalidURI");
    expect(await codeOf(s3("DELETE /-bad?acl", wrong))).toBe("SignatureDoesNotMatch");
    expect(await codeOf(s3("POST /-bad/key"))).toBe("InvalidBucketName");
    expect(await codeOf(s3("POST /master.data/key?acl", locked))).toBe("MethodNotAllowed");
    expect(await codeOf(s3("PUT /master.data//key", { ...locked, ...reader, body: "x" }))).toBe(
      "NotImplemented",
    );
    expect(await codeOf(s3("PUT /master.data//key", { ...reader, body: "x" }))).toBe("AccessDenied");
    expect(await codeOf(s3("PUT /master.nowhere//key", { body: "x" }))).toBe("InvalidArgument");
    expect(await codeOf(s3("PUT /master.nowhere/key", { body: "x" }))).toBe("NoSuchBucket");
  });
});

test("a method that S3 does not have is 405 and says which there are", async () => {
  const response = await s3("PATCH /master.data/key", { body: "x" });
  expect([response.status, response.headers.get("allow")]).toEqual([405, "GET, HEAD, PUT, POST, DELETE"]);
  expect((await failure(response)).Code).toBe("MethodNotAllowed");
});
