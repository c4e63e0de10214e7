import { createHash } from "node:crypto";
import { crc32 } from "node:zlib";
import { beforeAll, describe, expect, test } from "vitest";
import { createChecksum } from "../../../../worker/blobs/hash/checksum-hasher.ts";
import { CHECKSUM_ALGORITHMS, type ChecksumAlgorithm } from "../../../../worker/core/checksums.ts";
import { failure, good, s3, xml } from "../support.ts";
import { begin, bytes, complete, completed, type Done, part, SMALLEST, type Upload } from "./support.ts";

const BUCKET = "/master.checksums";
const FIRST = bytes(SMALLEST + 3, 1);
const LAST = bytes(1000, 2);

beforeAll(async () => {
  await good(`PUT ${BUCKET}`);
});

function base64(data: Uint8Array): string {
  return btoa(String.fromCharCode(...data));
}

/** CRC32, SHA1 and SHA256 by the platform; the others by ours, which has vectors of its own elsewhere. */
function sum(algorithm: ChecksumAlgorithm, ...pieces: Uint8Array[]): Uint8Array {
  if (algorithm === "CRC32") {
    const value = pieces.reduce((so, piece) => crc32(piece, so), 0);
    return new Uint8Array([value >>> 24, value >>> 16, value >>> 8, value]);
  }
  const hasher =
    algorithm === "SHA1"
      ? createHash("sha1")
      : algorithm === "SHA256"
        ? createHash("sha256")
        : createChecksum(algorithm);
  for (const piece of pieces) hasher.update(piece);
  return new Uint8Array(hasher.digest());
}

const header = (algorithm: ChecksumAlgorithm): string => `x-amz-checksum-${algorithm.toLowerCase()}`;
const tag = (algorithm: ChecksumAlgorithm): string => `Checksum${algorithm}`;

/** Both parts, whose checksums nobody sends: the gateway works them out. */
async function uploadParts(upload: Upload, algorithm: ChecksumAlgorithm): Promise<Done[]> {
  const parts = [FIRST, LAST];
  return await Promise.all(
    parts.map(async (body, index) => {
      const response = await good(`PUT ${upload.target}&partNumber=${index + 1}`, { body });
      const value = response.headers.get(header(algorithm)) ?? "";
      expect(value).toBe(base64(sum(algorithm, body)));
      return {
        number: index + 1,
        etag: response.headers.get("etag") ?? "",
        checksums: { [tag(algorithm)]: value },
      };
    }),
  );
}

const COMPOSITE = CHECKSUM_ALGORITHMS.filter((algorithm) => algorithm !== "CRC64NVME");
const FULL = CHECKSUM_ALGORITHMS.filter((algorithm) => algorithm.startsWith("CRC"));

describe.each(COMPOSITE)("a composite %s", (algorithm) => {
  test("is over the parts' checksums, is answered, kept, and told when asked", async () => {
    const path = `${BUCKET}/composite-${algorithm}`;
    const upload = await begin(path, { headers: { "x-amz-checksum-algorithm": algorithm } });
    const parts = await uploadParts(upload, algorithm);
    const { ListPartsResult: listed } = await xml(good(`GET ${upload.target}`));
    expect([listed.ChecksumAlgorithm, listed.ChecksumType]).toEqual([algorithm, "COMPOSITE"]);
    expect(listed.Part[1][tag(algorithm)]).toBe(base64(sum(algorithm, LAST)));
    const expected = `${base64(sum(algorithm, sum(algorithm, FIRST), sum(algorithm, LAST)))}-2`;
    const result = await completed(complete(upload, parts, { [header(algorithm)]: expected }));
    expect([result[tag(algorithm)], result.ChecksumType]).toEqual([expected, "COMPOSITE"]);
    const head = await good(`HEAD ${path}`, { headers: { "x-amz-checksum-mode": "ENABLED" } });
    expect(head.headers.get(header(algorithm))).toBe(expected);
    const first = await good(`HEAD ${path}?partNumber=1`, { headers: { "x-amz-checksum-mode": "ENABLED" } });
    expect(first.headers.get(header(algorithm))).toBe(base64(sum(algorithm, FIRST)));
  });
});

describe.each(FULL)("a full-object %s", (algorithm) => {
  test("of parts is that of all bytes", async () => {
    const path = `${BUCKET}/full-${algorithm}`;
    const headers = { "x-amz-checksum-algorithm": algorithm, "x-amz-checksum-type": "FULL_OBJECT" };
    const begun = await good(`POST ${path}?uploads`, { headers });
    expect([begun.headers.get("x-amz-checksum-algorithm"), begun.headers.get("x-amz-checksum-type")]).toEqual(
      [algorithm, "FULL_OBJECT"],
    );
    const upload = await begin(path, { headers });
    const parts = await uploadParts(upload, algorithm);
    const expected = base64(sum(algorithm, FIRST, LAST));
    const sent = { [header(algorithm)]: expected, "x-amz-checksum-type": "FULL_OBJECT" };
    const result = await completed(complete(upload, parts, sent));
    expect([result[tag(algorithm)], result.ChecksumType]).toEqual([expected, "FULL_OBJECT"]);
    const whole = await good(`PUT ${path}-put`, {
      body: new Uint8Array(await new Blob([FIRST, LAST]).arrayBuffer()),
      headers: { "x-amz-sdk-checksum-algorithm": algorithm },
    });
    expect(whole.headers.get(header(algorithm))).toBe(expected);
  });
});

describe("a completion", () => {
  const crc = header("CRC32");
  let upload: Upload;
  let parts: Done[];
  beforeAll(async () => {
    const headers = { "x-amz-checksum-algorithm": "CRC32", "x-amz-checksum-type": "FULL_OBJECT" };
    upload = await begin(`${BUCKET}/claimed`, { headers });
    parts = await uploadParts(upload, "CRC32");
  });

  test.each([
    ["another checksum of the object", { [crc]: "AAAAAA==" }, "BadDigest"],
    ["one that is none", { [crc]: "abc" }, "InvalidRequest"],
    ["one of another algorithm", { [header("SHA1")]: base64(sum("SHA1", FIRST, LAST)) }, "InvalidRequest"],
    ["two", { [crc]: "AAAAAA==", [header("CRC32C")]: "AAAAAA==" }, "InvalidRequest"],
    ["another type", { "x-amz-checksum-type": "COMPOSITE" }, "InvalidRequest"],
  ])("that claims %s is refused", async (_, headers: Record<string, string>, Code) => {
    expect(await failure(complete(upload, parts, headers))).toMatchObject({ status: 400, Code });
  });

  test("that names a part by another checksum, or by one of another algorithm, is refused", async () => {
    const renamed = (checksums: Record<string, string>) => parts.map((each) => ({ ...each, checksums }));
    expect(await failure(complete(upload, renamed({ ChecksumCRC32: "AAAAAA==" })))).toMatchObject({
      status: 400,
      Code: "InvalidPart",
      Message: expect.stringContaining("Part 1"),
    });
    expect(await failure(complete(upload, renamed({ ChecksumCRC32C: "AAAAAA==" })))).toMatchObject({
      status: 400,
      Code: "BadDigest",
    });
  });

  test.each([
    ["one that is none", { ChecksumCRC32: "abc" }],
    ["two", { ChecksumCRC32: "AAAAAA==", ChecksumCRC32C: "AAAAAA==" }],
  ])("that names a part by a checksum and gives %s is refused", async (_, checksums) => {
    const named = parts.map((each) => ({ ...each, checksums }));
    expect(await failure(complete(upload, named))).toMatchObject({ status: 400, Code: "InvalidArgument" });
  });

  test("may leave the checksums out", async () => {
    const bare = parts.map(({ number, etag }) => ({ number, etag }));
    expect((await completed(complete(upload, bare))).ChecksumCRC32).toBe(base64(sum("CRC32", FIRST, LAST)));
  });

  test("may claim one of an upload that began without: then it is worked out, checked and kept", async () => {
    for (const algorithm of ["CRC64NVME", "SHA256", "XXHASH3"] as const) {
      const path = `${BUCKET}/late-${algorithm}`;
      const late = await begin(path);
      const both = [await part(late, 1, FIRST), await part(late, 2, LAST)];
      const wrong = { [header(algorithm)]: base64(sum(algorithm, LAST)) };
      expect((await failure(complete(late, both, wrong))).Code).toBe("BadDigest");
      const value = base64(sum(algorithm, FIRST, LAST));
      const result = await completed(complete(late, both, { [header(algorithm)]: value }));
      expect([result[tag(algorithm)], result.ChecksumType]).toEqual([value, "FULL_OBJECT"]);
    }
  });
});

describe("a part", () => {
  test("with a checksum of another algorithm than its upload's is refused", async () => {
    const upload = await begin(`${BUCKET}/other`, { headers: { "x-amz-checksum-algorithm": "SHA256" } });
    const refused = await failure(
      s3(`PUT ${upload.target}&partNumber=1`, {
        body: "x",
        headers: { "x-amz-checksum-crc32": base64(sum("CRC32", new TextEncoder().encode("x"))) },
      }),
    );
    expect(refused).toMatchObject({ status: 400, Code: "InvalidRequest" });
    expect(refused.Message).toContain("SHA256");
  });

  test("of an upload without an algorithm is checked all the same", async () => {
    const upload = await begin(`${BUCKET}/checked`);
    const headers = { "x-amz-checksum-crc32": base64(sum("CRC32", LAST)) };
    await part(upload, 1, { body: LAST, headers });
    const wrong = s3(`PUT ${upload.target}&partNumber=1`, { body: FIRST, headers });
    expect(await failure(wrong)).toMatchObject({ status: 400, Code: "BadDigest" });
  });
});
