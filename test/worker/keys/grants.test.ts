import { describe, expect, test } from "vitest";
import { type Grant, openGrants } from "../../../worker/keys/grants.ts";

const output = { repo: "edges", branch: "master" };
const images = { repo: "images", branch: "master", commit: "01COMMIT", from: null };
const labels = { repo: "labels", branch: "v2", commit: "01LABELS", from: "01BEFORE" };
const grant: Grant = { pipeline: "edges", inputs: [images, labels], output };
const terms = { keyId: "SLUICE00000000000001", until: 1000 };
const reader = { keyId: terms.keyId, now: 999 };
const grants = openGrants(["root-secret"]);

/** The grant with one character of its text changed. */
function* altered(text: string): Generator<string> {
  for (let at = 0; at < text.length; at++) {
    // The last digit of each part may hold bits that are not used.
    if (text[at] === "." || text[at + 1] === "." || at === text.length - 1) continue;
    yield `${text.slice(0, at)}${text[at] === "A" ? "B" : "A"}${text.slice(at + 1)}`;
  }
}

describe("a grant", () => {
  test("says to its key, until it ends, what it was made for", () => {
    expect(grants.open(grants.sign(grant, terms), reader)).toEqual({ ok: true, grant });
  });

  test("is good for no other key", () => {
    const other = { ...reader, keyId: "SLUICE00000000000002" };
    expect(grants.open(grants.sign(grant, terms), other)).toEqual({ ok: false, fault: "of-another-key" });
  });

  test("ends", () => {
    const text = grants.sign(grant, terms);
    for (const now of [1000, 1001]) {
      expect(grants.open(text, { ...reader, now })).toEqual({ ok: false, fault: "expired" });
    }
  });

  test("that was good a moment ago is looked at again: whose it is, and whether it has ended", () => {
    const text = grants.sign(grant, terms);
    expect(grants.open(text, reader)).toMatchObject({ ok: true });
    const other = { ...reader, keyId: "SLUICE00000000000002" };
    expect(grants.open(text, other)).toEqual({ ok: false, fault: "of-another-key" });
    expect(grants.open(text, { ...reader, now: 1000 })).toEqual({ ok: false, fault: "expired" });
    expect(grants.open(text, reader)).toMatchObject({ ok: true });
  });

  test("that was altered anywhere is none", () => {
    for (const text of altered(grants.sign(grant, terms))) {
      expect(grants.open(text, reader).ok, text).toBe(false);
    }
    const [version, , mac] = grants.sign(grant, terms).split(".");
    const [, body] = grants.sign({ ...grant, inputs: [] }, terms).split(".");
    expect(grants.open(`${version}.${body}.${mac}`, reader)).toEqual({ ok: false, fault: "forged" });
  });

  test("is not any other text", () => {
    for (const text of [
      "",
      ".",
      "..",
      "1..",
      "1.a.b",
      "2.e30.AAAA",
      "1.!.!",
      `1.e30.${"A".repeat(43)}`,
      "1.a.b.c",
    ]) {
      expect(grants.open(text, reader).ok, text).toBe(false);
    }
  });

  test("that another gateway made is none here", () => {
    const text = openGrants(["another-secret"]).sign(grant, terms);
    expect(grants.open(text, reader)).toEqual({ ok: false, fault: "forged" });
  });

  test("is good under either of two root secrets, and is made with the first", () => {
    const both = openGrants(["new-secret", "root-secret"]);
    expect(both.open(grants.sign(grant, terms), reader)).toEqual({ ok: true, grant });
    const text = both.sign(grant, terms);
    expect(openGrants(["new-secret"]).open(text, reader)).toEqual({ ok: true, grant });
    expect(grants.open(text, reader)).toEqual({ ok: false, fault: "forged" });
  });
});
