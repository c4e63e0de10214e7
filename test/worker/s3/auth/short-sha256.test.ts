import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { hmac, hmacKey, sha256Hex } from "../../../../worker/s3/auth/short-sha256.ts";

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

test("the hash is the platform's, at every length around blocks, of any text, and of a long one", () => {
  const texts = Array.from({ length: 300 }, (_, length) =>
    "a\u0000ü€😀z".repeat(length).slice(0, length).toWellFormed(),
  );
  for (const text of [...texts, "x".repeat(100_000), "", "abc"]) {
    const platform = createHash("sha256").update(new TextEncoder().encode(text)).digest("hex");
    expect(sha256Hex(text)).toBe(platform);
  }
});

test("the HMAC is the platform's, for keys up to a block, whatever was hashed before", async () => {
  for (const length of [0, 1, 20, 32, 63, 64]) {
    const key = new Uint8Array(length).map((_, i) => i * 7);
    const mine = hmacKey(key);
    // The platform takes no empty key, and pads one with zeros.
    const raw = length === 0 ? new Uint8Array(1) : key;
    const theirs = await crypto.subtle.importKey("raw", raw, { name: "HMAC", hash: "SHA-256" }, false, [
      "sign",
    ]);
    for (const text of ["", "what do ya want for nothing?", "ü".repeat(2000), "x"]) {
      const expected = new Uint8Array(
        await crypto.subtle.sign("HMAC", theirs, new TextEncoder().encode(text)),
      );
      expect(hex(hmac(mine, text))).toBe(hex(expected));
    }
  }
});

test("a key longer than a block is refused", () => {
  expect(() => hmacKey(new Uint8Array(65))).toThrow("65 bytes");
});
