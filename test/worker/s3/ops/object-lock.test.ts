import { beforeAll, describe, expect, test } from "vitest";
import { type Ask, failure, good, s3 } from "../support.ts";

const BUCKET = "/master.unlocked";

beforeAll(async () => {
  await good(`PUT ${BUCKET}`);
  await good(`PUT ${BUCKET}/key`, { body: "kept" });
});

const HOLD = "<LegalHold><Status>ON</Status></LegalHold>";
const RETENTION =
  "<Retention><Mode>COMPLIANCE</Mode><RetainUntilDate>2030-01-01T00:00:00Z</RetainUntilDate></Retention>";

describe("of the lock of an object", () => {
  test.each<[string, Ask]>([
    [`GET ${BUCKET}/key?legal-hold`, {}],
    [`GET ${BUCKET}/key?retention`, {}],
    [`PUT ${BUCKET}/key?legal-hold`, { body: HOLD }],
    [`PUT ${BUCKET}/key?retention`, { body: RETENTION }],
    [
      `PUT ${BUCKET}/key?retention`,
      { body: RETENTION, headers: { "x-amz-bypass-governance-retention": "true" } },
    ],
  ])("it is said that its bucket has none, as on S3: %s", async (line, ask) => {
    const said = await failure(s3(line, ask));
    expect(said).toMatchObject({ status: 400, Code: "InvalidRequest" });
    expect(said.Message).toContain("Bucket is missing Object Lock Configuration");
    expect(await (await good(`GET ${BUCKET}/key`)).text()).toBe("kept");
  });

  test.each<[string, Ask, string]>([
    ["GET /master.nowhere/key?retention", {}, "NoSuchBucket"],
    ["PUT /master.nowhere/key?legal-hold", { body: HOLD }, "NoSuchBucket"],
    [`GET ${BUCKET}/absent?legal-hold`, {}, "NoSuchKey"],
    [`GET ${BUCKET}/key?retention&versionId=01ARZ3NDEKTSV4RRFFQ69G5FAV`, {}, "NoSuchVersion"],
    [`PUT ${BUCKET}/key?legal-hold`, {}, "MalformedXML"],
    [`PUT ${BUCKET}/key?legal-hold`, { body: HOLD.replace("ON", "MAYBE") }, "MalformedXML"],
    [`PUT ${BUCKET}/key?legal-hold`, { body: RETENTION }, "MalformedXML"],
    [`PUT ${BUCKET}/key?retention`, { body: RETENTION.replace("COMPLIANCE", "OTHER") }, "MalformedXML"],
    [`PUT ${BUCKET}/key?retention`, { body: "<Retention><Other/></Retention>" }, "MalformedXML"],
  ])("other faults come first: %s is %s", async (line, ask, code) => {
    expect((await failure(s3(line, ask))).Code).toBe(code);
  });
});
