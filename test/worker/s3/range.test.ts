import { expect, test } from "vitest";
import { contentRange, parseRange } from "../../../worker/s3/request/range.ts";

test.each([
  ["bytes=0-0", { offset: 0, length: 1 }],
  ["bytes=0-9", { offset: 0, length: 10 }],
  ["bytes=3-5", { offset: 3, length: 3 }],
  ["bytes=5-", { offset: 5, length: 5 }],
  ["bytes=5-999999999999999999999", { offset: 5, length: 5 }],
  ["bytes=-3", { offset: 7, length: 3 }],
  ["bytes=-99", { offset: 0, length: 10 }],
  [" bytes=0-0 ", { offset: 0, length: 1 }],
])("%s of 10 bytes is a range", (header, range) => {
  expect(parseRange(header, 10)).toEqual(range);
});

test.each(["bytes=10-", "bytes=10-20", "bytes=-0"])("%s of 10 bytes cannot be satisfied", (header) => {
  expect(parseRange(header, 10)).toBe("unsatisfiable");
});

test.each([
  undefined,
  "",
  "bytes",
  "bytes=",
  "bytes=-",
  "bytes=5-3",
  "bytes=a-b",
  "items=0-1",
  "bytes=0-1,3-4",
  "bytes= -1",
  "bytes= 0-1",
])("%s is ignored", (header) => {
  expect(parseRange(header, 10)).toBeNull();
});

test("an empty content has no first byte, and its last bytes are the whole", () => {
  expect([parseRange("bytes=0-", 0), parseRange("bytes=-1", 0)]).toEqual(["unsatisfiable", null]);
});

test("Content-Range counts the last byte in", () => {
  expect(contentRange({ offset: 3, length: 3 }, 10)).toBe("bytes 3-5/10");
});
