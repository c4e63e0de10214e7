import { describe, expect, test } from "vitest";
import { openSecret, sealSecret } from "../../../worker/keys/sealed-secret.ts";

const id = "SLUICE00000000000001";
const encryptionKey = btoa("k".repeat(32));

describe("a sealed secret", () => {
  test("opens with its id and encryption key, whichever base64 that is in", async () => {
    const bytes = btoa(String.fromCharCode(...new Uint8Array(32).fill(0xfb)));
    const sealed = await sealSecret("s3cr3t/ü", { id, encryptionKey: bytes });
    expect(await openSecret(sealed, { id, encryptionKeys: [bytes] })).toMatchObject({ secret: "s3cr3t/ü" });
    const url = bytes.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
    expect(url).not.toBe(bytes);
    expect(await openSecret(sealed, { id, encryptionKeys: [url] })).toMatchObject({ secret: "s3cr3t/ü" });
  });

  test("is never twice the same, and does not hold the secret", async () => {
    const [one, two] = await Promise.all([1, 2].map(() => sealSecret("secret", { id, encryptionKey })));
    expect(one).not.toBe(two);
    expect(atob(one ?? "")).not.toContain("secret");
  });

  test("does not open with another encryption key, for another id, or when it was tampered with", async () => {
    const sealed = await sealSecret("secret", { id, encryptionKey });
    const encryptionKeys = [encryptionKey];
    const others = [btoa("x".repeat(32)), btoa("y".repeat(32))];
    expect(await openSecret(sealed, { id, encryptionKeys: others })).toBeUndefined();
    expect(await openSecret(sealed, { id, encryptionKeys: [] })).toBeUndefined();
    expect(await openSecret(sealed, { id: "SLUICE00000000000002", encryptionKeys })).toBeUndefined();
    const flipped = (sealed.startsWith("A") ? "B" : "A") + sealed.slice(1);
    for (const broken of [flipped, sealed.slice(0, 20), "", "not base64!"])
      expect(await openSecret(broken, { id, encryptionKeys })).toBeUndefined();
  });

  test("opens with either of two encryption keys, and says which", async () => {
    const other = btoa("n".repeat(32));
    const sealed = await sealSecret("secret", { id, encryptionKey });
    expect(await openSecret(sealed, { id, encryptionKeys: [other, encryptionKey] })).toEqual({
      secret: "secret",
      encryptionKey,
    });
  });
});
