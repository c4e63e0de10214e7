import { describe, expect, test } from "vitest";
import {
  type KeyScope,
  type Permission,
  permits,
  refusalText,
  type ScopeLevel,
} from "../../../worker/core/permissions.ts";

const PERMISSIONS: readonly Permission[] = ["list", "read", "write", "admin", "run", "work"];

/** What a key with the right to run pipelines may do, if its level has that right at all. */
function allowed(level: ScopeLevel, repos: readonly string[] | null, repo: string | null): Permission[] {
  const scope = { level, repos, pipelines: true };
  return PERMISSIONS.filter((permission) => permits(scope, { permission, repo }));
}

describe("a key", () => {
  test.each([
    ["read", ["list", "read"]],
    ["write", ["list", "read", "write"]],
    ["admin", ["list", "read", "write", "admin", "run"]],
  ] as const)("of level %s may %j, and in its repos only", (level, may) => {
    expect(allowed(level, null, "images")).toEqual(may);
    expect(allowed(level, null, null)).toEqual(may);
    expect(allowed(level, ["labels", "images"], "images")).toEqual(may);
    expect(allowed(level, ["labels"], "images")).toEqual([]);
    expect(allowed(level, [], "images")).toEqual([]);
    // A list of what belongs to no repo: whoever answers it shows only what is in the key's repos.
    expect(allowed(level, ["images"], null)).toEqual(["list"]);
  });

  test("of level admin for some repos runs code only if it has the right to", () => {
    const run = { permission: "run", repo: "images" } as const;
    expect(permits({ level: "admin", repos: null }, run)).toBe(true);
    expect(permits({ level: "admin", repos: ["images"] }, run)).toBe(false);
    expect(permits({ level: "admin", repos: ["images"], pipelines: false }, run)).toBe(false);
    expect(permits({ level: "admin", repos: ["images"], pipelines: true }, run)).toBe(true);
    expect(permits({ level: "admin", repos: ["labels"], pipelines: true }, run)).toBe(false);
  });

  test("of level runner may do what runners do and nothing else, and only the root key may do that as well", () => {
    expect(allowed("runner", null, null)).toEqual(["work"]);
    expect(allowed("root", null, null)).toEqual(PERMISSIONS);
  });

  test("of a level that this release does not know may do nothing", () => {
    const later = { level: "auditor", repos: null } as unknown as KeyScope;
    expect(PERMISSIONS.filter((permission) => permits(later, { permission, repo: null }))).toEqual([]);
  });

  test("is for the repo of exactly that name", () => {
    for (const repo of ["image", "imagess", "Images", "", "images "])
      expect(allowed("admin", ["images"], repo)).toEqual([]);
  });
});

describe("a refusal", () => {
  test.each([
    [
      { level: "read", repos: null },
      { permission: "write", repo: "images" },
      "The access key allows read everywhere; this needs write in the repo 'images': use a key that has it.",
    ],
    [
      { level: "write", repos: ["a"] },
      { permission: "read", repo: "b" },
      "The access key allows write in the repo 'a'; this needs read in the repo 'b': use a key that has it.",
    ],
    [
      { level: "admin", repos: ["a", "b"] },
      { permission: "admin", repo: null },
      "The access key allows admin in the repos 'a', 'b'; this needs admin on what belongs to no repo: use a key that has it.",
    ],
    [
      { level: "write", repos: null },
      { permission: "work" },
      "The access key allows write everywhere; this needs the level runner: make a key with 'sluice key create --level runner' and give it to the runner.",
    ],
    [
      { level: "write", repos: ["a", "b", "c", "d", "e", "f", "g"] },
      { permission: "admin" },
      "The access key allows write in the repos 'a', 'b', 'c', 'd', 'e', 2 more; this needs admin: use a key that has it.",
    ],
    [
      { level: "admin", repos: ["a"] },
      { permission: "run", repo: "a" },
      "The access key allows admin in the repo 'a'; this needs the right to run pipelines ('sluice key create --pipelines') in the repo 'a': use a key that has it.",
    ],
    [
      { level: "admin", repos: ["a"], pipelines: true },
      { permission: "read", repo: "b" },
      "The access key allows admin and running pipelines in the repo 'a'; this needs read in the repo 'b': use a key that has it.",
    ],
  ] as const)("of %j for %j says what the key has and what was needed", (scope, need, text) => {
    expect(refusalText(scope, need)).toBe(text);
  });
});
