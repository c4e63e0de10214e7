import { describe, expect, test } from "vitest";
import { evaluateConditions, rangeApplies } from "../../../worker/s3/request/conditions.ts";

const ETAG = '"abc-3"';
// Half a second in: HTTP dates have whole seconds only.
const validators = { etag: ETAG, modifiedAt: Date.UTC(2026, 0, 2, 3, 4, 5, 500) };
const AT = "Fri, 02 Jan 2026 03:04:05 GMT";
const BEFORE = "Fri, 02 Jan 2026 03:04:04 GMT";
const AFTER = "Fri, 02 Jan 2026 03:04:06 GMT";

const verdict = (headers: Record<string, string>) =>
  evaluateConditions(new Map(Object.entries(headers)), validators);

describe("conditions", () => {
  test.each<[Record<string, string>, string]>([
    [{}, "proceed"],
    [{ "if-match": ETAG }, "proceed"],
    [{ "if-match": "abc-3" }, "proceed"],
    [{ "if-match": "*" }, "proceed"],
    [{ "if-match": `"x", ${ETAG}` }, "proceed"],
    [{ "if-match": '"x"' }, "precondition-failed"],
    [{ "if-match": `W/${ETAG}` }, "precondition-failed"],
    [{ "if-none-match": '"x"' }, "proceed"],
    [{ "if-none-match": ETAG }, "not-modified"],
    [{ "if-none-match": "abc-3" }, "not-modified"],
    [{ "if-none-match": `"x",W/${ETAG}` }, "not-modified"],
    [{ "if-none-match": "*" }, "not-modified"],
    [{ "if-modified-since": BEFORE }, "proceed"],
    [{ "if-modified-since": AT }, "not-modified"],
    [{ "if-modified-since": AFTER }, "not-modified"],
    [{ "if-modified-since": "yesterday" }, "proceed"],
    [{ "if-unmodified-since": BEFORE }, "precondition-failed"],
    [{ "if-unmodified-since": AT }, "proceed"],
    [{ "if-unmodified-since": AFTER }, "proceed"],
    [{ "if-unmodified-since": "yesterday" }, "proceed"],
  ])("%o come to '%s'", (headers, expected) => {
    expect(verdict(headers)).toBe(expected);
  });

  test("If-Match outdoes If-Unmodified-Since, and If-None-Match outdoes If-Modified-Since", () => {
    expect(verdict({ "if-match": ETAG, "if-unmodified-since": BEFORE })).toBe("proceed");
    expect(verdict({ "if-none-match": '"x"', "if-modified-since": AFTER })).toBe("proceed");
    expect(verdict({ "if-none-match": ETAG, "if-modified-since": BEFORE })).toBe("not-modified");
  });

  test("a failed precondition outdoes 304", () => {
    expect(verdict({ "if-match": '"x"', "if-none-match": ETAG })).toBe("precondition-failed");
  });

  test("If-Range lets a range be answered for this very ETag or date", () => {
    const applies = (ifRange: string) => rangeApplies(new Map([["if-range", ifRange]]), validators);
    expect(rangeApplies(new Map(), validators)).toBe(true);
    expect([ETAG, AT].map(applies)).toEqual([true, true]);
    expect(['"x"', `W/${ETAG}`, BEFORE, AFTER, "x"].map(applies)).toEqual([
      false,
      false,
      false,
      false,
      false,
    ]);
  });
});
