import { createHash, createHmac } from "node:crypto";
import { expect, test } from "vitest";
import { toHex } from "../../../../protocol/digest.ts";
import { hmacSha256, sha256Hex } from "../../../../worker/s3/auth/text-sha256.ts";

/** Of every length around the ends of blocks, then longer than the shared buffer, in characters of one to four bytes. */
const TEXTS = [
  ...Array.from({ length: 260 }, (_, length) => "x".repeat(length)),
  "é".repeat(61),
  "日本\ud83d\ude00".repeat(40),
  // Half a character is hashed as U+FFFD.
  "a\ud800b",
  "x".repeat(8192),
  "日".repeat(100_001),
  "short again",
];

const bytesOf = (text: string) => new TextEncoder().encode(text);

test("texts have the SHA-256 that the platform says", () => {
  for (const text of TEXTS)
    expect(sha256Hex(text)).toBe(createHash("sha256").update(bytesOf(text)).digest("hex"));
});

test("texts have the HMAC that the platform says, with keys of each length", () => {
  for (const length of [0, 1, 32, 63, 64]) {
    const key = Uint8Array.from({ length }, (_, at) => (at * 7 + 200) % 256);
    const sign = hmacSha256(key);
    for (const text of TEXTS) {
      expect(toHex(sign(text))).toBe(createHmac("sha256", key).update(bytesOf(text)).digest("hex"));
    }
  }
});

test("two keys do not meet in what they share", () => {
  const [first, second] = [1, 2].map((byte) => hmacSha256(new Uint8Array(32).fill(byte)));
  const before = first?.("text");
  second?.("another");
  sha256Hex("a third");
  expect(first?.("text")).toEqual(before);
});
