import { GetObjectCommand, PutObjectCommand, S3Client } from "@aws-sdk/client-s3";
import { getSignedUrl } from "@aws-sdk/s3-request-presigner";
import { AwsClient } from "aws4fetch";
import { describe, expect, test } from "vitest";
import type { KeyRing } from "../../../../worker/keys/key-ring.ts";
import { operationHeaders, operationQuery } from "../../../../worker/s3/auth/presigned.ts";
import { authenticate } from "../../../../worker/s3/auth/verify.ts";
import { parseTarget } from "../../../../worker/s3/request/target.ts";
import {
  callerOf,
  EXAMPLE_KEY,
  EXAMPLE_NOW,
  options,
  presignedPut,
  ringOf,
  targetOf,
  verify,
} from "./support.ts";

const HOST = "examplebucket.s3.amazonaws.com";
/** The worked example of AWS, "Authenticating Requests: Using Query Parameters (AWS Signature Version 4)". */
const EXAMPLE = {
  "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
  "X-Amz-Credential": "AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request",
  "X-Amz-Date": "20130524T000000Z",
  "X-Amz-Expires": "86400",
  "X-Amz-SignedHeaders": "host",
  "X-Amz-Signature": "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404",
};

function exampleRequest(
  changes: Record<string, string | undefined> = {},
  headers: Record<string, string> = {},
) {
  const query = Object.entries({ ...EXAMPLE, ...changes })
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}=${encodeURIComponent(value ?? "")}`)
    .join("&");
  return {
    method: "GET",
    target: targetOf(`/test.txt?${query}`),
    headers: new Map(Object.entries({ host: HOST, ...headers })),
  };
}

describe("AWS's worked example of a presigned URL", () => {
  test("is let in, and its body is not signed", async () => {
    expect(await verify(exampleRequest(), options())).toEqual({
      ok: true,
      caller: {
        keyId: EXAMPLE_KEY.id,
        scope: EXAMPLE_KEY.scope,
        payload: { form: "plain", sha256: null },
      },
    });
  });

  test("is not let in with another method, path, host, expiry or parameter", async () => {
    const request = exampleRequest();
    const changed = [
      { ...request, method: "PUT" },
      { ...request, target: { ...request.target, path: "/test2.txt", rawPath: "/test2.txt" } },
      { ...request, headers: new Map([["host", "other.example"]]) },
      exampleRequest({ "X-Amz-Expires": "86401" }),
      exampleRequest({ "response-content-type": "text/html" }),
      exampleRequest({ "X-Amz-Signature": "0".repeat(64) }),
    ];
    for (const each of changed) {
      expect(await verify(each, options())).toMatchObject({ ok: false, code: "SignatureDoesNotMatch" });
    }
  });

  test("holds from 15 minutes before its date until it expires", async () => {
    const later = (seconds: number) =>
      verify(exampleRequest(), options({ now: EXAMPLE_NOW + seconds * 1000 }));
    expect((await later(-15 * 60)).ok).toBe(true);
    expect((await later(86400)).ok).toBe(true);
    expect(await later(-15 * 60 - 1)).toMatchObject({
      code: "AccessDenied",
      message: expect.stringContaining("not yet valid"),
    });
    expect(await later(86401)).toMatchObject({
      code: "AccessDenied",
      message: expect.stringContaining("Request has expired"),
    });
  });

  test.each([
    ["without a date", { "X-Amz-Date": undefined }],
    ["without a credential", { "X-Amz-Credential": undefined }],
    ["without an expiry", { "X-Amz-Expires": undefined }],
    ["without signed headers", { "X-Amz-SignedHeaders": undefined }],
    ["without a signature", { "X-Amz-Signature": undefined }],
    ["of another algorithm", { "X-Amz-Algorithm": "AWS4-ECDSA-P256-SHA256" }],
    ["with a date that is none", { "X-Amz-Date": "yesterday" }],
    ["with a month 13", { "X-Amz-Date": "20131324T000000Z" }],
    ["with a credential of another day", { "X-Amz-Date": "20130525T000000Z" }],
    ["with a credential cut short", { "X-Amz-Credential": "AKIAIOSFODNN7EXAMPLE/20130524/us-east-1" }],
    ["with an expiry of 0", { "X-Amz-Expires": "0" }],
    ["with an expiry below 0", { "X-Amz-Expires": "-7" }],
    ["with an expiry above a week", { "X-Amz-Expires": "604801" }],
    ["with an expiry that is no number", { "X-Amz-Expires": "1e3" }],
    ["with a signature that is no hex", { "X-Amz-Signature": "x".repeat(64) }],
  ])("%s is malformed", async (_, changes) => {
    expect(await verify(exampleRequest(changes), options())).toMatchObject({
      ok: false,
      code: "AuthorizationQueryParametersError",
    });
  });

  test("is refused together with an Authorization header, and with a session token", async () => {
    const both = exampleRequest({}, { authorization: "AWS4-HMAC-SHA256 Credential=x" });
    expect(await verify(both, options())).toMatchObject({ ok: false, code: "InvalidArgument" });
    const token = exampleRequest({ "X-Amz-Security-Token": "token" });
    expect(await verify(token, options())).toMatchObject({ ok: false, code: "InvalidToken" });
  });

  test("is refused with an x-amz header that it does not sign, also one that the other form covers", async () => {
    for (const name of ["x-amz-meta-a", "x-amz-content-sha256"]) {
      const request = exampleRequest({}, { [name]: "UNSIGNED-PAYLOAD" });
      expect(await verify(request, options())).toMatchObject({
        ok: false,
        code: "AccessDenied",
        message: expect.stringContaining(name),
      });
    }
  });

  test("of a key that nobody knows is refused", async () => {
    expect(await verify(exampleRequest(), { ...options(), keys: ringOf() })).toMatchObject({
      ok: false,
      code: "InvalidAccessKeyId",
    });
  });
});

const KEY = {
  id: "presigner",
  secret: "presigner-secret",
  scope: { level: "read", repos: ["data"] },
} as const;
const ENDPOINT = "http://sluice.test:8787";

/** What a URL that must be let in is to the gateway. */
async function opened(method: string, url: string, headers: Record<string, string> = {}) {
  const request = new Request(url, { method, headers: { host: new URL(url).host, ...headers } });
  const caller = await authenticate(request, { keys: ringOf(KEY), now: Date.now() });
  const target = parseTarget(url);
  if (target === undefined) throw new Error("no target");
  const sent = new Map(Object.entries(headers));
  return {
    caller,
    query: Object.fromEntries(operationQuery(target)),
    headers: Object.fromEntries(operationHeaders(sent, target)),
  };
}

describe("a URL presigned by the AWS SDK for JavaScript", () => {
  const client = new S3Client({
    endpoint: ENDPOINT,
    region: "eu-central-1",
    forcePathStyle: true,
    credentials: { accessKeyId: KEY.id, secretAccessKey: KEY.secret },
  });

  test("lets GET in, and the operation sees only what concerns it", async () => {
    const command = new GetObjectCommand({
      Bucket: "master.data",
      Key: "a folder/ü+'(1)*.txt",
      ResponseContentType: "text/plain",
    });
    const url = await getSignedUrl(client, command, { expiresIn: 60 });
    const { caller, query, headers } = await opened("GET", url);
    expect(caller).toEqual({ keyId: KEY.id, scope: KEY.scope, payload: { form: "plain", sha256: null } });
    expect(query).toEqual({ "response-content-type": "text/plain", "x-id": "GetObject" });
    expect(headers).toMatchObject({ "x-amz-checksum-mode": "ENABLED" });
    expect(
      Object.keys(headers).filter((name) => name.includes("signature") || name.includes("date")),
    ).toEqual([]);
  });

  test("lets PUT in without knowing its body, of which a checksum is to be computed", async () => {
    const url = await getSignedUrl(client, new PutObjectCommand({ Bucket: "master.data", Key: "k" }));
    expect((await opened("PUT", url)).headers).toEqual({
      "x-amz-content-sha256": "UNSIGNED-PAYLOAD",
      "x-amz-sdk-checksum-algorithm": "CRC32",
    });
  });

  test("lets PUT in with metadata and a checksum that it moved into the query", async () => {
    const command = new PutObjectCommand({
      Bucket: "master.data",
      Key: "k",
      Metadata: { Colour: "blue" },
      ChecksumCRC32: "NhCmhg==",
    });
    const url = await getSignedUrl(client, command, { expiresIn: 60 });
    const { query, headers } = await opened("PUT", url, { "content-type": "text/plain" });
    expect(query).toEqual({ "x-id": "PutObject" });
    expect(headers).toMatchObject({
      "content-type": "text/plain",
      "x-amz-meta-colour": "blue",
      "x-amz-checksum-crc32": "NhCmhg==",
    });
  });
});

test.each([
  ["the CRC of an empty body, which is no promise about the real one", "AAAAAA==", undefined],
  ["another CRC, which the body must have", "NhCmhg==", "NhCmhg=="],
])("a presigned URL may have %s", (_, value, counts) => {
  const { target } = exampleRequest({ "x-amz-checksum-crc32": value });
  expect(operationHeaders(new Map(), target).get("x-amz-checksum-crc32")).toBe(counts);
});

describe("a URL presigned by aws4fetch", () => {
  const client = new AwsClient({
    accessKeyId: KEY.id,
    secretAccessKey: KEY.secret,
    service: "s3",
    region: "auto",
  });

  test("lets GET and PUT in", async () => {
    for (const method of ["GET", "PUT"]) {
      const url = `${ENDPOINT}/master.data/a%20b?X-Amz-Expires=60&versionId=1`;
      const request = await client.sign(url, { method, aws: { signQuery: true } });
      expect((await opened(method, request.url)).query).toEqual({ versionId: "1" });
    }
  });

  test("lets in with a header that it signs, and not without", async () => {
    const request = await client.sign(`${ENDPOINT}/master.data/k?X-Amz-Expires=60`, {
      method: "PUT",
      headers: { "x-amz-meta-a": "1" },
      aws: { signQuery: true, allHeaders: true },
    });
    expect((await opened("PUT", request.url, { "x-amz-meta-a": "1" })).headers).toEqual({
      "x-amz-meta-a": "1",
    });
    await expect(opened("PUT", request.url)).rejects.toMatchObject({ code: "SignatureDoesNotMatch" });
  });
});

test.each([
  "X-Amz-Content-Sha256",
  "x-amz-content-sha256",
])("the query parameter %s binds the body of a presigned URL", async (name) => {
  const sha256 = "a".repeat(64);
  const request = presignedPut({ query: `${name}=${sha256}`, payloadHash: sha256 });
  expect((await callerOf(request)).payload).toEqual({ form: "plain", sha256 });
  const unbound = presignedPut({ query: `${name}=${sha256}`, payloadHash: "UNSIGNED-PAYLOAD" });
  expect(await verify(unbound, options())).toMatchObject({ ok: false, code: "SignatureDoesNotMatch" });
});

test("a request that is signed in its header keeps x-amz parameters in the query, where no operation takes them", () => {
  const target = targetOf("/k?x-amz-meta-a=1&prefix=a&prefix=b");
  const headers = new Map([["host", HOST]]);
  expect(operationHeaders(headers, target)).toBe(headers);
  expect(Object.fromEntries(operationQuery(target))).toEqual({ "x-amz-meta-a": "1", prefix: "a" });
});

test("a header that is sent goes before the query parameter of its name", () => {
  const { target } = exampleRequest({ "X-Amz-Meta-A": "query", "x-amz-meta-b": "query" });
  const headers = operationHeaders(new Map([["x-amz-meta-a", "header"]]), target);
  expect(Object.fromEntries(headers)).toEqual({ "x-amz-meta-a": "header", "x-amz-meta-b": "query" });
});

test("keys that must be fetched first are waited for", async () => {
  const keys: KeyRing = { find: async (id) => (id === EXAMPLE_KEY.id ? EXAMPLE_KEY : undefined), used() {} };
  expect((await callerOf(exampleRequest(), { ...options(), keys })).keyId).toBe(EXAMPLE_KEY.id);
});
