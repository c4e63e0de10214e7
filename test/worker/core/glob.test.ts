import { describe, expect, it } from "vitest";
import { ancestors, normaliseGlob, parseGlob } from "../../../worker/core/glob.ts";

function matches(glob: string, path: string): boolean {
  const parsed = parseGlob(glob);
  if (!parsed.ok) throw new Error(`${glob}: ${parsed.problem}`);
  return parsed.glob.matches(path);
}

function problem(glob: string): string | undefined {
  const parsed = parseGlob(glob);
  return parsed.ok ? undefined : parsed.problem;
}

const TREE = ["", "foo-1", "foo-2", "bar", "bar/bar-1", "bar/bar-2", ".dot", "bar/deep", "bar/deep/x.csv"];

describe("a glob", () => {
  it.each([
    ["/", [""]],
    ["", [""]],
    ["/*", ["foo-1", "foo-2", "bar", ".dot"]],
    ["*", ["foo-1", "foo-2", "bar", ".dot"]],
    ["/foo*", ["foo-1", "foo-2"]],
    ["/*/*", ["bar/bar-1", "bar/bar-2", "bar/deep"]],
    ["/bar/", ["bar"]],
    ["/bar/**", ["bar/bar-1", "bar/bar-2", "bar/deep", "bar/deep/x.csv"]],
    ["/**", TREE.filter((path) => path !== "")],
    ["/**/*.csv", ["bar/deep/x.csv"]],
    ["/{foo-1,bar/bar-2}", ["foo-1", "bar/bar-2"]],
    ["/foo-[12]", ["foo-1", "foo-2"]],
    ["/foo-[!1]", ["foo-2"]],
    ["/foo-?", ["foo-1", "foo-2"]],
    ["/@(foo-1|bar)", ["foo-1", "bar"]],
  ])("%s matches exactly %j of a small tree", (glob, expected) => {
    expect(TREE.filter((path) => matches(glob, path))).toEqual(expected);
  });

  it("lets nothing within a segment match a slash", () => {
    expect(matches("/a[!x]b", "a/b")).toBe(false);
    expect(matches("/a?b", "a/b")).toBe(false);
    expect(matches("/a**b", "a/b")).toBe(false);
    expect(matches("/!(x)", "a/b")).toBe(false);
  });

  it("takes characters that are no wildcards here as they are", () => {
    for (const path of [
      "report (1).csv",
      "a+b",
      "a|b",
      "^a$",
      "!a",
      "@a",
      'a"b"',
      "a,b",
      "a.b",
      "{x",
      "[x]",
      "a\\b",
    ]) {
      expect(matches(path.replace(/[[\]{}\\]/g, "\\$&"), path), path).toBe(true);
    }
    expect(matches("/a.b", "axb")).toBe(false);
  });

  it.each([
    ["/a[b", "has a '[' without its ']'"],
    ["/a]b", "has a ']' without its '['"],
    ["/a{b", "has a '{' without its '}'"],
    ["/a}b", "has a '}' without its '{'"],
    ["/@(a", "has a '(' without its ')'"],
    ["/[a/b]", "has a '/' inside '[a/b]'"],
    ["/@(a/b)", "has a '/' inside '(…)'"],
    ["/a{1..3}", "has the range '{1..3}'"],
    ["/a//b", "has an empty segment"],
    ["/a/../b", "has the segment '..'"],
    ["./a", "has the segment '.'"],
    ["/a\\", "ends in a single '\\'"],
    [`/${"{a,b}".repeat(12)}`, "stands for more than 256 patterns"],
    [`/${"a".repeat(2000)}`, "is longer than 1024 characters"],
  ])("%s is refused: it %s", (glob, expected) => {
    expect(problem(glob)).toContain(expected);
  });

  it("is shown with a leading slash and without a trailing one", () => {
    expect(["", "/", "*", "a/b", "/a/b/"].map(normaliseGlob)).toEqual(["/", "/", "/*", "/a/b", "/a/b"]);
  });

  it("agrees with a plain model on random globs and paths", () => {
    const random = generator(7);
    const pick = (choices: readonly string[]): string => choices[Math.floor(random() * choices.length)] ?? "";
    const join = (parts: readonly string[], most: number): string =>
      Array.from({ length: 1 + Math.floor(random() * most) }, () => pick(parts)).join("/");
    let hits = 0;
    for (let round = 0; round < 5000; round++) {
      const glob = `/${join(["a", "b", "*", "a*", "?", "*b", "**", "ab"], 4)}`;
      const path = join(["a", "b", "ab", "aab", ".a"], 4);
      const expected = model(glob.slice(1).split("/"), path.split("/"));
      expect(matches(glob, path), `${glob} on ${path}`).toBe(expected);
      if (expected) hits++;
    }
    expect(hits).toBeGreaterThan(500);
  });
});

/** The dialect as a definition: `**` stands for any number of names, at the end for one or more. */
function model(glob: readonly string[], path: readonly string[]): boolean {
  return modelNames(glob.at(-1) === "**" ? [...glob, "*"] : glob, path);
}

function modelNames(glob: readonly string[], path: readonly string[]): boolean {
  const [segment, ...rest] = glob;
  if (segment === undefined) return path.length === 0;
  if (segment === "**") {
    return Array.from({ length: path.length + 1 }, (_, taken) => taken).some((taken) =>
      modelNames(rest, path.slice(taken)),
    );
  }
  const [name, ...others] = path;
  return name !== undefined && modelName(segment, name) && modelNames(rest, others);
}

function modelName(pattern: string, name: string): boolean {
  if (pattern === "") return name === "";
  if (pattern[0] === "*") {
    return Array.from({ length: name.length + 1 }, (_, taken) => taken).some((taken) =>
      modelName(pattern.slice(1), name.slice(taken)),
    );
  }
  return (
    name !== "" &&
    (pattern[0] === "?" || pattern[0] === name[0]) &&
    modelName(pattern.slice(1), name.slice(1))
  );
}

/** A linear congruential generator: the same run every time. */
function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

describe("the directories above a path", () => {
  it("go from the root down and stop above the path itself", () => {
    expect(ancestors("a")).toEqual([""]);
    expect(ancestors("a/b/c")).toEqual(["", "a", "a/b"]);
    expect(ancestors("a/b/")).toEqual(["", "a"]);
  });
});
