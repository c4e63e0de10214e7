import { describe, expect, test } from "vitest";
import { parseAuthorization } from "../../../../worker/s3/auth/parse-authorization.ts";
import { canonicalRequest } from "../../../../worker/s3/auth/signature.ts";
import {
  EXAMPLE_KEY,
  EXAMPLE_NOW,
  EXAMPLE_SCOPE,
  EXAMPLE_TIME,
  options,
  targetOf,
  verify,
} from "./support.ts";

/**
 * The worked examples of AWS, "Authenticating Requests: Using the Authorization Header (AWS Signature Version 4)":
 * bucket examplebucket, 24 May 2013, us-east-1.
 */
const EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const WELCOME = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072";

const EXAMPLES = [
  {
    name: "GET Object",
    method: "GET",
    target: "/test.txt",
    headers: { range: "bytes=0-9", "x-amz-content-sha256": EMPTY },
    signedHeaders: "host;range;x-amz-content-sha256;x-amz-date",
    signature: "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
  },
  {
    name: "PUT Object",
    method: "PUT",
    target: "/test%24file.text",
    headers: {
      date: "Fri, 24 May 2013 00:00:00 GMT",
      "x-amz-storage-class": "REDUCED_REDUNDANCY",
      "x-amz-content-sha256": WELCOME,
    },
    signedHeaders: "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
    signature: "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
  },
  {
    name: "GET Bucket Lifecycle",
    method: "GET",
    target: "/?lifecycle",
    headers: { "x-amz-content-sha256": EMPTY },
    signedHeaders: "host;x-amz-content-sha256;x-amz-date",
    signature: "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
  },
  {
    name: "Get Bucket (List Objects)",
    method: "GET",
    target: "/?max-keys=2&prefix=J",
    headers: { "x-amz-content-sha256": EMPTY },
    signedHeaders: "host;x-amz-content-sha256;x-amz-date",
    signature: "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
  },
] as const;

type Example = (typeof EXAMPLES)[number];

function requestOf(example: Example, target: string = example.target) {
  return {
    method: example.method,
    target: targetOf(target),
    headers: new Map<string, string>([
      ...Object.entries(example.headers),
      ["host", "examplebucket.s3.amazonaws.com"],
      ["x-amz-date", EXAMPLE_TIME],
      [
        "authorization",
        `AWS4-HMAC-SHA256 Credential=${EXAMPLE_KEY.id}/${EXAMPLE_SCOPE},SignedHeaders=${example.signedHeaders},Signature=${example.signature}`,
      ],
    ]),
  };
}

describe.each(EXAMPLES)("AWS's worked example $name", (example) => {
  test("is let in", async () => {
    const { "x-amz-content-sha256": sha256 } = example.headers;
    expect(await verify(requestOf(example), options())).toEqual({
      ok: true,
      caller: { keyId: EXAMPLE_KEY.id, scope: EXAMPLE_KEY.scope, payload: { form: "plain", sha256 } },
    });
  });

  test("is not let in with another secret, path, query, method, header value or body", async () => {
    const request = requestOf(example);
    const changed = [
      { ...request, method: "DELETE" },
      { ...request, target: targetOf("/test2.txt") },
      { ...request, target: targetOf(`${example.target}${example.target.includes("?") ? "&" : "?"}acl`) },
      { ...request, headers: new Map(request.headers).set("host", "other.example") },
      { ...request, headers: new Map(request.headers).set("x-amz-content-sha256", "0".repeat(64)) },
    ];
    for (const each of changed) {
      expect(await verify(each, options())).toMatchObject({ ok: false, code: "SignatureDoesNotMatch" });
    }
    const otherSecret = options({ key: { ...EXAMPLE_KEY, secret: `${EXAMPLE_KEY.secret}x` } });
    expect(await verify(request, otherSecret)).toMatchObject({ ok: false, code: "SignatureDoesNotMatch" });
  });
});

test("the canonical request of GET Object is the published one, line by line", () => {
  const [example] = EXAMPLES;
  const signed = { signedHeaders: example.signedHeaders.split(";"), payloadHash: EMPTY };
  expect(canonicalRequest(requestOf(example), { ...signed, reading: "canonical" }).split("\n")).toEqual([
    "GET",
    "/test.txt",
    "",
    "host:examplebucket.s3.amazonaws.com",
    "range:bytes=0-9",
    `x-amz-content-sha256:${EMPTY}`,
    "x-amz-date:20130524T000000Z",
    "",
    "host;range;x-amz-content-sha256;x-amz-date",
    EMPTY,
  ]);
});

test("the query is decoded, encoded anew and sorted by name and then value", () => {
  const signed = { signedHeaders: [], payloadHash: EMPTY, reading: "canonical" as const };
  const canonical = canonicalRequest(
    { method: "GET", target: targetOf("/?b=2&a=%7e&b=1&delete&c=x+y%2B(z)"), headers: new Map() },
    signed,
  );
  expect(canonical.split("\n")[2]).toBe("a=~&b=1&b=2&c=x%20y%2B%28z%29&delete=");
});

test("the path is decoded and encoded anew, whatever form of it was sent", () => {
  const signed = { signedHeaders: [], payloadHash: EMPTY, reading: "canonical" as const };
  const canonical = canonicalRequest(
    { method: "GET", target: targetOf("/b/%C3%BC%2f+'(%7e)//x"), headers: new Map() },
    signed,
  );
  expect(canonical.split("\n")[1]).toBe("/b/%C3%BC/%2B%27%28~%29//x");
});

test("header values are trimmed and their inner spaces made one", () => {
  const canonical = canonicalRequest(
    { method: "GET", target: targetOf("/"), headers: new Map([["x-amz-meta-a", "  b   c  "]]) },
    { signedHeaders: ["x-amz-meta-a"], payloadHash: EMPTY, reading: "canonical" },
  );
  expect(canonical.split("\n")[3]).toBe("x-amz-meta-a:b c");
});

test("a clock may be 15 minutes off and no more, in either direction", async () => {
  const [example] = EXAMPLES;
  const minutes = (count: number) =>
    verify(requestOf(example), options({ now: EXAMPLE_NOW + count * 60_000 }));
  expect((await minutes(15)).ok && (await minutes(-15)).ok).toBe(true);
  expect(await minutes(15.1)).toMatchObject({ ok: false, code: "RequestTimeTooSkewed" });
  expect(await minutes(-15.1)).toMatchObject({ ok: false, code: "RequestTimeTooSkewed" });
});

test.each([
  ["AWS AKIA:abcd", "InvalidRequest"],
  ["AWS4-ECDSA-P256-SHA256 Credential=a", "InvalidRequest"],
  ["Bearer abc", "InvalidArgument"],
  ["AWS2-HMAC-SHA1 Credential=a", "InvalidArgument"],
  ["AWS4-HMAC-SHA256", "AuthorizationHeaderMalformed"],
  ["AWS4-HMAC-SHA256 SignedHeaders=host, Signature=0", "AuthorizationHeaderMalformed"],
  ["AWS4-HMAC-SHA256 Credential=a/20130524/r/s3/aws4_request, Signature=0", "AuthorizationHeaderMalformed"],
  [
    "AWS4-HMAC-SHA256 Credential=a/20130524/r/s3/aws4_request, SignedHeaders=host",
    "AuthorizationHeaderMalformed",
  ],
  [
    "AWS4-HMAC-SHA256 Credential=a/20130524/r/s3/aws4_request, SignedHeaders=host, Signature=xyz",
    "AuthorizationHeaderMalformed",
  ],
  [
    "AWS4-HMAC-SHA256 Credential=a/2013/r/s3/aws4_request, SignedHeaders=host, Signature=0",
    "AuthorizationHeaderMalformed",
  ],
  [
    "AWS4-HMAC-SHA256 Credential=a/20130524//s3/aws4_request, SignedHeaders=host, Signature=0",
    "AuthorizationHeaderMalformed",
  ],
  [
    "AWS4-HMAC-SHA256 Credential=a/20130524/r/ec2/aws4_request, SignedHeaders=host, Signature=0",
    "AuthorizationHeaderMalformed",
  ],
  [
    "AWS4-HMAC-SHA256 Credential=20130524/r/s3/aws4_request, SignedHeaders=host, Signature=0",
    "AuthorizationHeaderMalformed",
  ],
])("the header 'Authorization: %s' is refused with %s", (header, code) => {
  expect(() => parseAuthorization(header)).toThrow(expect.objectContaining({ code }));
});
