import { beforeAll, describe, expect, test } from "vitest";
import { type Ask, answer, failure, good, ROOT_KEY, s3, signed, testContext, xml } from "./support.ts";

beforeAll(async () => {
  await good("PUT /master.strict");
  await good("PUT /master.strict/file", { body: "x" });
  await good("PUT /master.strict/dir/file", { body: "x" });
});

test.each([
  ["DeleteObjects", "POST /master.strict?delete", "<Delete>"],
  ["PutBucketLifecycleConfiguration", "PUT /master.strict?lifecycle", "<LifecycleConfiguration>"],
  ["CreateBucket", "PUT /master.strict2", "<CreateBucketConfiguration>"],
])("the body of a %s that holds tags without end is refused before it is parsed", async (_, line, root) => {
  const body = `${root}${"<x/>".repeat(200_000)}${root.replace("<", "</")}`;
  expect(await failure(s3(line, { body }))).toMatchObject({
    status: 400,
    Code: "MalformedXML",
    Message: expect.stringMatching(/more than [0-9]+ tags/),
  });
});

describe("a bucket name", () => {
  test.each([
    "a.b.c.d",
    "a..c",
    "api",
    ".data",
    "master.",
    "-a.data",
    "master.da%20ta",
    "master.d%C3%A4ta",
    `${"x".repeat(64)}.r`,
  ])("%s is refused, and the form is told", async (bucket) => {
    const refused = await failure(s3(`PUT /${bucket}`));
    expect(refused).toMatchObject({ status: 400, Code: "InvalidBucketName" });
    expect(refused.Message).toMatch(/<branch>\.<repo>|'master\.api'/);
  });
});

describe("a key that the tree cannot hold", () => {
  test.each([
    ["a//b", "InvalidArgument", "//"],
    ["/a", "InvalidArgument", "//"],
    ["a%00b", "InvalidArgument", "control characters"],
    ["a%0Ab", "InvalidArgument", "control characters"],
    [`${"x".repeat(1025)}`, "KeyTooLongError", "1024"],
    [`${"%C3%BC".repeat(513)}`, "KeyTooLongError", "1024"],
  ])("%s is %s", async (key, Code, said) => {
    for (const method of ["PUT", "GET", "DELETE"]) {
      const refused = await failure(
        s3(`${method} /master.strict/${key}`, method === "PUT" ? { body: "x" } : {}),
      );
      expect(refused).toMatchObject({ status: 400, Code });
      expect(refused.Message).toContain(said);
    }
  });

  test("of 1,024 bytes is taken", async () => {
    await good(`PUT /master.strict/${"x".repeat(1024)}`, { body: "x" });
  });

  test("under a file, or where a directory is, is PathConflict and names what is in the way", async () => {
    const under = await failure(s3("PUT /master.strict/file/below", { body: "x" }));
    expect(under).toMatchObject({ status: 400, Code: "PathConflict" });
    expect(under.Message).toContain("'file'");
    const over = await failure(s3("PUT /master.strict/dir", { body: "x" }));
    expect(over).toMatchObject({ status: 400, Code: "PathConflict" });
    expect(over.Message).toContain("dir/");
  });

  test("ends in a slash and has bytes: it is refused, whether their number is told or not", async () => {
    for (const body of ["bytes", new Blob(["bytes"]).stream()]) {
      expect(await failure(s3("PUT /master.strict/made/", { body }))).toMatchObject({
        status: 400,
        Code: "InvalidArgument",
      });
    }
    expect((await s3("HEAD /master.strict/made/")).status).toBe(404);
  });
});

test("broken percent-encoding is InvalidURI", async () => {
  expect(await failure(s3("GET /master.strict/%zz"))).toMatchObject({ status: 400, Code: "InvalidURI" });
  expect(await failure(s3("GET /master.strict/%ff"))).toMatchObject({ status: 400, Code: "InvalidURI" });
});

test("metadata of more than 2 KB is refused, and 2 KB is kept", async () => {
  const tooLarge = { "x-amz-meta-a": "x".repeat(2048) };
  expect(await failure(s3("PUT /master.strict/meta", { headers: tooLarge, body: "x" }))).toMatchObject({
    status: 400,
    Code: "MetadataTooLarge",
  });
  await good("PUT /master.strict/meta", { headers: { "x-amz-meta-a": "x".repeat(2047) }, body: "x" });
});

test("a branch that is a pipeline's output is not written, deleted or emptied by others", async () => {
  const branch = testContext().branch({ repo: "output", branch: "master" });
  await branch.output.claim({ pipeline: "output", uid: "uid" });
  const refusals = [
    s3("PUT /master.output/key", { body: "x" }),
    s3("PUT /master.output/key", { body: "x".repeat(10_000) }),
    s3("DELETE /master.output/key"),
    s3("POST /master.output?delete", { body: "<Delete><Object><Key>key</Key></Object></Delete>" }),
    s3("DELETE /master.output"),
  ];
  for (const refused of await Promise.all(refusals.map(failure))) {
    expect(refused).toMatchObject({ status: 403, Code: "AccessDenied" });
    expect(refused.Message).toContain("output of a pipeline");
  }
});

const XML_BOMB = `<!DOCTYPE b [<!ENTITY a "${"x".repeat(1000)}"><!ENTITY b "${"&a;".repeat(1000)}">]><Delete><Object><Key>&b;</Key></Object></Delete>`;
const EXTERNAL = `<!DOCTYPE d [<!ENTITY e SYSTEM "file:///etc/passwd">]><Delete><Object><Key>&e;</Key></Object></Delete>`;
const named = (keys: number) =>
  `<Delete>${Array.from({ length: keys }, (_, key) => `<Object><Key>k${key}</Key></Object>`).join("")}</Delete>`;
const MIB = 1024 * 1024;

interface Row {
  readonly what: string;
  readonly line: string;
  readonly ask?: Ask;
  readonly status: number;
  readonly Code: string;
}

const row = (what: string, line: string, [status, Code]: [number, string], ask: Ask = {}): Row => ({
  what,
  line,
  ask,
  status,
  Code,
});
const put = (what: string, headers: Record<string, string>, expected: [number, string]): Row =>
  row(what, "PUT /master.strict/bad", expected, { headers, body: "content" });
const remove = (what: string, body: Ask["body"], expected: [number, string]): Row =>
  row(what, "POST /master.strict?delete", expected, body === undefined ? {} : { body });

/** What goes wrong in the world, and what S3 calls it. */
const TABLE: readonly Row[] = [
  row("a signature with another secret", "GET /", [403, "SignatureDoesNotMatch"], {
    key: { ...ROOT_KEY, secret: "wrong" },
  }),
  row("an access key id that nobody has", "GET /", [403, "InvalidAccessKeyId"], {
    key: { ...ROOT_KEY, id: "nobody" },
  }),
  put("a body that is longer than told", { "content-length": "3" }, [400, "IncompleteBody"]),
  put("a body that is cut short", { "content-length": "70" }, [400, "IncompleteBody"]),
  put("a length that is none", { "content-length": "-1" }, [400, "InvalidArgument"]),
  put("a wrong MD5", { "content-md5": "1B2M2Y8AsgTpgAmY7PhCfg==" }, [400, "BadDigest"]),
  put("an MD5 that is none", { "content-md5": "md5" }, [400, "InvalidDigest"]),
  put("a wrong SHA-256", { "x-amz-content-sha256": "0".repeat(64) }, [400, "XAmzContentSHA256Mismatch"]),
  put("a SHA-256 that is none", { "x-amz-content-sha256": "abc" }, [400, "InvalidArgument"]),
  ...["crc32", "crc32c"].map((name) =>
    put(`a wrong ${name}`, { [`x-amz-checksum-${name}`]: "AAAAAA==" }, [400, "BadDigest"]),
  ),
  put("a wrong crc64nvme", { "x-amz-checksum-crc64nvme": "AAAAAAAAAAA=" }, [400, "BadDigest"]),
  put("a wrong sha1", { "x-amz-checksum-sha1": `${"A".repeat(27)}=` }, [400, "BadDigest"]),
  put("a wrong sha256", { "x-amz-checksum-sha256": `${"A".repeat(43)}=` }, [400, "BadDigest"]),
  put("a wrong sha512", { "x-amz-checksum-sha512": `${"A".repeat(86)}==` }, [400, "BadDigest"]),
  ...["md5", "xxhash128"].map((name) =>
    put(`a wrong ${name}`, { [`x-amz-checksum-${name}`]: `${"A".repeat(22)}==` }, [400, "BadDigest"]),
  ),
  ...["xxhash64", "xxhash3"].map((name) =>
    put(`a wrong ${name}`, { [`x-amz-checksum-${name}`]: "AAAAAAAAAAA=" }, [400, "BadDigest"]),
  ),
  put("a checksum that is none", { "x-amz-checksum-crc32": "crc" }, [400, "InvalidRequest"]),
  put("two checksums", { "x-amz-checksum-crc32": "AAAAAA==", "x-amz-checksum-crc32c": "AAAAAA==" }, [
    400,
    "InvalidRequest",
  ]),
  put("an algorithm that nobody knows", { "x-amz-sdk-checksum-algorithm": "MD6" }, [400, "InvalidRequest"]),
  put("metadata of 64 KiB", { "x-amz-meta-huge": "x".repeat(64 * 1024) }, [400, "MetadataTooLarge"]),
  put("a header of 64 KiB that nobody knows", { "x-amz-huge": "x".repeat(64 * 1024) }, [
    501,
    "NotImplemented",
  ]),
  row("a PUT with neither length nor body", "PUT /master.strict/bad", [411, "MissingContentLength"]),
  remove("no body", undefined, [400, "MalformedXML"]),
  remove("a body that is no XML", "{}", [400, "MalformedXML"]),
  remove("XML that is cut short", "<Delete><Object>", [400, "MalformedXML"]),
  remove("XML with a tag that is never closed", "<Delete><Object><Key>a</Delete>", [400, "MalformedXML"]),
  remove("bytes that are not UTF-8", new Uint8Array([0x3c, 0xff, 0xfe]), [400, "MalformedXML"]),
  remove("entities that grow", XML_BOMB, [400, "MalformedXML"]),
  remove("an entity from a file", EXTERNAL, [400, "MalformedXML"]),
  remove("100,000 tags in each other", "<a>".repeat(100_000), [400, "MalformedXML"]),
  remove("10 MB of XML", `<Delete>${" ".repeat(10 * MIB)}</Delete>`, [400, "MaxMessageLengthExceeded"]),
  remove("10 MB that come without a length", new Blob([" ".repeat(10 * MIB)]).stream(), [
    400,
    "MaxMessageLengthExceeded",
  ]),
  remove("no key", "<Delete></Delete>", [400, "MalformedXML"]),
  remove("1,001 keys", named(1001), [400, "MalformedXML"]),
  ...["-1", "abc", "1.5", ""].flatMap((keys) => [
    row(`max-keys=${keys}`, `GET /master.strict?max-keys=${keys}`, [400, "InvalidArgument"]),
    row(`max-keys=${keys}, of v2`, `GET /master.strict?list-type=2&max-keys=${keys}`, [
      400,
      "InvalidArgument",
    ]),
  ]),
  ...["x", "!!!", "////", "MQ%3D%3D%3D"].map((token) =>
    row(`the token '${token}'`, `GET /master.strict?list-type=2&continuation-token=${token}`, [
      400,
      "InvalidArgument",
    ]),
  ),
  row("a listing of a third kind", "GET /master.strict?list-type=3", [400, "InvalidArgument"]),
  row("another delimiter", "GET /master.strict?delimiter=-", [400, "InvalidArgument"]),
  row("an encoding that nobody knows", "GET /master.strict?encoding-type=x", [400, "InvalidArgument"]),
  row("a version that is none", "GET /master.strict/file?versionId=x", [404, "NoSuchVersion"]),
  row("a bucket that is not there", "GET /master.gone/file", [404, "NoSuchBucket"]),
  ...["PATCH", "OPTIONS", "PROPFIND"].map((method) =>
    row(method, `${method} /master.strict/file`, [405, "MethodNotAllowed"]),
  ),
  row("a PUT of the service", "PUT /", [405, "MethodNotAllowed"]),
  row("a query of 64 KiB", `GET /master.strict?${"x".repeat(64 * 1024)}`, [501, "NotImplemented"]),
];

describe("a request is told what is wrong with it, and changes nothing", () => {
  test.each(TABLE)("$what: $status $Code", async ({ line, ask, status, Code }) => {
    const refused = await failure(s3(line, ask));
    expect(refused).toMatchObject({ status, Code });
    expect(refused.Message.length).toBeGreaterThan(20);
    const { status: there } = await s3("HEAD /master.strict/bad");
    expect(there).toBe(404);
  });

  test("max-keys above 1,000 counts as 1,000", async () => {
    expect((await s3("GET /master.strict?max-keys=100000")).status).toBe(200);
  });

  test.each([
    ["16 minutes ago", -16 * 60_000],
    ["in 16 minutes", 16 * 60_000],
    ["ten years ago", -10 * 365 * 24 * 3_600_000],
  ])("signed %s", async (_, offsetMs) => {
    const request = await signed("GET /");
    const refused = await failure(answer(request, { now: () => Date.now() - offsetMs }));
    expect(refused).toMatchObject({ status: 403, Code: "RequestTimeTooSkewed" });
  });

  test("412 of a GET is plain text, and 416 no more than code, message and size", async () => {
    const failed = await s3("GET /master.strict/file", { headers: { "if-match": '"x"' } });
    expect([failed.status, failed.headers.get("content-type")]).toEqual([412, "text/plain; charset=utf-8"]);
    expect((await failed.text()).length).toBeGreaterThan(20);
    for (const [target, headers, tags] of [
      ["", { range: "bytes=9-" }, { Code: "InvalidRange", ActualObjectSize: "1" }],
      ["?partNumber=2", {}, { Code: "InvalidPartNumber" }],
    ] as const) {
      const response = await s3(`GET /master.strict/file${target}`, { headers });
      expect(response.status).toBe(416);
      expect((await xml(response)).Error).toEqual({
        ...tags,
        Message: expect.stringMatching(/one part|1 byte/),
      });
    }
  });
});
