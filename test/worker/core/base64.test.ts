import { describe, expect, test } from "vitest";
import { decodeBase64, encodeBase64 } from "../../../worker/core/base64.ts";
import { randomBytes } from "../blobs/reference.ts";

describe("base64", () => {
  test("is what the platform makes of the same bytes, and comes back the same", () => {
    for (let size = 0; size < 100; size++) {
      const bytes = randomBytes(size, size);
      const text = encodeBase64(bytes);
      expect(text).toBe(btoa(String.fromCharCode(...bytes)));
      expect(decodeBase64(text)).toEqual(bytes);
    }
  });

  test("is refused in any other than the one right spelling", () => {
    for (const text of [
      "A",
      "AA",
      "AAA",
      "AB==",
      "AAB=",
      "AA=",
      "AA===",
      "A===",
      "=",
      "====",
      "AA==AA==",
      "AAAA=",
      "AA\n==",
      " AAAA",
      "AA-_",
      "ÄÄÄÄ",
    ])
      expect(decodeBase64(text), text).toBeNull();
  });
});
