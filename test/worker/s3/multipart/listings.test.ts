import { env, runInDurableObject } from "cloudflare:test";
import { beforeAll, describe, expect, test } from "vitest";
import { parseContentName } from "../../../../protocol/content.ts";
import type { BranchApi } from "../../../../worker/branch/contract/api.ts";
import { clientOf } from "../../../../worker/objects/facets.ts";
import { REST } from "../../../support/suite.ts";
import { failure, good, s3, xml } from "../support.ts";
import { begin, bytes, complete, completed, part, SMALLEST, type Upload } from "./support.ts";

const BUCKET = "/master.parts";

beforeAll(async () => {
  await good(`PUT ${BUCKET}`);
});

describe("ListParts", () => {
  let upload: Upload;
  beforeAll(async () => {
    upload = await begin(`${BUCKET}/a%20b`);
    for (const number of [9, 1, 20, 3]) await part(upload, number, "x".repeat(number));
  });

  test("tells number, size, ETag and time of each, in order, and who began it", async () => {
    const { ListPartsResult: listed } = await xml(good(`GET ${upload.target}`));
    expect(listed).toMatchObject({
      Bucket: "master.parts",
      Key: "a b",
      UploadId: upload.id,
      StorageClass: "STANDARD",
      PartNumberMarker: "0",
      MaxParts: "1000",
      IsTruncated: "false",
    });
    expect(listed.NextPartNumberMarker).toBeUndefined();
    expect(listed.Part.map(({ PartNumber, Size }: Record<string, string>) => [PartNumber, Size])).toEqual([
      ["1", "1"],
      ["3", "3"],
      ["9", "9"],
      ["20", "20"],
    ]);
    for (const each of listed.Part) {
      expect(each.ETag).toMatch(/^"[0-9a-f]{64}-[0-9]+"$/);
      expect(each.LastModified).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    }
  });

  test("comes in pages", async () => {
    const first = await xml(good(`GET ${upload.target}&max-parts=3`));
    expect(first.ListPartsResult).toMatchObject({ IsTruncated: "true", NextPartNumberMarker: "9" });
    const second = await xml(good(`GET ${upload.target}&max-parts=3&part-number-marker=9`));
    expect(second.ListPartsResult).toMatchObject({ IsTruncated: "false", PartNumberMarker: "9" });
    expect(second.ListPartsResult.Part.map((each: { PartNumber: string }) => each.PartNumber)).toEqual([
      "20",
    ]);
    const none = await xml(good(`GET ${upload.target}&max-parts=0`));
    expect(none.ListPartsResult).toMatchObject({ IsTruncated: "false", MaxParts: "0", Key: "a b" });
    expect(none.ListPartsResult.Part).toBeUndefined();
  });

  test("percent-encodes the key where that is asked for", async () => {
    const { ListPartsResult: listed } = await xml(good(`GET ${upload.target}&encoding-type=url`));
    expect([listed.Key, listed.EncodingType]).toEqual(["a%20b", "url"]);
  });

  test.each([
    "max-parts=-1",
    "max-parts=x",
    "part-number-marker=x",
    "encoding-type=hex",
  ])("refuses %s", async (query) => {
    expect(await failure(s3(`GET ${upload.target}&${query}`))).toMatchObject({
      status: 400,
      Code: "InvalidArgument",
    });
  });
});

test("10,000 parts are listed in pages, and completed to one object, whose end can be read", {
  ...REST,
  timeout: 60_000,
}, async () => {
  const upload = await begin(`${BUCKET}/huge`);
  const body = bytes(SMALLEST);
  const { etag } = await part(upload, 1, body);
  const content = parseContentName(etag.slice(1, -1));
  if (!content) throw new Error(etag);
  // All parts are the same: only one of them has to come.
  await runInDurableObject(env.BRANCH.getByName("master.parts"), async (object) => {
    const branch = clientOf<BranchApi>(object);
    const found = await branch.files.content(content);
    if (!found.ok) throw new Error(found.reason);
    const same = { upload: upload.id, content: { ...content, body: found.body } };
    for (let number = 2; number <= 10_000; number++) await branch.multipart.addPart({ ...same, number });
  });

  let marker = "0";
  let count = 0;
  do {
    const { ListPartsResult: page } = await xml(good(`GET ${upload.target}&part-number-marker=${marker}`));
    expect(page.Part.length).toBe(1000);
    expect(page.Part[0].PartNumber).toBe(String(count + 1));
    count += page.Part.length;
    marker = page.NextPartNumberMarker;
  } while (marker !== undefined);
  expect(count).toBe(10_000);

  const parts = Array.from({ length: 10_000 }, (_, index) => ({ number: index + 1, etag }));
  const done = await completed(complete(upload, parts));
  expect(done.ETag).toMatch(new RegExp(`^"[0-9a-f]{64}-${10_000 * SMALLEST}"$`));
  const range = await good(`GET ${BUCKET}/huge`, { headers: { range: "bytes=-5242885" } });
  const end = new Uint8Array(await range.arrayBuffer());
  expect(end.length).toBe(SMALLEST + 5);
  expect(end.subarray(0, 5)).toEqual(body.subarray(-5));
  expect(end.subarray(5, 1000)).toEqual(body.subarray(0, 995));
  const last = await good(`HEAD ${BUCKET}/huge?partNumber=10000`);
  expect(last.headers.get("x-amz-mp-parts-count")).toBe("10000");
});

describe("ListMultipartUploads", () => {
  const bucket = "/master.uploads";
  const begun: Record<string, string[]> = {};
  beforeAll(async () => {
    await good(`PUT ${bucket}`);
    for (const key of ["b/2", "a", "b/1", "b/1", "c%20d"]) {
      const { id } = await begin(`${bucket}/${key}`);
      begun[key] = [...(begun[key] ?? []), id];
    }
  });

  const list = async (query = "") =>
    (await xml(good(`GET ${bucket}?uploads${query}`))).ListMultipartUploadsResult;
  const keys = (page: { Upload?: { Key: string }[] }) => (page.Upload ?? []).map(({ Key }) => Key);

  const prefixes = (page: { CommonPrefixes?: { Prefix: string }[] }) =>
    (page.CommonPrefixes ?? []).map(({ Prefix }) => Prefix);

  test("tells those that are in progress, by key and then by age", async () => {
    const page = await list();
    expect(page).toMatchObject({
      Bucket: "master.uploads",
      KeyMarker: "",
      UploadIdMarker: "",
      MaxUploads: "1000",
      IsTruncated: "false",
    });
    expect(keys(page)).toEqual(["a", "b/1", "b/1", "b/2", "c d"]);
    expect(page.Upload.slice(1, 3).map(({ UploadId }: { UploadId: string }) => UploadId)).toEqual(
      begun["b/1"],
    );
    expect(page.Upload[0]).toMatchObject({
      StorageClass: "STANDARD",
      Initiated: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
    });
  });

  test("takes a prefix, and comes in pages that begin after a key or after one upload of it", async () => {
    expect(keys(await list("&prefix=b/"))).toEqual(["b/1", "b/1", "b/2"]);
    const first = await list("&prefix=b/&max-uploads=1");
    expect(first).toMatchObject({
      IsTruncated: "true",
      NextKeyMarker: "b/1",
      NextUploadIdMarker: begun["b/1"]?.[0],
    });
    const marker = `&key-marker=b/1&upload-id-marker=${first.NextUploadIdMarker}`;
    expect(keys(await list(`&prefix=b/${marker}`))).toEqual(["b/1", "b/2"]);
    expect(keys(await list("&key-marker=b/1"))).toEqual(["b/2", "c d"]);
    expect(keys(await list("&upload-id-marker=whatever"))).toHaveLength(5);
    expect(await list("&max-uploads=0")).toMatchObject({ IsTruncated: "false", MaxUploads: "0" });
  });

  test("percent-encodes keys where that is asked for", async () => {
    const page = await list("&encoding-type=url&prefix=c%20");
    expect([page.Prefix, keys(page), page.EncodingType]).toEqual(["c%20", ["c%20d"], "url"]);
  });

  test("has those of a directory as one, with / as delimiter and no other", async () => {
    const whole = await list("&delimiter=/");
    expect([keys(whole), prefixes(whole), whole.Delimiter]).toEqual([["a", "c d"], ["b/"], "/"]);
    expect(keys(await list("&delimiter=/&prefix=b/"))).toEqual(["b/1", "b/1", "b/2"]);
    const refused = await failure(s3(`GET ${bucket}?uploads&delimiter=b`));
    expect(refused).toMatchObject({ status: 400, Code: "InvalidArgument" });
    expect(keys(await list("&delimiter="))).toHaveLength(5);
  });

  test("comes in pages of uploads and directories, each once", async () => {
    const seen: string[] = [];
    let marker = "";
    for (let pages = 1; ; pages++) {
      const page = await list(`&delimiter=/&max-uploads=1${marker}`);
      seen.push(...keys(page), ...prefixes(page));
      if (page.IsTruncated === "false") {
        expect(pages).toBe(3);
        break;
      }
      marker = `&key-marker=${encodeURIComponent(page.NextKeyMarker)}`;
      if (page.NextUploadIdMarker) marker += `&upload-id-marker=${page.NextUploadIdMarker}`;
    }
    expect(seen).toEqual(["a", "b/", "c d"]);
  });

  test("no longer has those that were completed or aborted", async () => {
    const path = `${bucket}/z`;
    const [one, other] = [await begin(path), await begin(path)];
    await completed(complete(one, [await part(one, 1, "x")]));
    expect((await list("&prefix=z")).Upload.map(({ UploadId }: { UploadId: string }) => UploadId)).toEqual([
      other.id,
    ]);
    await good(`DELETE ${other.target}`);
    expect((await list("&prefix=z")).Upload).toBeUndefined();
  });

  test.each(["max-uploads=-1", "max-uploads=abc", "encoding-type=x"])("refuses %s", async (query) => {
    expect(await failure(s3(`GET ${bucket}?uploads&${query}`))).toMatchObject({
      status: 400,
      Code: "InvalidArgument",
    });
  });

  test("answers NoSuchBucket where there is none", async () => {
    expect(await failure(s3("GET /master.nowhere?uploads"))).toMatchObject({
      status: 404,
      Code: "NoSuchBucket",
    });
  });
});
