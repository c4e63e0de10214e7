import { expect, test } from "vitest";
import { decodeToken, encodeToken, wholeNumber } from "../../../worker/s3/request/query-values.ts";

const limits = { min: 1, max: 10, absent: 7 };

test("a number above the most counts as the most, and an absent one as its default", () => {
  expect(wholeNumber(new Map(), "n", limits)).toBe(7);
  expect(wholeNumber(new Map([["n", "3"]]), "n", limits)).toBe(3);
  expect(wholeNumber(new Map([["n", "11"]]), "n", limits)).toBe(10);
});

test.each(["", "0", "-1", "1.5", "1e3", "x", " 1"])("'%s' is no such number", (text) => {
  expect(() => wholeNumber(new Map([["n", text]]), "n", limits)).toThrow(
    expect.objectContaining({ code: "InvalidArgument", message: expect.stringContaining("n is") }),
  );
});

test.each([
  "a",
  "ü/日本😀",
  "x".repeat(1024),
  "\ufeffa",
])("the place %s comes back out of its token", (place) => {
  const token = encodeToken(place);
  expect(token).toMatch(/^[A-Za-z0-9_-]+$/);
  expect(decodeToken(token)).toBe(place);
});

test.each(["", "a", "!!!", "//8", "YQ", "MQ==x"])("'%s' is no token", (token) => {
  expect(() => decodeToken(token)).toThrow(expect.objectContaining({ code: "InvalidArgument" }));
});
