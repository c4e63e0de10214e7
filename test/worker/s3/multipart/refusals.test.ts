import { beforeAll, describe, expect, test } from "vitest";
import { failure, good, s3 } from "../support.ts";
import { begin, bytes, complete, completed, completion, part, SMALLEST, type Upload } from "./support.ts";

const BUCKET = "/master.refusing";

beforeAll(async () => {
  await good(`PUT ${BUCKET}`);
  await good("PUT /other.refusing");
});

describe("an upload is not found", () => {
  test.each([
    ["no id at all", "?uploadId="],
    ["no id of ours", "?uploadId=VXBsb2FkIElE"],
    ["one that was never begun", "?uploadId=master.refusing.01ARZ3NDEKTSV4RRFFQ69G5FAV"],
    ["an id that is cut short", "?uploadId=master.refusing.01ARZ3NDEKTSV4RRFFQ69G5F"],
    ["an id with more to it", "?uploadId=master.refusing.01ARZ3NDEKTSV4RRFFQ69G5FAV.x"],
    ["one of a bucket that is not there", "?uploadId=master.gone.01ARZ3NDEKTSV4RRFFQ69G5FAV"],
  ])("by %s", async (_, query) => {
    const asked = [
      s3(`GET ${BUCKET}/key${query}`),
      s3(`GET ${BUCKET}${query}`),
      s3(`PUT ${BUCKET}/key${query}&partNumber=1`, { body: "x" }),
      s3(`POST ${BUCKET}/key${query}`, { body: completion([{ number: 1, etag: "x" }]) }),
      s3(`DELETE ${BUCKET}/key${query}`),
      s3(`DELETE ${BUCKET}${query}`),
    ];
    for (const response of asked) {
      expect(await failure(response)).toMatchObject({ status: 404, Code: "NoSuchUpload" });
    }
    expect((await s3(`HEAD ${BUCKET}`)).status).toBe(200);
  });

  test("in another bucket, and under another key than its own", async () => {
    const { id, target } = await begin(`${BUCKET}/mine`);
    for (const path of ["/other.refusing/mine", "/other.refusing", `${BUCKET}/yours`, `${BUCKET}/mine/`]) {
      const query = `?uploadId=${id}`;
      const asked = [
        s3(`GET ${path}${query}`),
        s3(`PUT ${path}${query}&partNumber=1`, { body: "x" }),
        s3(`DELETE ${path}${query}`),
      ];
      for (const response of asked) {
        expect(await failure(response)).toMatchObject({ status: 404, Code: "NoSuchUpload" });
      }
    }
    expect((await s3(`GET ${target}`)).status).toBe(200);
  });
});

describe("of a bucket that is not there", () => {
  const asked = (bucket: string, query: string): Record<string, () => Promise<Response>> => ({
    UploadPart: () => s3(`PUT ${bucket}/key${query}&partNumber=1`, { body: "x" }),
    UploadPartCopy: () =>
      s3(`PUT ${bucket}/key${query}&partNumber=1`, { headers: { "x-amz-copy-source": `${BUCKET}/key` } }),
    ListParts: () => s3(`GET ${bucket}/key${query}`),
    CompleteMultipartUpload: () =>
      s3(`POST ${bucket}/key${query}`, { body: completion([{ number: 1, etag: "x" }]) }),
    AbortMultipartUpload: () => s3(`DELETE ${bucket}/key${query}`),
  });

  test.each([
    ["an upload of its own", "/never.refusing", "?uploadId=never.refusing.01ARZ3NDEKTSV4RRFFQ69G5FAV"],
    [
      "an upload of another bucket",
      "/never.refusing",
      "?uploadId=master.refusing.01ARZ3NDEKTSV4RRFFQ69G5FAV",
    ],
    ["an id that is none", "/never.refusing", "?uploadId=none"],
    ["an open commit", "/01ARZ3NDEKTSV4RRFFQ69G5FAV.never.refusing", "?uploadId=none"],
  ])("every operation on %s answers NoSuchBucket", async (_, bucket, query) => {
    for (const [name, ask] of Object.entries(asked(bucket, query))) {
      const { status, Code } = await failure(ask());
      expect([name, status, Code]).toEqual([name, 404, "NoSuchBucket"]);
    }
  });

  test("an upload that it had is not found either, as the bucket went with it", async () => {
    await good("PUT /doomed.refusing");
    const { id } = await begin("/doomed.refusing/key");
    await good("DELETE /doomed.refusing");
    for (const [name, ask] of Object.entries(asked("/doomed.refusing", `?uploadId=${id}`))) {
      const { status, Code } = await failure(ask());
      expect([name, status, Code]).toEqual([name, 404, "NoSuchBucket"]);
    }
  });
});

describe("a part number", () => {
  let upload: Upload;
  beforeAll(async () => {
    upload = await begin(`${BUCKET}/numbers`);
  });

  test.each([
    "0",
    "10001",
    "-1",
    "1.5",
    "abc",
    "",
    "99999999999999999999",
  ])("'%s' is refused", async (number) => {
    const refused = await failure(s3(`PUT ${upload.target}&partNumber=${number}`, { body: "x" }));
    expect(refused).toMatchObject({ status: 400, Code: "InvalidArgument" });
    expect(refused.Message).toContain("from 1 to 10000");
  });

  test("that is missing is asked for, and so is the upload's id", async () => {
    expect(await failure(s3(`PUT ${upload.target}`, { body: "x" }))).toMatchObject({
      status: 400,
      Code: "InvalidArgument",
      Message: expect.stringContaining("partNumber is missing"),
    });
    expect(await failure(s3(`PUT ${BUCKET}/key?partNumber=1`, { body: "x" }))).toMatchObject({
      status: 400,
      Code: "InvalidArgument",
      Message: expect.stringContaining("uploadId is missing"),
    });
    expect((await s3(`HEAD ${BUCKET}/key`)).status).toBe(404);
  });

  test("of 1 and of 10,000 is taken", async () => {
    await part(upload, 1, "x");
    await part(upload, 10_000, "x");
  });
});

describe("beginning an upload is refused", () => {
  test.each([
    [`${BUCKET}?uploads`, "InvalidArgument", "filepath"],
    [`${BUCKET}?uploads&filepath=`, "InvalidArgument", "filepath"],
    [`${BUCKET}/key?uploads&filepath=key`, "InvalidArgument", "filepath"],
    [`${BUCKET}?uploads&filepath=a%2F%2Fb`, "InvalidArgument", "//"],
    [`${BUCKET}?uploads&filepath=..%2Fa`, "InvalidArgument", ".."],
    [`${BUCKET}?uploads&filepath=dir%2F`, "InvalidArgument", "ends in '/'"],
    [`${BUCKET}/${"x".repeat(1025)}?uploads`, "KeyTooLongError", "1024"],
  ])("at %s: %s", async (target, Code, said) => {
    expect(await failure(s3(`POST ${target}`))).toMatchObject({
      status: 400,
      Code,
      Message: expect.stringContaining(said),
    });
  });

  test("in a bucket that is not there", async () => {
    expect(await failure(s3("POST /master.absent/key?uploads"))).toMatchObject({
      status: 404,
      Code: "NoSuchBucket",
    });
  });

  test.each([
    [{ "x-amz-checksum-algorithm": "MD6" }, "MD6"],
    [{ "x-amz-checksum-type": "COMPOSITE" }, "x-amz-checksum-algorithm"],
    [{ "x-amz-checksum-algorithm": "SHA256", "x-amz-checksum-type": "FULL_OBJECT" }, "FULL_OBJECT"],
    ...["SHA512", "MD5", "XXHASH64", "XXHASH3", "XXHASH128"].map(
      (algorithm): [Record<string, string>, string] => [
        { "x-amz-checksum-algorithm": algorithm, "x-amz-checksum-type": "FULL_OBJECT" },
        "FULL_OBJECT",
      ],
    ),
    [{ "x-amz-checksum-algorithm": "CRC64NVME", "x-amz-checksum-type": "COMPOSITE" }, "COMPOSITE"],
    [{ "x-amz-checksum-algorithm": "CRC32", "x-amz-checksum-type": "BOTH" }, "BOTH"],
  ])("with %j", async (headers, said) => {
    expect(await failure(s3(`POST ${BUCKET}/key?uploads`, { headers }))).toMatchObject({
      status: 400,
      Code: "InvalidRequest",
      Message: expect.stringContaining(said),
    });
  });
});

describe("a completion is refused", () => {
  let upload: Upload;
  let etag = "";
  beforeAll(async () => {
    upload = await begin(`${BUCKET}/completed`);
    for (const number of [1, 2]) await part(upload, number, bytes(SMALLEST - 1, number));
    etag = (await part(upload, 3, bytes(SMALLEST, 3))).etag;
    await part(upload, 4, "end");
  });

  const named = (number: unknown, tag = etag) =>
    `<Part><PartNumber>${number}</PartNumber><ETag>${tag}</ETag></Part>`;
  const other = `"${"0".repeat(64)}-5242880"`;

  test.each([
    ["MalformedXML", "no Part", ""],
    ["MalformedXML", "holds Parts", `<Parts>${named(3)}</Parts>`],
    ["MalformedXML", "one ETag", "<Part><PartNumber>3</PartNumber></Part>"],
    ["MalformedXML", "one PartNumber", "<Part><ETag>x</ETag></Part>"],
    [
      "MalformedXML",
      "one PartNumber",
      "<Part><PartNumber>3</PartNumber><PartNumber>4</PartNumber><ETag>x</ETag></Part>",
    ],
    ["MalformedXML", "Size", "<Part><PartNumber>3</PartNumber><ETag>x</ETag><Size>1</Size></Part>"],
    ["InvalidArgument", "'0'", named(0)],
    ["InvalidArgument", "'10001'", named(10_001)],
    ["MalformedXML", "more than 10000 Parts", named(3).repeat(10_001)],
    ["MalformedXML", "more than 10000 Parts", "<Part/>".repeat(500_000)],
    ["MalformedXML", "more than 160064 tags", "<x/>".repeat(500_000)],
    ["InvalidArgument", "'three'", named("three")],
    ["InvalidPartOrder", "Part 3 stands behind part 4", named(4, "x") + named(3)],
    ["InvalidPartOrder", "Part 3 stands behind part 3", named(3) + named(3)],
    ["InvalidPart", "Part 7 was not uploaded", named(3) + named(7)],
    ["InvalidPart", "Part 10000 was not uploaded", named(10_000)],
    ["InvalidPart", "Part 3 has the ETag", named(3, other)],
    ["EntityTooSmall", "Part 1 has 5242879 bytes", named(1, "x") + named(3)],
    ["InvalidRequest", "without a checksum", withChecksum("ChecksumCRC32", "AAAAAA==")],
  ])("with %s: %s", async (Code, said, parts) => {
    const body = `<CompleteMultipartUpload>${parts}</CompleteMultipartUpload>`;
    expect(await failure(s3(`POST ${upload.target}`, { body }))).toMatchObject({
      status: 400,
      Code,
      Message: expect.stringContaining(said),
    });
  });

  test.each([
    ["nothing", ""],
    ["no XML", "{}"],
    ["another document", "<Complete/>"],
    ["XML that ends too early", "<CompleteMultipartUpload><Part>"],
    ["a DOCTYPE", '<!DOCTYPE x [<!ENTITY e "e">]><CompleteMultipartUpload/>'],
    ["an entity that is none", "<CompleteMultipartUpload><Part>&lol;</Part></CompleteMultipartUpload>"],
    [
      "tags within tags",
      `<CompleteMultipartUpload>${"<a>".repeat(99)}${"</a>".repeat(99)}</CompleteMultipartUpload>`,
    ],
  ])("that is %s", async (_, body) => {
    expect(await failure(s3(`POST ${upload.target}`, { body }))).toMatchObject({
      status: 400,
      Code: "MalformedXML",
    });
  });

  test("of more than 4 MiB, whether its length is told or not", async () => {
    const large = new Uint8Array(4 * 1024 * 1024 + 1).fill(0x20);
    for (const body of [large, new Blob([large]).stream()]) {
      expect(await failure(s3(`POST ${upload.target}`, { body }))).toMatchObject({
        status: 400,
        Code: "MaxMessageLengthExceeded",
      });
    }
  });

  test("and can then still be done", async () => {
    await completed(complete(upload, [{ number: 3, etag }]));
  });

  function withChecksum(tag: string, value: string): string {
    return `<Part><PartNumber>4</PartNumber><ETag>x</ETag><${tag}>${value}</${tag}></Part>`;
  }
});
