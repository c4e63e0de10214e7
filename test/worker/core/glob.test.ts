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
    ["/[b-a]", "has the range 'b-a', which runs backwards, in '[b-a]'"],
    ["/[[:word:]]", "has the class '[:word:]', which is none of alnum, alpha"],
    ["/a\\/b", "has a '\\' before a '/'"],
    ["/!(a)b", "has something behind '!(…)'"],
    ["/*!(a)", "has a '*' before '!(…)'"],
    ["/@(!(a)|b)", "has '!(…)' inside another '(…)'"],
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

  it("is refused where it is no Unicode", () => {
    expect(problem("/\ud800")).toBe("is not valid Unicode");
  });

  it.each([
    ["/a[b", 3],
    ["a[b", 2],
    ["/x/{a,{b}", 4],
    ["/x/{a,b}}", 9],
    ["/a/../b", 4],
  ])("%s is told to be wrong at character %i", (glob, character) => {
    expect(problem(glob)).toContain(`(at character ${character})`);
  });

  it("is shown with a leading slash and without a trailing one", () => {
    expect(["", "/", "*", "a/b", "/a/b/"].map(normaliseGlob)).toEqual(["/", "/", "/*", "/a/b", "/a/b"]);
  });

  it("takes a whole character at a time, of any script", () => {
    expect(matches("/?", "😀")).toBe(true);
    expect(matches("/[😀-😂]", "😁")).toBe(true);
    expect(matches("/[!😀]", "😀")).toBe(false);
    expect(matches("/*é", "café")).toBe(true);
  });

  it("takes an escaped character as it is, be it a letter", () => {
    expect(matches("/\\d\\*", "d*")).toBe(true);
    expect(matches("/\\d", "5")).toBe(false);
    expect(matches("/[\\]a]", "]")).toBe(true);
    expect(matches("/[ab]", "[ab]")).toBe(false);
  });

  it("knows groups, which may hold groups", () => {
    expect(["a", "ab", "aab", "b", "aabb"].filter((name) => matches("/+(a)?(b)", name))).toEqual([
      "a",
      "ab",
      "aab",
    ]);
    expect(["", "ab", "abab", "aba"].filter((name) => matches("/x*(ab)", `x${name}`))).toEqual([
      "",
      "ab",
      "abab",
    ]);
    expect(["ac", "abc", "c"].filter((name) => matches("/@(a@(|b))c", name))).toEqual(["ac", "abc"]);
    expect(["a.csv", "a.txt", "b"].filter((name) => matches("/!(*.csv|b)", name))).toEqual(["a.txt"]);
    expect(["ab.txt", "a.txt"].filter((name) => matches("/a!(.txt)", name))).toEqual(["ab.txt"]);
  });

  it("has POSIX classes", () => {
    const members = (glob: string): string[] =>
      ["a", "Z", "5", "_", " ", "é"].filter((name) => matches(glob, name));
    expect(members("/[[:alpha:]]")).toEqual(["a", "Z"]);
    expect(members("/[![:alnum:]_]")).toEqual([" ", "é"]);
    expect(members("/[[:space:]-]")).toEqual([" "]);
  });

  it("costs no more than its length times that of the name: no pattern makes it hang", () => {
    const name = "a".repeat(1000);
    expect(matches(`/${"*a".repeat(300)}*b`, name)).toBe(false);
    expect(matches("/+(a|aa|+(a|*(a)))b", name)).toBe(false);
    expect(matches(`/${"**/".repeat(100)}b`, `${"a/".repeat(200)}a`)).toBe(false);
  });
});

describe("the directories above a path", () => {
  it("go from the root down and stop above the path itself", () => {
    expect(ancestors("a")).toEqual([""]);
    expect(ancestors("a/b/c")).toEqual(["", "a", "a/b"]);
    expect(ancestors("a/b/")).toEqual(["", "a"]);
  });
});
