import { describe, expect, test } from "vitest";
import { compareOutputs, isSame } from "../../../cli/replay/compare.ts";
import type { DatumOutput } from "../../../protocol/pipelines.ts";

const content = (digit: string, size = 1) => ({ digest: digit.repeat(64), size });
const here = (path: string, digit = "a", size = 1) => ({ path, content: content(digit, size) });
const made = (path: string, digit: string | null = "a", merged = false): DatumOutput => ({
  ...{ path, merged },
  content: digit === null ? null : content(digit),
});
const states = (of: DatumOutput[], at: ReturnType<typeof here>[]) =>
  compareOutputs(of, at).map(({ path, state }) => `${path} ${state}`);

describe("what a datum makes here", () => {
  test("is compared path by path, by digest and size, in byte order", () => {
    expect(
      states(
        [made("b"), made("same"), made("size"), made("Z"), made("\uffee")],
        [here("same"), here("b", "c"), here("size", "a", 2), here("\u{1f600}"), here("Z")],
      ),
    ).toEqual(["Z same", "b differs", "same same", "size differs", "\uffee missing", "\u{1f600} extra"]);
  });

  test("is the same if all that can be compared is", () => {
    const unknown = compareOutputs([made("all", null, true), made("a")], [here("all"), here("a")]);
    expect(unknown.map(({ state }) => state)).toEqual(["same", "unknown"]);
    expect(isSame(unknown)).toBe(true);
    expect(isSame(compareOutputs([], []))).toBe(true);
  });

  test.each([
    ["a path is missing, also one whose content is not known", [made("all", null)], []],
    ["a path is there that the job has not", [], [here("x")]],
    ["a directory took the place of a file", [made("x")], [here("x/")]],
  ])("is not the same if %s", (_, of, at) => {
    expect(isSame(compareOutputs(of, at))).toBe(false);
  });
});
