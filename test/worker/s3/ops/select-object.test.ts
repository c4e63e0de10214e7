import { env } from "cloudflare:test";
import { createHash } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import type { BranchApi } from "../../../../worker/branch/contract/api.ts";
import type { FileCalls, StoredAttributes } from "../../../../worker/branch/contract/files.ts";
import { clientOf } from "../../../../worker/objects/facets.ts";
import { handleS3 } from "../../../../worker/s3/gateway.ts";
import { answer, failure, good, s3, signed, testContext, unsigned } from "../support.ts";

const BUCKET = "/master.selected";
const branch = clientOf<BranchApi>(env.BRANCH.getByName("master.selected"));
const DIGITS = "0123456789";

/** Puts ten bytes with attributes that no PUT could bring. */
async function putDigits(path: string, attributes: StoredAttributes): Promise<void> {
  const bytes = new TextEncoder().encode(DIGITS);
  const digest = createHash("sha256").update(bytes).digest("hex");
  const content = { digest, size: bytes.length, body: { kind: "inline", bytes } } as const;
  const put = await branch.files.put({ path, content, attributes });
  if (!put.ok) throw new Error(put.reason);
}

/** Three parts, of 4, 4 and 2 bytes. */
const PARTS: StoredAttributes = {
  checksum: { algorithm: "CRC32", type: "COMPOSITE", value: "wholes==-3" },
  parts: {
    sizes: [
      [4, 2],
      [2, 1],
    ],
    checksums: ["first===", "second==", "third==="],
  },
};

beforeAll(async () => {
  await good(`PUT ${BUCKET}`);
  await good(`PUT ${BUCKET}/plain`, { body: DIGITS });
  await good(`PUT ${BUCKET}/empty`, { body: "" });
  await putDigits("parts", PARTS);
});

describe.each(["GET", "HEAD"])("%s", (method) => {
  test("is refused without a signature", async () => {
    expect((await answer(unsigned(`${method} ${BUCKET}/plain`))).status).toBe(403);
  });

  test.each([
    [1, "bytes 0-3/10", "4"],
    [2, "bytes 4-7/10", "4"],
    [3, "bytes 8-9/10", "2"],
  ])("answers part %i of an object in parts as a range of it", async (number, range, length) => {
    const response = await good(`${method} ${BUCKET}/parts?partNumber=${number}`);
    expect(response.status).toBe(206);
    expect(Object.fromEntries(response.headers)).toMatchObject({
      "content-range": range,
      "x-amz-mp-parts-count": "3",
      etag: expect.stringMatching(/-10"$/),
    });
    const body = method === "HEAD" ? undefined : await response.text();
    expect(body?.length ?? Number(response.headers.get("content-length"))).toBe(Number(length));
  });

  test("answers part 1 of any other object as the whole of it", async () => {
    const response = await good(`${method} ${BUCKET}/plain?partNumber=1`);
    expect([response.status, response.headers.get("content-range")]).toEqual([206, "bytes 0-9/10"]);
    expect(response.headers.get("x-amz-mp-parts-count")).toBeNull();
    const empty = await good(`${method} ${BUCKET}/empty?partNumber=1`);
    expect([empty.status, empty.headers.get("content-range")]).toEqual([200, null]);
  });

  test.each([
    ["parts?partNumber=4", 416],
    ["plain?partNumber=2", 416],
    ["plain?partNumber=0", 400],
    ["plain?partNumber=10001", 400],
    ["plain?partNumber=x", 400],
    ["plain?partNumber=", 400],
  ])("of %s answers %d", async (target, status) => {
    expect((await s3(`${method} ${BUCKET}/${target}`)).status).toBe(status);
  });

  test("takes a range or a part, not both", async () => {
    const both = s3(`${method} ${BUCKET}/parts?partNumber=1`, { headers: { range: "bytes=0-1" } });
    expect((await both).status).toBe(400);
  });

  test("lets the request say what headers the answer has", async () => {
    const query = [
      "response-content-type=text%2Fhtml",
      "response-content-language=fr",
      "response-expires=soon",
      "response-cache-control=no-store",
      "response-content-disposition=attachment%3B%20filename%3D%22%C3%BC.html%22",
      "response-content-encoding=identity",
    ].join("&");
    const response = await good(`${method} ${BUCKET}/plain?${query}`);
    expect(Object.fromEntries(response.headers)).toMatchObject({
      "content-type": "text/html",
      "content-language": "fr",
      expires: "soon",
      "cache-control": "no-store",
      "content-disposition": 'attachment; filename="ü.html"',
      "content-encoding": "identity",
    });
    expect((await s3(`${method} ${BUCKET}/plain?response-content-type=a%0D%0Ab`)).status).toBe(400);
  });

  test("says the checksum only when asked, and only of the bytes that it answers", async () => {
    const said = async (target: string, headers: Record<string, string> = {}) => {
      const answered = await good(`${method} ${BUCKET}/${target}`, { headers });
      return [answered.headers.get("x-amz-checksum-crc32"), answered.headers.get("x-amz-checksum-type")];
    };
    const mode = { "x-amz-checksum-mode": "ENABLED" };
    expect(await said("parts")).toEqual([null, null]);
    expect(await said("parts", mode)).toEqual(["wholes==-3", "COMPOSITE"]);
    expect(await said("parts?partNumber=2", mode)).toEqual(["second==", "COMPOSITE"]);
    expect(await said("parts", { ...mode, range: "bytes=0-4" })).toEqual([null, null]);
    expect(await said("plain", mode)).toEqual([null, null]);
  });
});

describe("an object's standard headers", () => {
  const sent = {
    "cache-control": "max-age=5",
    "content-disposition": "inline",
    "content-encoding": "gzip",
    "content-language": "de",
    expires: "Thu, 01 Jan 2037 00:00:00 GMT",
    "content-type": "text/plain",
  };

  test("come back, and bytes under a Content-Encoding come back untouched", async () => {
    await good(`PUT ${BUCKET}/standard`, { body: "not really gzip", headers: sent });
    const get = await good(`GET ${BUCKET}/standard`);
    expect(Object.fromEntries(get.headers)).toMatchObject(sent);
    expect(await get.text()).toBe("not really gzip");
    expect(Object.fromEntries((await good(`HEAD ${BUCKET}/standard`)).headers)).toMatchObject(sent);
  });

  test("that caches go by come with a 304, too", async () => {
    await good(`PUT ${BUCKET}/cached`, { body: "x", headers: sent });
    const { headers } = await good(`HEAD ${BUCKET}/cached`);
    const etag = headers.get("etag") ?? "";
    const again = await s3(`GET ${BUCKET}/cached`, { headers: { "if-none-match": etag } });
    expect(again.status).toBe(304);
    const { "x-amz-request-id": _, ...said } = Object.fromEntries(again.headers);
    expect(said).toEqual({
      etag,
      "cache-control": sent["cache-control"],
      "content-security-policy": "sandbox",
      expires: sent.expires,
      "last-modified": headers.get("last-modified"),
      "x-amz-version-id": headers.get("x-amz-version-id"),
      "x-content-type-options": "nosniff",
    });
  });

  test("say the type that the key tells where the client tells none", async () => {
    await good(`PUT ${BUCKET}/table.parquet`, { body: new Uint8Array(1) });
    const { headers } = await good(`HEAD ${BUCKET}/table.parquet`);
    expect(headers.get("content-type")).toBe("application/vnd.apache.parquet");
  });
});

describe("Last-Modified", () => {
  test.each([
    ["branch", "the branch's newest commit"],
    ["file", "the object's own commit"],
  ] as const)("is, where the gateway is set up for '%s', %s", async (lastModified, _whose) => {
    const at = { branch: Date.UTC(2026, 1, 2), file: Date.UTC(2025, 3, 4) };
    const read: FileCalls["read"] = async ({ path, modified = "branch" }) => {
      const file = await branch.files.read({ path });
      return file.ok ? { ...file, modifiedAt: at[modified] } : file;
    };
    const context = { ...testContext({ lastModified }), branch: () => ({ files: { read } }) as BranchApi };
    const response = await handleS3(await signed(`HEAD ${BUCKET}/plain`), { context, now: Date.now });
    expect(response.headers.get("last-modified")).toBe(new Date(at[lastModified]).toUTCString());
  });
});

test("a HEAD that finds nothing, or must not, says so in its status alone", async () => {
  for (const [target, status] of [
    ["missing", 404],
    ["plain?versionId=none", 404],
    ["plain?versionId=", 400],
  ] as const) {
    const response = await s3(`HEAD ${BUCKET}/${target}`);
    expect([response.status, await response.text()]).toEqual([status, ""]);
  }
});

test("a GET of a bucket or a version that is not there says which", async () => {
  expect(await failure(s3("GET /master.nowhere/key"))).toMatchObject({ status: 404, Code: "NoSuchBucket" });
  expect(await failure(s3(`GET ${BUCKET}/plain?versionId=none`))).toMatchObject({ Code: "NoSuchVersion" });
});
