import { describe, expect, it } from "vitest";
import { Duration, parseDuration } from "../../../protocol/duration.ts";
import { nearest } from "../../../worker/core/nearest.ts";
import { comparePaths } from "../../../worker/core/path-order.ts";

describe("a duration", () => {
  it.each([
    ["30s", 30_000],
    ["5m", 300_000],
    ["1h30m", 5_400_000],
    ["1h0m0s", 3_600_000],
    ["1.5h", 5_400_000],
    ["250ms", 250],
    ["1m1.5s", 61_500],
    ["0s", 0],
  ])("of %s is %i ms", (text, millis) => {
    expect(parseDuration(text)).toBe(millis);
  });

  it.each([
    "",
    "5",
    "-5s",
    "+5s",
    "5 s",
    "5S",
    "1d",
    "s",
    "1h 30m",
    ".5s",
    "5.s",
    "1e3s",
    "٣s",
    "5s\n",
  ])("is not %j", (text) => {
    expect(parseDuration(text)).toBeUndefined();
    expect(Duration.safeParse(text).success).toBe(false);
  });

  it("in a specification is more than nothing and at most 24 days", () => {
    expect(["1ms", "576h", "24h"].map((text) => Duration.safeParse(text).success)).toEqual([
      true,
      true,
      true,
    ]);
    expect(
      ["0ms", "0.1ms", "576h1ms", `${"9".repeat(400)}h`].map((text) => Duration.safeParse(text).success),
    ).toEqual([false, false, false, false]);
  });
});

describe("the nearest known name", () => {
  const known = ["parallelism_spec", "inputs", "outputBranch", "pipeline", "glob", "datumTries"];

  it.each([
    ["parallelismSpec", "parallelism_spec"],
    ["input", "inputs"],
    ["output_branch", "outputBranch"],
    ["pipelien", "pipeline"],
    ["golb", "glob"],
    ["DatumTrys", "datumTries"],
  ])("to %s is %s", (name, expected) => {
    expect(nearest(name, known)).toBe(expected);
  });

  it.each(["", "x", "egress", "description", "z".repeat(100_000)])("to %.20s is none", (name) => {
    expect(nearest(name, known)).toBeUndefined();
  });
});

describe("paths", () => {
  it("are in the order of their UTF-8 bytes", () => {
    const paths = ["", "a", "a-b", "a/b", "ab", "é", "\uff5e", "😀", "😀a"];
    expect(paths.toReversed().sort(comparePaths)).toEqual(paths);
    expect(comparePaths("a", "a")).toBe(0);
  });
});
