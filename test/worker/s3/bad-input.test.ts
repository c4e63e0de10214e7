import { env } from "cloudflare:test";
import { beforeAll, describe, expect, test } from "vitest";
import { openContext } from "../../../worker/app.ts";
import { failure, good, s3 } from "./support.ts";

beforeAll(async () => {
  await good("PUT /master.strict");
  await good("PUT /master.strict/file", { body: "x" });
  await good("PUT /master.strict/dir/file", { body: "x" });
});

describe("a bucket name", () => {
  test.each([
    "data",
    "a.b.c",
    ".data",
    "master.",
    "-a.data",
    "master.da%20ta",
    "master.d%C3%A4ta",
    `${"x".repeat(64)}.r`,
  ])("%s is refused, and the form is told", async (bucket) => {
    const refused = await failure(s3(`PUT /${bucket}`));
    expect(refused).toMatchObject({ status: 400, Code: "InvalidBucketName" });
    expect(refused.Message).toContain("<branch>.<repo>");
  });
});

describe("a key that the tree cannot hold", () => {
  test.each([
    ["a//b", "InvalidArgument", "//"],
    ["/a", "InvalidArgument", "//"],
    ["a%00b", "InvalidArgument", "control characters"],
    ["a%0Ab", "InvalidArgument", "control characters"],
    [`${"x".repeat(1025)}`, "KeyTooLongError", "1024"],
    [`${"%C3%BC".repeat(513)}`, "KeyTooLongError", "1024"],
  ])("%s is %s", async (key, Code, said) => {
    for (const method of ["PUT", "GET", "DELETE"]) {
      const refused = await failure(
        s3(`${method} /master.strict/${key}`, method === "PUT" ? { body: "x" } : {}),
      );
      expect(refused).toMatchObject({ status: 400, Code });
      expect(refused.Message).toContain(said);
    }
  });

  test("of 1,024 bytes is taken", async () => {
    await good(`PUT /master.strict/${"x".repeat(1024)}`, { body: "x" });
  });

  test("under a file, or where a directory is, is PathConflict and names what is in the way", async () => {
    const under = await failure(s3("PUT /master.strict/file/below", { body: "x" }));
    expect(under).toMatchObject({ status: 409, Code: "PathConflict" });
    expect(under.Message).toContain("'file'");
    const over = await failure(s3("PUT /master.strict/dir", { body: "x" }));
    expect(over).toMatchObject({ status: 409, Code: "PathConflict" });
    expect(over.Message).toContain("dir/");
  });

  test("ends in a slash and has bytes: it is refused, whether their number is told or not", async () => {
    for (const body of ["bytes", new Blob(["bytes"]).stream()]) {
      expect(await failure(s3("PUT /master.strict/made/", { body }))).toMatchObject({
        status: 400,
        Code: "InvalidArgument",
      });
    }
    expect((await s3("HEAD /master.strict/made/")).status).toBe(404);
  });
});

test("broken percent-encoding is InvalidURI", async () => {
  expect(await failure(s3("GET /master.strict/%zz"))).toMatchObject({ status: 400, Code: "InvalidURI" });
  expect(await failure(s3("GET /master.strict/%ff"))).toMatchObject({ status: 400, Code: "InvalidURI" });
});

test("metadata of more than 2 KB is refused, and 2 KB is kept", async () => {
  const tooLarge = { "x-amz-meta-a": "x".repeat(2048) };
  expect(await failure(s3("PUT /master.strict/meta", { headers: tooLarge, body: "x" }))).toMatchObject({
    status: 400,
    Code: "MetadataTooLarge",
  });
  await good("PUT /master.strict/meta", { headers: { "x-amz-meta-a": "x".repeat(2047) }, body: "x" });
});

test("a branch that is a pipeline's output is not written, deleted or emptied by others", async () => {
  const branch = openContext(env).branch({ repo: "output", branch: "master" });
  await branch.claim({ pipeline: "output", uid: "uid" });
  const refusals = [
    s3("PUT /master.output/key", { body: "x" }),
    s3("PUT /master.output/key", { body: "x".repeat(10_000) }),
    s3("DELETE /master.output/key"),
    s3("POST /master.output?delete", { body: "<Delete><Object><Key>key</Key></Object></Delete>" }),
    s3("DELETE /master.output"),
  ];
  for (const refused of await Promise.all(refusals.map(failure))) {
    expect(refused).toMatchObject({ status: 403, Code: "AccessDenied" });
    expect(refused.Message).toContain("output of a pipeline");
  }
});
