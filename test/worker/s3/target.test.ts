import { expect, test } from "vitest";
import { authorityOf, parseTarget, rawPathOf } from "../../../worker/s3/request/target.ts";

const HOST = "http://127.0.0.1:8787";

test("the key is decoded from the raw path, once", () => {
  expect(parseTarget(`${HOST}/b.r/a%2520b/%C3%BC+c%2Fd//e/`)?.path).toBe("/b.r/a%20b/ü+c/d//e/");
});

test("the query keeps its order, and a plus in it is a space", () => {
  expect(parseTarget(`${HOST}/b.r?prefix=a+b%2Bc&delete&&x=1=2&prefix=`)?.query).toEqual([
    ["prefix", "a b+c"],
    ["delete", ""],
    ["x", "1=2"],
    ["prefix", ""],
  ]);
});

test.each([
  "/b.r/%",
  "/b.r/%zz",
  "/b.r/%ff",
  "/b.r/%ED%A0%80",
  "/b.r?prefix=%F",
  "/b.r?%zz=1",
])("%s has broken percent-encoding", (target) => {
  expect(parseTarget(HOST + target)).toBeUndefined();
});

test("a URL without a path asks for the root", () => {
  expect(parseTarget(HOST)).toMatchObject({ rawPath: "/", path: "/" });
  expect([authorityOf(HOST), authorityOf(`${HOST}/a`)]).toEqual(["127.0.0.1:8787", "127.0.0.1:8787"]);
  expect([rawPathOf(HOST), rawPathOf(`${HOST}/a%20b?c`)]).toEqual(["/", "/a%20b"]);
});
