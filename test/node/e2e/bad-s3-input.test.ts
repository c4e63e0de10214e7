import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ErrorBody } from "../../../protocol/errors.ts";
import { type DevServer, startDevServer } from "../../support/dev-server.ts";
import { exchange, signatureHeaders } from "../../support/http.ts";
import { S3 } from "../../support/s3.ts";
import { everythingIn, xmlCode, xmlMessage } from "./refusals.ts";

let server: DevServer;
let s3: S3;
let before: object;
beforeAll(async () => {
  server = await startDevServer();
  s3 = new S3(server);
  await s3.createBucket("master.data");
  await s3.put("master.data", "file", "content");
  await s3.put("master.data", "dir/file", "content");
  before = await everythingIn(server);
});
afterAll(async () => {
  // Whatever was refused left nothing behind.
  expect(await everythingIn(server)).toEqual(before);
  await server.stop();
});

describe("who does not show a good key is refused", () => {
  const get = { method: "GET", target: "/master.data/file" };
  const rows: {
    what: string;
    code: string;
    status: number;
    headers: () => Promise<Record<string, string>>;
  }[] = [
    { what: "no signature", status: 403, code: "AccessDenied", headers: async () => ({}) },
    {
      what: "another secret",
      status: 403,
      code: "SignatureDoesNotMatch",
      headers: () => signatureHeaders({ ...server, secretAccessKey: "not-the-secret" }, get),
    },
    {
      what: "the signature of another path",
      status: 403,
      code: "SignatureDoesNotMatch",
      headers: () => signatureHeaders(server, { ...get, target: "/master.data/other" }),
    },
    {
      what: "an unknown key",
      status: 403,
      code: "InvalidAccessKeyId",
      headers: () => signatureHeaders({ ...server, accessKeyId: "nobody" }, get),
    },
    {
      what: "a clock 16 minutes late",
      status: 403,
      code: "RequestTimeTooSkewed",
      headers: () => signedAt(-16),
    },
    {
      what: "a clock 16 minutes early",
      status: 403,
      code: "RequestTimeTooSkewed",
      headers: () => signedAt(16),
    },
    {
      what: "half an Authorization header",
      status: 400,
      code: "AuthorizationHeaderMalformed",
      headers: async () => ({ authorization: "AWS4-HMAC-SHA256 Credential=x" }),
    },
  ];

  test.each(rows)("$what: $code, from S3 and from the control API", async ({ headers, status, code }) => {
    const answer = await exchange(server.endpoint, { ...get, headers: await headers() });
    expect({ status: answer.status, code: xmlCode(answer) }).toEqual({ status, code });
    expect(xmlMessage(answer)).not.toBe("");
    const put = await exchange(server.endpoint, {
      ...get,
      method: "PUT",
      body: "no",
      headers: await headers(),
    });
    expect([400, 403]).toContain(put.status);
    const api = await exchange(server.endpoint, {
      method: "GET",
      target: "/api/v1/pipelines",
      headers: await headers(),
    });
    expect([400, 403]).toContain(api.status);
    expect(ErrorBody.parse(JSON.parse(api.text)).error.message).not.toBe("");
  });

  function signedAt(minutes: number): Promise<Record<string, string>> {
    const datetime = new Date(Date.now() + minutes * 60_000).toISOString().replaceAll(/[:-]|\.\d{3}/g, "");
    return signatureHeaders(server, get, { datetime });
  }

  test("a body that is not what was signed: XAmzContentSHA256Mismatch, and no file", async () => {
    const put = {
      method: "PUT",
      target: "/master.data/tampered",
      headers: { "x-amz-content-sha256": "0".repeat(64) },
    };
    const headers = await signatureHeaders(server, { ...put, body: "sent" });
    const answer = await exchange(server.endpoint, { ...put, headers, body: "sent" });
    expect({ status: answer.status, code: xmlCode(answer) }).toEqual({
      status: 400,
      code: "XAmzContentSHA256Mismatch",
    });
  });
});

describe("S3 requests that cannot be done are refused by name", () => {
  const long = "k".repeat(1025);
  const rows: { what: string; ask: readonly [string, string, string?]; code: string; says?: RegExp }[] = [
    {
      what: "a bucket name that is a path of the gateway's own",
      ask: ["PUT", "/api"],
      code: "InvalidBucketName",
      says: /master\.api/,
    },
    { what: "a bucket name with three dots", ask: ["PUT", "/a.b.c.d"], code: "InvalidBucketName" },
    {
      what: "a bucket to be made under the name of a tag",
      ask: ["PUT", "/a.b.c"],
      code: "MethodNotAllowed",
      says: /read-only.*'b\.c'/,
    },
    { what: "a bucket name with an empty half", ask: ["PUT", "/.repo"], code: "InvalidBucketName" },
    { what: "a bucket name with bad characters", ask: ["PUT", "/master.da$ta"], code: "InvalidBucketName" },
    {
      what: "a bucket name over 63 characters a half",
      ask: ["PUT", `/master.${"r".repeat(64)}`],
      code: "InvalidBucketName",
    },
    { what: "a bucket that is not there", ask: ["PUT", "/master.nowhere/key", "x"], code: "NoSuchBucket" },
    {
      what: "a listing of a bucket that is not there",
      ask: ["GET", "/master.nowhere"],
      code: "NoSuchBucket",
    },
    { what: "a key that is not there", ask: ["GET", "/master.data/nothing"], code: "NoSuchKey" },
    {
      what: "a version that is not there",
      ask: ["GET", "/master.data/file?versionId=01BX5ZZKBKACTAV9WEVGEMMVRZ"],
      code: "NoSuchVersion",
    },
    { what: "a file under a file", ask: ["PUT", "/master.data/file/under", "x"], code: "*", says: /file/ },
    { what: "a file where a directory is", ask: ["PUT", "/master.data/dir", "x"], code: "*", says: /dir/ },
    { what: "an empty segment", ask: ["PUT", "/master.data/a//b", "x"], code: "*", says: /\/\// },
    {
      what: "a key over 1,024 bytes",
      ask: ["PUT", `/master.data/${long}`, "x"],
      code: "KeyTooLongError",
      says: /1024/,
    },
    {
      what: "a control character in a key",
      ask: ["PUT", "/master.data/a%07b", "x"],
      code: "*",
      says: /control/,
    },
    { what: "a key that is not UTF-8", ask: ["PUT", "/master.data/%FF%FE", "x"], code: "*" },
    { what: "bytes for a directory", ask: ["PUT", "/master.data/new-dir/", "x"], code: "*" },
    {
      what: "a delimiter other than /",
      ask: ["GET", "/master.data?delimiter=-"],
      code: "*",
      says: /delimiter/i,
    },
    {
      what: "a max-keys that is no number",
      ask: ["GET", "/master.data?max-keys=many"],
      code: "InvalidArgument",
      says: /max-keys/,
    },
    {
      what: "a negative max-keys",
      ask: ["GET", "/master.data?max-keys=-1"],
      code: "InvalidArgument",
      says: /max-keys/,
    },
    {
      what: "a made-up continuation token",
      ask: ["GET", "/master.data?list-type=2&continuation-token=%21%21"],
      code: "InvalidArgument",
      says: /continuation-token/,
    },
    {
      what: "deletions that are no XML",
      ask: ["POST", "/master.data?delete", "<Delete><Object>"],
      code: "MalformedXML",
    },
    {
      what: "deletions without a key",
      ask: ["POST", "/master.data?delete", "<Delete><Object></Object></Delete>"],
      code: "MalformedXML",
    },
    {
      what: "an empty list of deletions",
      ask: ["POST", "/master.data?delete", "<Delete></Delete>"],
      code: "MalformedXML",
    },
    {
      what: "more than 1,000 deletions",
      ask: ["POST", "/master.data?delete", deletions(1001)],
      code: "MalformedXML",
      says: /1,?000/,
    },
    {
      what: "a policy that is none",
      ask: ["PUT", "/master.data?policy", "<Tagging/>"],
      code: "MalformedPolicy",
    },
    {
      what: "a deep policy",
      ask: ["PUT", "/master.data?policy", `{"Statement":${"[".repeat(9000)}`],
      code: "MalformedPolicy",
    },
    {
      what: "a policy in many levels",
      ask: ["PUT", "/master.data?policy", `{"Statement":${"[".repeat(9000)}${"]".repeat(9000)}}`],
      code: "MalformedPolicy",
    },
    {
      what: "an ACL that is none",
      ask: ["PUT", "/master.data/file?acl", "<Tagging/>"],
      code: "MalformedXML",
    },
    {
      what: "an ACL with an entity declared",
      ask: [
        "PUT",
        "/master.data?acl",
        '<!DOCTYPE d [<!ENTITY e "file">]><AccessControlPolicy>&e;</AccessControlPolicy>',
      ],
      code: "MalformedXML",
    },
    {
      what: "deletions with an entity declared",
      ask: [
        "POST",
        "/master.data?delete",
        '<!DOCTYPE d [<!ENTITY e "file">]><Delete><Object><Key>&e;</Key></Object></Delete>',
      ],
      code: "MalformedXML",
    },
  ];

  test.each(rows)("$what: $code", async ({ ask: [method, target, body], code, says }) => {
    const answer = await s3.ask(method, target, body);
    expect([400, 404, 405, 409]).toContain(answer.status);
    if (code === "*") expect(xmlCode(answer)).toMatch(/^[A-Z]\w+$/);
    else expect(xmlCode(answer)).toBe(code);
    expect(xmlMessage(answer)).toMatch(says ?? /\w/);
  });

  const refused = [
    ["PUT", "/master.data/file?torrent"],
    ["POST", "/master.data/file?restore"],
    ["PUT", "/master.data?analytics"],
    ["GET", "/master.data?made-up"],
  ] as const;
  test.each(refused)("%s %s: 501 NotImplemented, and the object is as it was", async (method, target) => {
    const answer = await s3.ask(method, target, method === "GET" ? undefined : "<AccessControlPolicy/>");
    expect({ status: answer.status, code: xmlCode(answer) }).toEqual({ status: 501, code: "NotImplemented" });
    expect((await s3.get("master.data", "file"))?.toString()).toBe("content");
  });
});

function deletions(count: number): string {
  const objects = Array.from({ length: count }, (_, n) => `<Object><Key>k${n}</Key></Object>`);
  return `<Delete>${objects.join("")}</Delete>`;
}
