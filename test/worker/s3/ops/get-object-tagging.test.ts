import { expect, test } from "vitest";
import { failure, good, s3, xml } from "../support.ts";

test("an object has no tags", async () => {
  await good("PUT /master.tags");
  const put = await good("PUT /master.tags/key", { body: "x" });
  const answered = await good("GET /master.tags/key?tagging");
  expect(answered.headers.get("x-amz-version-id")).toBe(put.headers.get("x-amz-version-id"));
  expect((await xml(answered)).Tagging).toHaveProperty("TagSet", "");
});

test("what is not there has no tags to tell of", async () => {
  await good("PUT /master.untagged");
  expect(await failure(s3("GET /master.untagged/key?tagging"))).toMatchObject({
    status: 404,
    Code: "NoSuchKey",
  });
});

test("an upload in parts may say that its own metadata count, as s3fs does, and not that others' do", async () => {
  await good("PUT /master.directive");
  const line = "POST /master.directive/key?uploads";
  await good(line, { headers: { "x-amz-metadata-directive": "REPLACE", "x-amz-meta-mode": "33188" } });
  const refused = await failure(s3(line, { headers: { "x-amz-metadata-directive": "COPY" } }));
  expect(refused).toMatchObject({ status: 400, Code: "InvalidArgument" });
  expect(refused.Message).toContain("'COPY'");
});
