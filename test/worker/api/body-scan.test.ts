import { describe, expect, test } from "vitest";
import { brokenLimit } from "../../../worker/api/request/body-scan.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

describe("what a body holds, before it is parsed", () => {
  test.each([
    ["[[1]]", { depth: 2, values: 10 }, undefined],
    ["[[1]]", { depth: 1, values: 10 }, "depth"],
    ['{"a":{"b":[{}]}}', { depth: 4, values: 10 }, undefined],
    ['{"a":{"b":[{}]}}', { depth: 3, values: 10 }, "depth"],
    // One after the other is not one inside the other.
    ["[[],[],[],[]]", { depth: 2, values: 10 }, undefined],
    ["[1,2,3,4]", { depth: 9, values: 4 }, undefined],
    ["[1,2,3,4,5]", { depth: 9, values: 4 }, "values"],
    ["{},{},{}", { depth: 9, values: 4 }, "values"],
    // In a string they are text, whatever is escaped there.
    ['"[[[[{{{{,,,,,"', { depth: 1, values: 1 }, undefined],
    ['["\\"[[[,,,", "\\\\"]', { depth: 1, values: 2 }, undefined],
    ['["\\\\",[[', { depth: 2, values: 9 }, "depth"],
    // What is no JSON is left to the parser.
    ['"[[[[', { depth: 1, values: 1 }, undefined],
    ['"\\', { depth: 1, values: 1 }, undefined],
    ["]]]]", { depth: 1, values: 1 }, undefined],
    ["", { depth: 0, values: 0 }, undefined],
  ] as const)("%s is held to %j: %s", (text, limits, expected) => {
    expect(brokenLimit(bytes(text), { keys: 9, ...limits })).toBe(expected);
  });

  test.each([
    ['{"a":1,"b":2}', undefined],
    ['{"a":1,"b":2,"c":3}', "keys"],
    ['{"a":{"b":1,"c":2},"d":{"e":1,"f":2}}', undefined],
    ['{"a":[1,2,3,{"b":1,"c":2}],"d":1}', undefined],
    ['{"a":[1,2,3,{"b":1,"c":2,"d":3}]}', "keys"],
    ['{"a":{"b":1},"c":{"d":1},"e":1}', "keys"],
    ['[{"a":1},{"a":1},{"a":1}]', undefined],
    ['{",":",,,","\\",":1}', undefined],
    // What is no JSON is left to the parser.
    ["]],,,", undefined],
    ["}}{,}{,}", undefined],
  ])("%s has objects of at most two keys: %s", (text, expected) => {
    expect(brokenLimit(bytes(text), { depth: 9, values: 99, keys: 2 })).toBe(expected);
  });
});
