import { describe, expect, test } from "vitest";
import { toHex } from "../../../../protocol/digest.ts";
import {
  canonicalRequest,
  type SignableRequest,
  SigningKeys,
  stringToSign,
} from "../../../../worker/s3/auth/signature.ts";
import { EXAMPLE_KEY, EXAMPLE_SCOPE, EXAMPLE_TIME, options, targetOf, verify } from "./support.ts";

/** A PUT whose signature is over one value of a header, and which arrives with another. */
function arrives(name: string, { signed, came }: { signed: string; came: string }): SignableRequest {
  const payloadHash = "UNSIGNED-PAYLOAD";
  const fixed: [string, string][] = [
    ["host", "examplebucket.s3.amazonaws.com"],
    ["x-amz-content-sha256", payloadHash],
    ["x-amz-date", EXAMPLE_TIME],
  ];
  const signedHeaders = [...fixed.map(([each]) => each), name].sort();
  const request = { method: "PUT", target: targetOf("/key"), headers: new Map([...fixed, [name, signed]]) };
  const scope = { date: "20130524", region: "us-east-1" };
  const canonical = canonicalRequest(request, { signedHeaders, payloadHash, reading: "canonical" });
  const key = new SigningKeys(1).get({ secret: EXAMPLE_KEY.secret, ...scope });
  const signature = toHex(key.sign(stringToSign(canonical, { time: EXAMPLE_TIME, ...scope })));
  const authorization = `AWS4-HMAC-SHA256 Credential=${EXAMPLE_KEY.id}/${EXAMPLE_SCOPE},SignedHeaders=${signedHeaders.join(";")},Signature=${signature}`;
  return {
    ...request,
    headers: new Map<string, string>([...fixed, [name, came], ["authorization", authorization]]),
  };
}

describe("a header that arrives as `a, b` and was signed as `a,b`", () => {
  test.each([
    "x-amz-meta-note",
    "x-amz-copy-source",
    "x-amz-copy-source-if-match",
    "content-disposition",
    "content-type",
    "expires",
  ])("is not what was signed: %s", async (name) => {
    const changed = arrives(name, { signed: "a,b", came: "a, b" });
    expect(await verify(changed, options())).toMatchObject({ ok: false, code: "SignatureDoesNotMatch" });
    for (const value of ["a,b", "a, b"])
      expect(await verify(arrives(name, { signed: value, came: value }), options())).toMatchObject({
        ok: true,
      });
  });

  test.each([
    "x-amz-object-attributes",
    "cache-control",
    "if-none-match",
    "x-of-a-proxy",
  ])("is a list that came in two headers: %s", async (name) => {
    const joined = arrives(name, { signed: "a,b", came: "a, b" });
    expect(await verify(joined, options())).toMatchObject({ ok: true });
    const other = arrives(name, { signed: "a,b", came: "a, c" });
    expect(await verify(other, options())).toMatchObject({ ok: false });
  });
});
