import { env, evictDurableObject } from "cloudflare:test";
import { createHash } from "node:crypto";
import { afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { failure, good, s3, xml } from "../support.ts";
import { begin, bytes, complete, completed, expectedEtag, MIB, part, SMALLEST } from "./support.ts";

const BUCKET = "/master.multipart";

beforeAll(async () => {
  await good(`PUT ${BUCKET}`);
});

afterEach(() => {
  vi.restoreAllMocks();
});

const md5 = (data: Uint8Array): string => createHash("md5").update(data).digest("hex");

async function read(path: string): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await (await good(`GET ${path}`)).arrayBuffer());
}

describe("an upload in parts", () => {
  test("becomes one object, in one commit, with the bytes in order of the part numbers", async () => {
    const path = `${BUCKET}/dir/out-of-order`;
    const upload = await begin(path, { headers: { "content-type": "text/x-test", "x-amz-meta-a": "1" } });
    const pieces = [bytes(SMALLEST, 1), bytes(SMALLEST + 7, 2), bytes(3, 3)];
    const third = await part(upload, 900, pieces[2] ?? "");
    const [second, first] = await Promise.all([
      part(upload, 17, pieces[1] ?? ""),
      part(upload, 2, pieces[0] ?? ""),
    ]);
    expect((await failure(s3(`GET ${path}`))).Code).toBe("NoSuchKey");
    const result = await complete(upload, [first, second, third]);
    const whole = new Uint8Array(await new Blob(pieces).arrayBuffer());
    expect(await completed(result.clone())).toEqual({
      Location: `http://sluice.test${path}`,
      Bucket: "master.multipart",
      Key: "dir/out-of-order",
      ETag: expectedEtag(whole),
    });
    const get = await good(`GET ${path}`);
    expect(Object.fromEntries(get.headers)).toMatchObject({
      etag: expectedEtag(whole),
      "content-type": "text/x-test",
      "x-amz-meta-a": "1",
      "x-amz-version-id": result.headers.get("x-amz-version-id"),
    });
    expect(md5(new Uint8Array(await get.arrayBuffer()))).toBe(md5(whole));
    const again = await good(`GET ${path}?partNumber=2`);
    expect([again.headers.get("x-amz-mp-parts-count"), again.headers.get("content-range")]).toEqual([
      "3",
      `bytes ${SMALLEST}-${2 * SMALLEST + 6}/${whole.length}`,
    ]);
  });

  test("takes the parts that the completion names, and the last of those that came under one number", async () => {
    const path = `${BUCKET}/again`;
    const upload = await begin(path);
    const stale = await part(upload, 1, bytes(SMALLEST, 1));
    const first = await part(upload, 1, bytes(SMALLEST, 2));
    await part(upload, 2, "left out");
    const third = await part(upload, 3, "the end");
    expect(await failure(complete(upload, [stale, third]))).toMatchObject({
      status: 400,
      Code: "InvalidPart",
      Message: expect.stringContaining("Part 1"),
    });
    await completed(complete(upload, [first, third]));
    expect((await read(path)).length).toBe(SMALLEST + 7);
  });

  test("of one part is that part, of any size, also of no bytes", async () => {
    for (const body of ["tiny", "", "x".repeat(6000)]) {
      const path = `${BUCKET}/one-${body.length}`;
      const upload = await begin(path);
      const result = await completed(complete(upload, [await part(upload, 10_000, body)]));
      expect(result.ETag).toBe(expectedEtag(new TextEncoder().encode(body)));
      expect(new TextDecoder().decode(await read(path))).toBe(body);
    }
  });

  test("may begin, go on and end without its key in the path", async () => {
    const begun = await xml(good(`POST ${BUCKET}?uploads&filepath=a%2Fkeyless%20%2B%C3%BC`));
    expect(begun.InitiateMultipartUploadResult.Key).toBe("a/keyless +ü");
    const target = `${BUCKET}?uploadId=${begun.InitiateMultipartUploadResult.UploadId}`;
    const only = await part({ target }, 1, "bytes");
    const { ListPartsResult: listed } = await xml(good(`GET ${target}`));
    expect([listed.Key, listed.Part.length]).toEqual(["a/keyless +ü", 1]);
    const result = await completed(complete({ target }, [only]));
    expect([result.Key, result.Location]).toEqual([
      "a/keyless +ü",
      `http://sluice.test${BUCKET}/a/keyless%20%2B%C3%BC`,
    ]);
    expect(await (await good(`GET ${BUCKET}/a/keyless%20%2B%C3%BC`)).text()).toBe("bytes");
    const other = await begin(`${BUCKET}/other`);
    expect((await good(`DELETE ${other.keyless}`)).status).toBe(204);
    expect((await s3(`HEAD ${BUCKET}`)).status).toBe(200);
  });

  test("goes on after the object was restarted", async () => {
    const upload = await begin(`${BUCKET}/restarted`);
    const first = await part(upload, 1, bytes(SMALLEST));
    await evictDurableObject(env.BRANCH.getByName("master.multipart"));
    const second = await part(upload, 2, "end");
    await evictDurableObject(env.BRANCH.getByName("master.multipart"));
    await completed(complete(upload, [first, second]));
    expect((await read(`${BUCKET}/restarted`)).length).toBe(SMALLEST + 3);
  });

  test("overwrites what is at the key, which its version still has", async () => {
    const put = await good(`PUT ${BUCKET}/over`, { body: "before" });
    const upload = await begin(`${BUCKET}/over`);
    await completed(complete(upload, [await part(upload, 1, "after")]));
    expect(await (await good(`GET ${BUCKET}/over`)).text()).toBe("after");
    const old = await good(`GET ${BUCKET}/over?versionId=${put.headers.get("x-amz-version-id")}`);
    expect(await old.text()).toBe("before");
  });

  test("that changes nothing makes no commit, and answers the version that is there", async () => {
    const versions: (string | null)[] = [];
    for (const _ of [1, 2]) {
      const upload = await begin(`${BUCKET}/same`);
      const response = await complete(upload, [await part(upload, 1, "same")]);
      await completed(response.clone());
      versions.push(response.headers.get("x-amz-version-id"));
    }
    expect(versions[0]).toMatch(/^[0-9A-Z]{26}$/);
    expect(versions[1]).toBe(versions[0]);
  });
});

describe("a completion", () => {
  test("that is asked for again, because the answer got lost, answers the same", async () => {
    const upload = await begin(`${BUCKET}/twice`);
    const parts = [await part(upload, 1, "once")];
    const first = await complete(upload, parts);
    const second = await complete(upload, parts, { "if-none-match": "*" });
    expect(second.headers.get("x-amz-version-id")).toBe(first.headers.get("x-amz-version-id"));
    expect(await second.text()).toBe(await first.text());
    for (const line of [`GET ${upload.target}`, `DELETE ${upload.target}`]) {
      expect(await failure(s3(line))).toMatchObject({ status: 404, Code: "NoSuchUpload" });
    }
    expect((await failure(s3(`PUT ${upload.target}&partNumber=1`, { body: "x" }))).Code).toBe("NoSuchUpload");
  });

  test("that is asked for many times at once makes one commit", async () => {
    const upload = await begin(`${BUCKET}/at-once`);
    const parts = [await part(upload, 1, bytes(SMALLEST)), await part(upload, 2, "end")];
    const answers = await Promise.all(Array.from({ length: 8 }, () => complete(upload, parts)));
    const versions = answers.map((response) => response.headers.get("x-amz-version-id"));
    expect([new Set(versions).size, versions[0]?.length]).toEqual([1, 26]);
    expect(answers.map(({ status }) => status)).toEqual(Array(8).fill(200));
  });

  test("takes ETags in quotes, without, and escaped, and ignores those that are not ours", async () => {
    const forms = [
      (etag: string) => etag,
      (etag: string) => etag.replaceAll('"', ""),
      (etag: string) => etag.replaceAll('"', "&quot;"),
      () => '"d41d8cd98f00b204e9800998ecf8427e"',
      () => "anything",
      () => "",
    ];
    for (const [index, form] of forms.entries()) {
      const upload = await begin(`${BUCKET}/etags-${index}`);
      const { etag } = await part(upload, 1, "x");
      await completed(complete(upload, [{ number: 1, etag: form(etag) }]));
    }
  });

  test("keeps to its conditions, and can be asked for again without them", async () => {
    const put = await good(`PUT ${BUCKET}/conditional`, { body: "there" });
    const upload = await begin(`${BUCKET}/conditional`);
    const parts = [await part(upload, 1, "new")];
    for (const headers of [{ "if-none-match": "*" }, { "if-match": '"other"' }]) {
      expect(await failure(complete(upload, parts, headers))).toMatchObject({
        status: 412,
        Code: "PreconditionFailed",
      });
    }
    expect(await (await good(`GET ${BUCKET}/conditional`)).text()).toBe("there");
    await completed(complete(upload, parts, { "if-match": put.headers.get("etag") ?? "" }));
    const absent = await begin(`${BUCKET}/absent`);
    const only = [await part(absent, 1, "new")];
    expect(await failure(complete(absent, only, { "if-match": "*" }))).toMatchObject({
      status: 404,
      Code: "NoSuchKey",
    });
    await completed(complete(absent, only, { "if-none-match": "*" }));
  });

  test("checks x-amz-mp-object-size", async () => {
    const upload = await begin(`${BUCKET}/sized`);
    const parts = [await part(upload, 1, "12345")];
    expect(await failure(complete(upload, parts, { "x-amz-mp-object-size": "6" }))).toMatchObject({
      status: 400,
      Code: "InvalidRequest",
      Message: expect.stringContaining("5 bytes"),
    });
    for (const size of ["-1", "five"]) {
      expect(await failure(complete(upload, parts, { "x-amz-mp-object-size": size }))).toMatchObject({
        status: 400,
        Code: "InvalidRequest",
      });
    }
    await completed(complete(upload, parts, { "x-amz-mp-object-size": "5" }));
  });
});

describe("the same content", () => {
  const SIZE = 17 * MIB + 12_345;
  const whole = bytes(SIZE, 7);

  test("has one ETag, by PUT and in parts of 5 MiB, 8 MiB and odd sizes, and any range of it is right", async () => {
    const put = await good(`PUT ${BUCKET}/by-put`, { body: whole });
    const etag = put.headers.get("etag");
    expect(etag).toBe(expectedEtag(whole));
    for (const size of [SMALLEST, 8 * MIB, SMALLEST + 1, 6_000_001]) {
      const path = `${BUCKET}/by-${size}`;
      const upload = await begin(path);
      const starts = Array.from({ length: Math.ceil(SIZE / size) }, (_, index) => index * size);
      const parts = await Promise.all(
        starts.map((start, index) => part(upload, index + 1, whole.slice(start, start + size))),
      );
      expect((await completed(complete(upload, parts))).ETag).toBe(etag);
      expect(md5(await read(path))).toBe(md5(whole));
      const range = await good(`GET ${path}`, { headers: { range: `bytes=${size - 3}-${size + 3}` } });
      expect(new Uint8Array(await range.arrayBuffer())).toEqual(whole.slice(size - 3, size + 4));
    }
  });

  test("but a file of two leaf hashes is not the content that has them", async () => {
    const leaves = [bytes(MIB, 1), bytes(MIB, 2)];
    const real = await good(`PUT ${BUCKET}/two-leaves`, { body: await concat(leaves) });
    const hashes = leaves.map((leaf) => new Uint8Array(createHash("sha256").update(leaf).digest()));
    const crafted = await good(`PUT ${BUCKET}/crafted`, { body: await concat(hashes) });
    const [one, other] = [real, crafted].map(({ headers }) => headers.get("etag") ?? "");
    expect(one?.slice(0, 65)).toBe(other?.slice(0, 65));
    expect(one).not.toBe(other);
    expect((await read(`${BUCKET}/crafted`)).length).toBe(64);
    expect((await read(`${BUCKET}/two-leaves`)).length).toBe(2 * MIB);
  });
});

async function concat(pieces: readonly Uint8Array<ArrayBuffer>[]): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await new Blob([...pieces]).arrayBuffer());
}

describe("an object in parts, of which the store is asked", () => {
  const path = `${BUCKET}/asked`;
  /** Two chunks each, of 4 MiB and of 1 MiB, but for the last. */
  const SIZES = [SMALLEST, SMALLEST, 3];

  beforeAll(async () => {
    const upload = await begin(path);
    const parts = SIZES.map((size, index) => part(upload, index + 1, bytes(size, index)));
    await completed(complete(upload, await Promise.all(parts)));
  });

  /** How many bytes each call to the bucket asks for in order; the name of a call that is no read. */
  async function asked(line: string, headers: Record<string, string>): Promise<unknown[]> {
    const methods = Object.getPrototypeOf(env.BLOBS);
    const calls: unknown[] = [];
    for (const name of ["get", "head", "put", "list", "delete"]) {
      const real = methods[name];
      vi.spyOn(methods, name).mockImplementation(function (this: unknown, ...args: unknown[]) {
        const { range } = (args[1] ?? {}) as { range?: { length: number } };
        calls.push(name === "get" ? range?.length : name);
        return real.apply(this, args);
      });
    }
    await (await good(line, { headers })).arrayBuffer();
    vi.restoreAllMocks();
    return calls;
  }

  test.each([
    { what: "the whole", query: "", headers: {}, chunks: [4 * MIB, MIB, 4 * MIB, MIB, 3] },
    { what: "a part", query: "?partNumber=2", headers: {}, chunks: [4 * MIB, MIB] },
    { what: "the last part", query: "?partNumber=3", headers: {}, chunks: [3] },
    {
      what: "a range across parts",
      query: "",
      headers: { range: `bytes=${SMALLEST - 2}-${SMALLEST + 4}` },
      chunks: [2, 5],
    },
    { what: "a range within a chunk", query: "", headers: { range: "bytes=7-16" }, chunks: [10] },
    { what: "its end", query: "", headers: { range: "bytes=-4" }, chunks: [1, 3] },
  ])("gives $what for a read of each chunk that it is in, and HEAD of it for none", async ({
    query,
    headers,
    chunks,
  }) => {
    expect(await asked(`GET ${path}${query}`, headers)).toEqual(chunks);
    expect(await asked(`HEAD ${path}${query}`, headers)).toEqual([]);
  });

  test("answers what a condition refuses without a read", async () => {
    const response = await good(`HEAD ${path}`);
    const headers = { "if-none-match": response.headers.get("etag") ?? "" };
    const methods = Object.getPrototypeOf(env.BLOBS);
    const gets = vi.spyOn(methods, "get");
    expect((await s3(`GET ${path}`, { headers })).status).toBe(304);
    expect(gets).not.toHaveBeenCalled();
  });
});
