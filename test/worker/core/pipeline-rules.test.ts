import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { PipelineSpec } from "../../../protocol/spec.ts";
import { type Axis, combinations } from "../../../worker/core/cross-product.ts";
import { datumId, datumKey, datumPaths, describeDatum } from "../../../worker/core/datums.ts";
import { checkSpec } from "../../../worker/core/spec.ts";

function specWith(inputs: readonly object[]): PipelineSpec {
  return PipelineSpec.parse({ pipeline: { name: "p" }, transform: { image: "i", cmd: ["c"] }, inputs });
}

/** A commit that an input starts after. */
const START = { repo: { name: "yak" }, ID: "01ARZ3NDEKTSV4RRFFQ69G5FAV" };

describe("a specification", () => {
  it("names an input like its repo and puts inputs in order of their names", () => {
    const checked = checkSpec(
      specWith([
        { repo: { name: "zebra" }, glob: "*" },
        { name: "first", repo: { name: "yak" }, branch: "dev", glob: "/a/", lazy: true, from: START },
      ]),
    );
    expect(checked).toEqual({
      ok: true,
      inputs: [
        { name: "first", repo: "yak", branch: "dev", glob: "/a", lazy: true, from: START.ID },
        { name: "zebra", repo: "zebra", branch: "master", glob: "/*", lazy: false, from: null },
      ],
    });
  });

  it("is refused with every problem at once, each with its path", () => {
    const checked = checkSpec(
      specWith([
        { name: "out", repo: { name: "a" }, glob: "/*" },
        { repo: { name: "b" }, glob: "/[" },
        { repo: { name: "b" }, glob: "/" },
        { repo: { name: "p" }, glob: "/" },
      ]),
    );
    expect(checked.ok ? [] : checked.issues.map(({ path }) => path)).toEqual([
      "inputs[0].name",
      "inputs[1].glob",
      "inputs[2].repo.name",
      "inputs[3].repo.name",
    ]);
  });
});

describe("datums", () => {
  const sha256Hex = (text: string): string =>
    createHash("sha256").update(new TextEncoder().encode(text)).digest("hex");

  it("have keys whose byte order lets the first input vary fastest", () => {
    const pairs = [
      ["a", "x"],
      ["b", "x"],
      ["b/c", "x"],
      ["a", "x y"],
      ["b", "x/y"],
    ];
    const keys = pairs.map(datumKey);
    expect(keys.toSorted()).toEqual(keys);
    expect(keys.map(datumPaths)).toEqual(pairs);
  });

  it("have an id that hangs on names, paths, digests and sizes, and on nothing else", () => {
    const part = { input: "in", path: "a", digest: "d1", size: 1 };
    const id = datumId([part], sha256Hex);
    expect(id).toMatch(/^[0-9a-f]{64}$/);
    expect(datumId([{ ...part }], sha256Hex)).toBe(id);
    for (const change of [{ input: "x" }, { path: "b" }, { digest: "d2" }, { size: 2 }]) {
      expect(datumId([{ ...part, ...change }], sha256Hex)).not.toBe(id);
    }
  });

  it("are described by their paths", () => {
    expect(describeDatum(datumKey(["a/b"]), ["in"])).toBe("/a/b");
    expect(describeDatum(datumKey(["a", ""]), ["x", "y"])).toBe("x:/a with y:/");
  });
});

describe("the cross product", () => {
  const axis = (...paths: string[]): Axis<{ path: string }> => ({
    at: (path) => (paths.includes(path) ? { path } : undefined),
    after: (path) => {
      const next = path === null ? paths[0] : paths[paths.indexOf(path) + 1];
      return next === undefined ? undefined : { path: next };
    },
  });
  const texts = (from: readonly string[] | null, ...axes: Axis<{ path: string }>[]): string[] =>
    [...combinations(axes, from)].map((items) => items.map(({ path }) => path).join(""));

  it("lets the first axis vary fastest", () => {
    expect(texts(null, axis("a", "b"), axis("1", "2"))).toEqual(["a1", "b1", "a2", "b2"]);
  });

  it("goes on from any combination", () => {
    const axes = [axis("a", "b"), axis("1", "2", "3"), axis("x", "y")] as const;
    const all = texts(null, ...axes);
    expect(all).toHaveLength(12);
    for (const [index, text] of all.entries())
      expect(texts([...text], ...axes)).toEqual(all.slice(index + 1));
  });

  it("is empty where an axis is", () => {
    expect(texts(null, axis("a"), axis())).toEqual([]);
    expect(texts(null, axis(), axis("a"))).toEqual([]);
  });
});
