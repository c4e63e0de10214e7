import { expect, test } from "vitest";
import type { Payload } from "../../../../worker/app.ts";
import { S3Error } from "../../../../worker/s3/answer/errors.ts";
import { readTextBody } from "../../../../worker/s3/body/read-body.ts";
import type { ServiceRequest } from "../../../../worker/s3/operation.ts";
import { EXAMPLE_KEY } from "../auth/support.ts";
import { framed, joined, SIGNED_TRAILER, SIGNING, UNSIGNED_TRAILER } from "./support.ts";

const PLAIN: Payload = { form: "plain", sha256: null };
const HELLO = joined("hello");

interface Sent {
  readonly payload?: Payload;
  readonly headers?: Record<string, string>;
  readonly body?: Uint8Array<ArrayBuffer> | null;
}

/** The text, or the code of the refusal. */
async function read({ payload = PLAIN, headers = {}, body = HELLO }: Sent, maxBytes = 100): Promise<string> {
  const request = {
    caller: { keyId: EXAMPLE_KEY.id, scope: EXAMPLE_KEY.scope, payload },
    headers: new Map(Object.entries(headers)),
    body: body && new Blob([body]).stream(),
    now: Date.now,
  };
  try {
    return await readTextBody(request as unknown as ServiceRequest, maxBytes);
  } catch (error) {
    if (error instanceof S3Error) return error.code;
    throw error;
  }
}

test("a body of any form comes as text", async () => {
  const trailer = [["x-amz-checksum-crc32", "NhCmhg=="]] as const;
  const headers = { "x-amz-decoded-content-length": "5", "x-amz-trailer": "x-amz-checksum-crc32" };
  const unsigned = framed(HELLO, { sizes: [2, 3], trailer });
  const signed = framed(HELLO, { sizes: [5], trailer, signing: SIGNING });
  expect(await read({})).toBe("hello");
  expect(await read({ headers: { "content-length": "5" } })).toBe("hello");
  expect(await read({ body: null })).toBe("");
  expect(await read({ body: null, headers: { "content-length": "0" } })).toBe("");
  expect(await read({ payload: UNSIGNED_TRAILER, headers, body: unsigned })).toBe("hello");
  expect(await read({ payload: SIGNED_TRAILER, headers, body: signed })).toBe("hello");
});

test.each([
  ["x-amz-checksum-crc32", "NhCmhg==", "AAAAAA=="],
  ["x-amz-checksum-crc32c", "mnG7TA==", "AAAAAA=="],
  ["x-amz-checksum-crc64nvme", "M3eFcAZSQlc=", "AAAAAAAAAAA="],
  ["x-amz-checksum-sha1", "qvTGHdzF6KLavt4PO0gs2a6pQ00=", "2jmj7l5rSw0yVb/vlWAYkK/YBwk="],
  [
    "x-amz-checksum-sha256",
    "LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=",
    "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
  ],
  ["content-md5", "XUFAKrxLKna5cZ2REBfFkg==", "1B2M2Y8AsgTpgAmY7PhCfg=="],
])("%s is checked", async (name, right, wrong) => {
  expect(await read({ headers: { [name]: right } })).toBe("hello");
  expect(await read({ headers: { [name]: wrong } })).toBe("BadDigest");
});

test("a checksum in the trailer is checked", async () => {
  const headers = { "x-amz-decoded-content-length": "5", "x-amz-trailer": "x-amz-checksum-crc32" };
  const body = framed(HELLO, { sizes: [5], trailer: [["x-amz-checksum-crc32", "AAAAAA=="]] });
  expect(await read({ payload: UNSIGNED_TRAILER, headers, body })).toBe("BadDigest");
});

test("the signed SHA-256 is checked", async () => {
  expect(await read({ payload: { form: "plain", sha256: "0".repeat(64) } })).toBe(
    "XAmzContentSHA256Mismatch",
  );
});

test("what framing did wrong is what the client hears of", async () => {
  const headers = { "x-amz-decoded-content-length": "5" };
  const trailer = [["x-amz-checksum-crc32", "NhCmhg=="]] as const;
  const body = framed(HELLO, { sizes: [5], trailer });
  expect(await read({ payload: UNSIGNED_TRAILER, headers, body })).toBe("MalformedTrailerError");
  expect(await read({ payload: UNSIGNED_TRAILER, headers, body: HELLO })).toBe("IncompleteBody");
  const other = framed(HELLO, { sizes: [5], signing: { ...SIGNING, seed: "0".repeat(64) } });
  const payload: Payload = { form: "aws-chunked", signing: SIGNING, trailer: "none" };
  expect(await read({ payload, headers, body: other })).toBe("SignatureDoesNotMatch");
});

test("more than may come is refused, said or not", async () => {
  expect(await read({}, 5)).toBe("hello");
  expect(await read({}, 4)).toBe("MaxMessageLengthExceeded");
  expect(await read({ headers: { "content-length": "5" } }, 4)).toBe("MaxMessageLengthExceeded");
  const headers = { "x-amz-decoded-content-length": "5" };
  expect(await read({ payload: UNSIGNED_TRAILER, headers }, 4)).toBe("MaxMessageLengthExceeded");
});

test("another number of bytes than Content-Length says is refused", async () => {
  expect(await read({ headers: { "content-length": "6" } })).toBe("IncompleteBody");
  expect(await read({ headers: { "content-length": "4" } })).toBe("IncompleteBody");
  expect(await read({ headers: { "content-length": "5" }, body: null })).toBe("IncompleteBody");
});

test("what is not UTF-8 is refused", async () => {
  expect(await read({ body: new Uint8Array([0xff, 0xfe]) })).toBe("MalformedXML");
});
