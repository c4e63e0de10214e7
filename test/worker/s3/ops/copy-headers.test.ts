import { describe, expect, test } from "vitest";
import { parseSource } from "../../../../worker/s3/copy/copy-source.ts";
import { parseCopyRange } from "../../../../worker/s3/request/range.ts";

const code = (act: () => unknown): unknown => {
  try {
    return act();
  } catch (error) {
    return error instanceof Error && "code" in error ? error.code : error;
  }
};

describe("x-amz-copy-source", () => {
  const address = { branch: "master", repo: "data" };

  test.each([
    ["master.data/key", "key", undefined],
    ["/master.data/key", "key", undefined],
    ["/master.data/a/b/", "a/b/", undefined],
    ["%2Fmaster.data%2Fa%20b%2Bc", "a b+c", undefined],
    ["master.data/a%2Bb", "a+b", undefined],
    ["master.data/a%20b", "a b", undefined],
    ["master.data/100%25", "100%", undefined],
    ["master.data/%E6%97%A5", "日", undefined],
    ["master.data/日本 😀", "日本 😀", undefined],
    ["master.data/key?versionId=01ABC", "key", "01ABC"],
    ["master.data/q?x=1", "q?x=1", undefined],
    ["master.data/q%3FversionId=1?versionId=2", "q?versionId=1", "2"],
  ])("'%s' names the key '%s' at %s", (header, key, commit) => {
    expect(parseSource(header, "path")).toEqual({ bucket: "master.data", address, key, commit });
  });

  test.each([
    ["", "InvalidArgument"],
    ["/", "InvalidArgument"],
    ["master.data/+/../b", "InvalidArgument"],
    ["master.data", "InvalidArgument"],
    ["master.data/", "InvalidArgument"],
    ["master.data/key?versionId=", "InvalidArgument"],
    ["master.data/%zz", "InvalidArgument"],
    ["master.data/%FF", "InvalidArgument"],
    ["-data/key", "InvalidArgument"],
    ["api/key", "InvalidArgument"],
    ["v1.master.data/key?versionId=1", "InvalidRequest"],
    ["01ARZ3NDEKTSV4RRFFQ69G5FAV.master.data/key?versionId=1", "InvalidRequest"],
    ["arn:aws:s3:us-east-1:1:accesspoint/a/object/key", "InvalidArgument"],
    ["master.data/a//b", "InvalidArgument"],
    ["master.data/../b", "InvalidArgument"],
    ["master.data/%00", "InvalidArgument"],
    [`master.data/${"x".repeat(1025)}`, "KeyTooLongError"],
  ])("'%s' is refused as %s", (header, expected) => {
    expect(code(() => parseSource(header, "path"))).toBe(expected);
  });
});

test("a plus in x-amz-copy-source is a space; what it would be as it stands is kept beside that", () => {
  const named = { bucket: "master.data", address: { branch: "master", repo: "data" } };
  expect(parseSource("master.data/a+b%2Bc", "path")).toEqual({ ...named, key: "a b+c", literal: "a+b+c" });
  expect(parseSource("master.data/+?versionId=01ABC", "path")).toEqual({
    ...named,
    key: " ",
    literal: "+",
    commit: "01ABC",
  });
  expect(parseSource("master.data/a%2Bb", "path").literal).toBeUndefined();
});

test("x-amz-copy-source names a bucket as the request does: a client that reaches buckets by host knows their labels", () => {
  const key = "key";
  const repo = { branch: "master", repo: "dev--data" };
  const branch = { branch: "dev", repo: "data" };
  const named = { bucket: "dev--data", key, commit: undefined };
  expect(parseSource("dev--data/key", "path")).toEqual({ ...named, address: repo });
  expect(parseSource("dev--data/key", "host")).toEqual({ ...named, address: branch });
  for (const by of ["path", "host"] as const) {
    expect(parseSource("data/key", by).address).toEqual({ branch: "master", repo: "data" });
    expect(parseSource("master.dev--data/key", by).address).toEqual(repo);
  }
});

describe("x-amz-copy-source-range", () => {
  test.each([
    ["bytes=0-0", { offset: 0, length: 1 }],
    ["bytes=3-9", { offset: 3, length: 7 }],
    ["bytes=0-9", { offset: 0, length: 10 }],
  ])("%s of 10 bytes is a range", (header, range) => {
    expect(parseCopyRange(header, 10)).toEqual(range);
  });

  test("means the whole where it is absent", () => {
    expect(parseCopyRange(undefined, 10)).toBeUndefined();
  });

  test.each([
    "",
    "0-2",
    "bytes=0",
    "bytes=hello-world",
    "bytes=0-bar",
    "bytes=hello-",
    "bytes=0-",
    "bytes=-5",
    "bytes=0-2,3-5",
    "bytes=5-3",
    "bytes=0-9999999999999999999",
  ])("'%s' is no range", (header) => {
    expect(code(() => parseCopyRange(header, 10))).toBe("InvalidArgument");
  });

  test.each(["bytes=0-10", "bytes=10-10", "bytes=20-21"])("%s lies outside of 10 bytes", (header) => {
    expect(code(() => parseCopyRange(header, 10))).toBe("InvalidArgument");
  });
});
