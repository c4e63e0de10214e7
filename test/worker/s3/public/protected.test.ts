import { beforeAll, expect, test } from "vitest";
import { failure, good, s3, scopedKey, testContext, xml } from "../support.ts";

const BUCKET = "/master.kept";
const MINE = scopedKey({ level: "admin", repos: ["kept"] });
const large = { body: new Uint8Array(5000) };

beforeAll(async () => {
  await good(`PUT ${BUCKET}`);
  await good(`PUT ${BUCKET}/key`, { body: "kept" });
  const branch = testContext().branch({ repo: "kept", branch: "master" });
  expect(await branch.settings.change({ writer: { key: MINE.id } })).toEqual({ ok: true });
});

test.each([
  ["PutObject", () => ({ line: `PUT ${BUCKET}/new`, ask: { body: "x" } })],
  ["PutObject of much", () => ({ line: `PUT ${BUCKET}/new`, ask: large })],
  [
    "CopyObject",
    () => ({ line: `PUT ${BUCKET}/new`, ask: { headers: { "x-amz-copy-source": `${BUCKET}/key` } } }),
  ],
  ["DeleteObject", () => ({ line: `DELETE ${BUCKET}/key`, ask: {} })],
  [
    "DeleteObjects",
    () => ({
      line: `POST ${BUCKET}?delete`,
      ask: { body: "<Delete><Object><Key>key</Key></Object></Delete>" },
    }),
  ],
  ["CreateMultipartUpload", () => ({ line: `POST ${BUCKET}/new?uploads`, ask: {} })],
  ["DeleteBucket", () => ({ line: `DELETE ${BUCKET}`, ask: {} })],
] as const)("a protected branch refuses %s of other keys, the root key too, and says who may write", async (_, of) => {
  const { line, ask } = of();
  const others = scopedKey({ level: "admin", repos: ["kept", "more"] });
  for (const key of [{}, { key: others }]) {
    const refused = await failure(s3(line, { ...ask, ...key }));
    expect(refused).toMatchObject({ status: 403, Code: "AccessDenied" });
    expect(refused.Message).toContain(`only the access key '${MINE.id}' may write`);
  }
  expect(await (await good(`GET ${BUCKET}/key`)).text()).toBe("kept");
});

test("a protected branch is completed, written and deleted by its key alone", async () => {
  const key = MINE;
  await good(`PUT ${BUCKET}/small`, { body: "x", key });
  await good(`PUT ${BUCKET}/large`, { ...large, key });
  const begun = await xml(good(`POST ${BUCKET}/parts?uploads`, { key }));
  const target = `${BUCKET}/parts?uploadId=${begun.InitiateMultipartUploadResult.UploadId}`;
  const part = await good(`PUT ${target}&partNumber=1`, { body: "part", key });
  const tags = `<Part><PartNumber>1</PartNumber><ETag>${part.headers.get("etag")}</ETag></Part>`;
  const body = `<CompleteMultipartUpload>${tags}</CompleteMultipartUpload>`;
  expect(await failure(s3(`POST ${target}`, { body }))).toMatchObject({ status: 403, Code: "AccessDenied" });
  await good(`POST ${target}`, { body, key });
  await good(`DELETE ${BUCKET}/small`, { key });
  await good(`DELETE ${BUCKET}`, { key });
});
