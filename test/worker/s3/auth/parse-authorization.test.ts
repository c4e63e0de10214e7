import { expect, test } from "vitest";
import { parseAuthorization } from "../../../../worker/s3/auth/parse-authorization.ts";
import { EXAMPLE_KEY, EXAMPLE_SCOPE } from "./support.ts";

const [A, B] = ["a".repeat(64), "b".repeat(64)] as const;
const CREDENTIAL = `AWS4-HMAC-SHA256 Credential=${EXAMPLE_KEY.id}/${EXAMPLE_SCOPE}`;
const FIELDS = { keyId: EXAMPLE_KEY.id, date: "20130524", region: "us-east-1" };

test("of two headers that differ in their signatures alone, each has its own", () => {
  const head = `${CREDENTIAL}, SignedHeaders=Host;x-amz-date, Signature=`;
  const said = { ...FIELDS, signedHeaders: ["host", "x-amz-date"] };
  for (const signature of [A, B, A]) {
    expect(parseAuthorization(head + signature)).toEqual({ ...said, signature });
  }
  expect(() => parseAuthorization(head + "A".repeat(64))).toThrow(
    "Signature must be 64 lower-case hex digits",
  );
  expect(() => parseAuthorization(head + A.slice(1))).toThrow("Signature must be 64 lower-case hex digits");
  expect(() => parseAuthorization(`${head}${A}a`)).toThrow("Signature must be 64 lower-case hex digits");
});

test("a field behind which the signature stands without a comma takes it in", () => {
  for (const signature of [A, B]) {
    const header = `${CREDENTIAL}, SignedHeaders=host Signature=${signature}`;
    expect(parseAuthorization(header).signedHeaders).toEqual([`host signature=${signature}`]);
  }
});

test("of two signatures in a header the first counts", () => {
  for (const second of [A, B]) {
    const header = `${CREDENTIAL}, SignedHeaders=host, Signature=${A}, Signature=${second}`;
    expect(parseAuthorization(header).signature).toBe(A);
  }
});

test("many heads are read as they are, whatever was read before", () => {
  for (let round = 0; round < 2; round++) {
    for (let i = 0; i < 250; i++) {
      const header = `${CREDENTIAL}, SignedHeaders=host;x-amz-${i}, Signature=${A}`;
      expect(parseAuthorization(header).signedHeaders).toEqual(["host", `x-amz-${i}`]);
    }
  }
});
