import { createHash, createHmac } from "node:crypto";
import { expect, test } from "vitest";
import { SigningKeys, stringToSign } from "../../../../worker/s3/auth/signature.ts";

const SCOPE = { date: "20130524", region: "us-east-1" };
/** Of all lengths around a block of the hash, beyond what is encoded in place, and with characters of several bytes. */
const TEXTS = [
  ...[0, 1, 55, 56, 63, 64, 65, 119, 120, 128, 4095, 4096, 4097, 20_000].map((length) => "a".repeat(length)),
  "ä".repeat(2048),
  "ä".repeat(2049),
  "🙂".repeat(1500),
  "a lone \ud800 surrogate",
];

test("texts that are signed one after the other, with two keys in turns, have the signatures of an HMAC of their own", () => {
  const keys = new SigningKeys(10);
  const secrets = ["one secret", "another secret"];
  for (const text of [...TEXTS, ...TEXTS.toReversed()]) {
    for (const secret of secrets) {
      const signed = keys.get({ secret, ...SCOPE }).sign(text);
      expect(Buffer.from(signed).toString("hex")).toBe(hmac(signingKey(secret), text).toString("hex"));
    }
  }
});

test("a signature that was given out stays what it is when the key signs another text", () => {
  const key = new SigningKeys(10).get({ secret: "one secret", ...SCOPE });
  const first = key.sign("first");
  const kept = [...first];
  key.sign("second");
  expect([...first]).toEqual(kept);
});

test("the string to sign has the hash of each canonical request", () => {
  for (const text of [...TEXTS, ...TEXTS.toReversed()]) {
    const lines = stringToSign(text, { time: "20130524T000000Z", ...SCOPE }).split("\n");
    expect(lines.at(-1)).toBe(createHash("sha256").update(Buffer.from(text)).digest("hex"));
  }
});

function hmac(key: Buffer | string, text: string): Buffer {
  return createHmac("sha256", key).update(text).digest();
}

function signingKey(secret: string): Buffer {
  const dated = hmac(`AWS4${secret}`, SCOPE.date);
  return hmac(hmac(hmac(dated, SCOPE.region), "s3"), "aws4_request");
}
