import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { LIMITED, withSmallLimits } from "./limits.ts";

const ROOT = join(import.meta.dirname, "../../..");

test("each limit that histories make small is in the code, is larger there, and moves nothing when it is made small", () => {
  for (const file of LIMITED) {
    const path = join(ROOT, file);
    const source = readFileSync(path, "utf8");
    const small = withSmallLimits(path);
    expect(small).not.toBe(source);
    expect(small.split("\n").map(({ length }) => length)).toEqual(
      source.split("\n").map(({ length }) => length),
    );
  }
});
