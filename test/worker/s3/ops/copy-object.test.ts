import { env, runInDurableObject } from "cloudflare:test";
import { createHash } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import type { BranchApi } from "../../../../worker/branch/contract/api.ts";
import { clientOf } from "../../../../worker/objects/facets.ts";
import { answer, failure, good, s3, scopedKey, unsigned, xml } from "../support.ts";

const BUCKET = "/master.copies";
const OTHER = "/other.elsewhere";
const branch = clientOf<BranchApi>(env.BRANCH.getByName("master.copies"));
/** Byte by byte, a comparison of megabytes takes seconds. */
const hashOf = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

beforeAll(async () => {
  await good(`PUT ${BUCKET}`);
  await good(`PUT ${OTHER}`);
});

const put = (target: string, body: string | Uint8Array<ArrayBuffer> = target, headers = {}) =>
  good(`PUT ${target}`, { body, headers });
const copy = (target: string, source: string, headers: Record<string, string> = {}) =>
  s3(`PUT ${target}`, { headers: { "x-amz-copy-source": source, ...headers } });
const text = async (target: string): Promise<string> => (await good(`GET ${target}`)).text();
const header = async (target: string, name: string): Promise<string | null> =>
  (await good(`HEAD ${target}`)).headers.get(name);
const noise = (bytes: number, seed: number): Uint8Array<ArrayBuffer> =>
  new Uint8Array(bytes).map((_, i) => ((i + seed) * 31) >> 3);

describe("a copy inside a branch", () => {
  test("has the bytes, the ETag, the type and the metadata of its source, and is one commit", async () => {
    const sent = { "content-type": "text/x-a", "cache-control": "no-cache", "x-amz-meta-a": "1" };
    const source = await put(`${BUCKET}/source`, "content", sent);
    const response = await copy(`${BUCKET}/copied.csv`, `${BUCKET}/source`);
    expect(response.headers.get("x-amz-copy-source-version-id")).toBe(source.headers.get("x-amz-version-id"));
    const { CopyObjectResult } = await xml(response.clone());
    expect(CopyObjectResult).toEqual({
      ETag: source.headers.get("etag"),
      LastModified: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    });
    const got = await good(`GET ${BUCKET}/copied.csv`);
    expect(await got.text()).toBe("content");
    expect(Object.fromEntries(got.headers)).toMatchObject({
      ...sent,
      etag: source.headers.get("etag"),
      "x-amz-version-id": response.headers.get("x-amz-version-id"),
    });
  });

  test("of many megabytes refers to the same blobs", async () => {
    const body = noise(5 * 1024 * 1024 + 7, 1);
    await put(`${BUCKET}/large`, body);
    expect((await copy(`${BUCKET}/large-copy`, `${BUCKET}/large`)).status).toBe(200);
    const [one, two] = [
      await branch.files.read({ path: "large" }),
      await branch.files.read({ path: "large-copy" }),
    ];
    expect(two.ok && two.body).toEqual(one.ok && one.body);
    await good(`DELETE ${BUCKET}/large`);
    const got = await good(`GET ${BUCKET}/large-copy`);
    expect(hashOf(new Uint8Array(await got.arrayBuffer()))).toBe(hashOf(body));
  });

  test("is made of an earlier version by its commit", async () => {
    const first = await put(`${BUCKET}/versioned`, "one");
    await put(`${BUCKET}/versioned`, "two");
    const version = first.headers.get("x-amz-version-id");
    const restored = await copy(`${BUCKET}/versioned`, `${BUCKET}/versioned?versionId=${version}`);
    expect([restored.status, restored.headers.get("x-amz-copy-source-version-id")]).toEqual([200, version]);
    expect(await text(`${BUCKET}/versioned`)).toBe("one");
  });

  test.each(["a b+c", "100%", "日本 😀", "it's(ok)!*~", "q?versionId=1"])("of '%s' is whole", async (key) => {
    await put(`${BUCKET}/${encodeURIComponent(key)}`, key);
    const done = await copy(
      `${BUCKET}/${encodeURIComponent(`copy of ${key}`)}`,
      `master.copies/${encodeURIComponent(key)}`,
    );
    expect(done.status).toBe(200);
    expect(await text(`${BUCKET}/${encodeURIComponent(`copy of ${key}`)}`)).toBe(key);
  });

  describe("of a source whose name has a plus", () => {
    const copied = async (source: string): Promise<string> => {
      const response = await copy(`${BUCKET}/plus-copy`, source);
      return response.ok ? await text(`${BUCKET}/plus-copy`) : (await failure(response)).Code;
    };

    test("takes it for a space, as S3 does, and %2B for a plus", async () => {
      await put(`${BUCKET}/one%20two`, "space");
      await put(`${BUCKET}/one%2Btwo`, "plus");
      expect(await copied(`${BUCKET}/one+two`)).toBe("space");
      expect(await copied(`${BUCKET}/one%20two`)).toBe("space");
      expect(await copied(`${BUCKET}/one%2Btwo`)).toBe("plus");
    });

    test("takes it for a plus if there is no such key with a space, also from another branch", async () => {
      for (const bucket of [BUCKET, OTHER]) {
        await put(`${bucket}/only%2Bplus`, "plus");
        expect(await copied(`${bucket}/only+plus`)).toBe("plus");
        expect(await copied(`${bucket}/only%20plus`)).toBe("NoSuchKey");
      }
      expect(await copied(`${BUCKET}/neither+nor`)).toBe("NoSuchKey");
      const { Message } = await failure(copy(`${BUCKET}/plus-copy`, `${BUCKET}/neither+nor`));
      expect(Message).toContain("'master.copies/neither nor'");
      expect(Message).toContain("%2B");
    });

    test("looks at the version that is asked for", async () => {
      const version = async (key: string, body: string) =>
        (await put(`${BUCKET}/${key}`, body)).headers.get("x-amz-version-id");
      const before = await version("v%2Bw", "plus");
      const spaced = await version("v%20w", "space");
      const gone = (await good(`DELETE ${BUCKET}/v%20w`)).headers.get("x-amz-version-id");
      const of = (id: string | null) => `${BUCKET}/v+w?versionId=${id}`;
      expect(await copied(of(before))).toBe("plus");
      expect(await copied(of(spaced))).toBe("space");
      expect(await copied(of(gone))).toBe("plus");
      expect(await copied(`${BUCKET}/v%2Bw?versionId=${spaced}`)).toBe("plus");
      expect(await copied(`${BUCKET}/v+w`)).toBe("plus");
    });

    test("onto itself changes nothing, whichever it is", async () => {
      await put(`${BUCKET}/self%2Bplus`);
      expect(await failure(copy(`${BUCKET}/self%2Bplus`, `${BUCKET}/self+plus`))).toMatchObject({
        status: 400,
        Code: "InvalidRequest",
      });
    });
  });

  test("of a directory is a directory", async () => {
    await put(`${BUCKET}/folder/`, "", { "x-amz-meta-mode": "33188" });
    expect((await copy(`${BUCKET}/folder-2/`, `${BUCKET}/folder/`)).status).toBe(200);
    expect(await header(`${BUCKET}/folder-2/`, "x-amz-meta-mode")).toBe("33188");
    await put(`${BUCKET}/file-with-bytes`);
    expect(await failure(copy(`${BUCKET}/folder-3/`, `${BUCKET}/file-with-bytes`))).toMatchObject({
      status: 400,
      Code: "InvalidArgument",
    });
  });

  test("that changes nothing makes no commit and answers the version that is there", async () => {
    await put(`${BUCKET}/same`, "same");
    const first = await copy(`${BUCKET}/same-copy`, `${BUCKET}/same`);
    const again = await copy(`${BUCKET}/same-copy`, `${BUCKET}/same`);
    expect(again.status).toBe(200);
    expect(again.headers.get("x-amz-version-id")).toBe(first.headers.get("x-amz-version-id"));
  });
});

describe("x-amz-metadata-directive", () => {
  test("REPLACE takes the request's metadata, and guesses the type from the new key", async () => {
    await put(`${BUCKET}/old.txt`, "x", { "x-amz-meta-a": "1", "content-language": "de" });
    const headers = { "x-amz-metadata-directive": "REPLACE", "x-amz-meta-b": "2" };
    expect((await copy(`${BUCKET}/new.csv`, `${BUCKET}/old.txt`, headers)).status).toBe(200);
    const got = await good(`HEAD ${BUCKET}/new.csv`);
    expect(Object.fromEntries(got.headers)).toMatchObject({
      "content-type": "text/csv",
      "x-amz-meta-b": "2",
    });
    expect([got.headers.get("x-amz-meta-a"), got.headers.get("content-language")]).toEqual([null, null]);
  });

  test("COPY, which is the default, leaves the request's metadata aside", async () => {
    await put(`${BUCKET}/kept.txt`, "x", { "content-type": "text/x-a", "x-amz-meta-a": "1" });
    const headers = { "x-amz-metadata-directive": "COPY", "x-amz-meta-a": "2", "content-type": "text/x-b" };
    expect((await copy(`${BUCKET}/kept-copy`, `${BUCKET}/kept.txt`, headers)).status).toBe(200);
    const got = await good(`HEAD ${BUCKET}/kept-copy`);
    expect(Object.fromEntries(got.headers)).toMatchObject({
      "content-type": "text/x-a",
      "x-amz-meta-a": "1",
    });
  });

  test("must be REPLACE for a copy onto itself, as chmod on a mounted bucket sends it", async () => {
    await put(`${BUCKET}/itself`, "x", { "x-amz-meta-mode": "1" });
    expect(await failure(copy(`${BUCKET}/itself`, `${BUCKET}/itself`))).toMatchObject({
      status: 400,
      Code: "InvalidRequest",
    });
    const chmod = { "x-amz-metadata-directive": "REPLACE", "x-amz-meta-mode": "2" };
    expect((await copy(`${BUCKET}/itself`, `${BUCKET}/itself`, chmod)).status).toBe(200);
    expect(await header(`${BUCKET}/itself`, "x-amz-meta-mode")).toBe("2");
    expect(await text(`${BUCKET}/itself`)).toBe("x");
  });

  test("of another value is refused", async () => {
    await put(`${BUCKET}/directive`);
    const headers = { "x-amz-metadata-directive": "MERGE" };
    expect(await failure(copy(`${BUCKET}/d2`, `${BUCKET}/directive`, headers))).toMatchObject({
      status: 400,
      Code: "InvalidArgument",
    });
  });
});

describe("a copy from another branch", () => {
  test.each([
    ["small", 100],
    ["large", 5 * 1024 * 1024 + 7],
  ])("that is %s has the same bytes and ETag", async (name, bytes) => {
    const body = noise(bytes, 7);
    const source = await put(`${OTHER}/${name}`, body, { "x-amz-meta-from": "elsewhere" });
    const done = await copy(`${BUCKET}/brought/${name}`, `${OTHER}/${name}`);
    expect(done.status).toBe(200);
    const got = await good(`GET ${BUCKET}/brought/${name}`);
    expect([got.headers.get("etag"), got.headers.get("x-amz-meta-from")]).toEqual([
      source.headers.get("etag"),
      "elsewhere",
    ]);
    expect(hashOf(new Uint8Array(await got.arrayBuffer()))).toBe(hashOf(body));
  });

  test("takes what the branch has already, whatever blobs the other one keeps", async () => {
    const body = noise(100_000, 11);
    await put(`${OTHER}/shared`, body);
    await put(`${BUCKET}/shared-here`, body);
    expect((await copy(`${BUCKET}/shared-copy`, `${OTHER}/shared`)).status).toBe(200);
    const [here, copied] = [
      await branch.files.read({ path: "shared-here" }),
      await branch.files.read({ path: "shared-copy" }),
    ];
    expect(copied.ok && copied.body).toEqual(here.ok && here.body);
  });

  test("leaves nothing open where its commit is refused", async () => {
    await put(`${OTHER}/refused`, noise(50_000, 13));
    await put(`${BUCKET}/in-the-way`);
    expect(await failure(copy(`${BUCKET}/in-the-way/below`, `${OTHER}/refused`))).toMatchObject({
      status: 400,
      Code: "PathConflict",
    });
    expect((await s3(`HEAD ${BUCKET}/in-the-way/below`)).status).toBe(404);
    const stub = env.BRANCH.getByName("master.copies");
    const uploads = await runInDurableObject(stub, (_, { storage }) =>
      storage.sql.exec("SELECT id FROM uploads").toArray(),
    );
    expect(uploads).toEqual([]);
  });

  test("of a directory is a directory", async () => {
    await put(`${OTHER}/folder/`, "");
    expect((await copy(`${BUCKET}/brought-folder/`, `${OTHER}/folder/`)).status).toBe(200);
    expect((await s3(`HEAD ${BUCKET}/brought-folder/`)).status).toBe(200);
  });
});

describe("x-amz-copy-source-if-*", () => {
  const past = "Mon, 01 Jan 2001 00:00:00 GMT";
  const future = "Mon, 01 Jan 2035 00:00:00 GMT";
  let etag = "";
  beforeAll(async () => {
    etag = (await put(`${BUCKET}/conditional`)).headers.get("etag") ?? "";
  });
  const outcome = async (conditions: Record<string, string>): Promise<number> => {
    const headers = Object.entries(conditions).map(([name, value]) => [`x-amz-copy-source-${name}`, value]);
    return (await copy(`${BUCKET}/c2`, `${BUCKET}/conditional`, Object.fromEntries(headers))).status;
  };

  test("lets a copy be made where it holds", async () => {
    for (const name of ["if-match", "if-none-match"]) {
      const value = name === "if-match" ? etag : '"other"';
      expect(await outcome({ [name]: value })).toBe(200);
    }
    expect(await outcome({ "if-modified-since": past })).toBe(200);
    expect(await outcome({ "if-unmodified-since": future })).toBe(200);
    expect(await outcome({ "if-match": etag, "if-unmodified-since": past })).toBe(200);
  });

  test("is a 412 where it does not, also where a GET would be a 304", async () => {
    expect(await outcome({ "if-match": '"other"' })).toBe(412);
    expect(await outcome({ "if-none-match": etag })).toBe(412);
    expect(await outcome({ "if-modified-since": future })).toBe(412);
    expect(await outcome({ "if-unmodified-since": past })).toBe(412);
    expect(await outcome({ "if-none-match": etag, "if-modified-since": past })).toBe(412);
  });
});

test("If-Match and If-None-Match look at what is at the destination", async () => {
  await put(`${BUCKET}/from`);
  const there = await put(`${BUCKET}/to`, "there");
  const source = `${BUCKET}/from`;
  expect(await failure(copy(`${BUCKET}/to`, source, { "if-none-match": "*" }))).toMatchObject({
    status: 412,
    Code: "PreconditionFailed",
  });
  expect((await copy(`${BUCKET}/to`, source, { "if-match": '"other"' })).status).toBe(412);
  expect(await text(`${BUCKET}/to`)).toBe("there");
  const etag = there.headers.get("etag") ?? "";
  expect((await copy(`${BUCKET}/to`, source, { "if-match": etag })).status).toBe(200);
  expect((await copy(`${BUCKET}/to-new`, source, { "if-none-match": "*" })).status).toBe(200);
});

describe("x-amz-checksum-algorithm", () => {
  test("asks for a checksum over the bytes, which the copy then has", async () => {
    await put(`${BUCKET}/unsummed`, "hello world");
    const headers = { "x-amz-checksum-algorithm": "CRC32" };
    const { CopyObjectResult } = await xml(copy(`${BUCKET}/summed`, `${BUCKET}/unsummed`, headers));
    // The CRC-32 of "hello world" is 0x0d4a1185.
    expect(CopyObjectResult).toMatchObject({ ChecksumCRC32: "DUoRhQ==", ChecksumType: "FULL_OBJECT" });
    const got = await good(`HEAD ${BUCKET}/summed`, { headers: { "x-amz-checksum-mode": "ENABLED" } });
    expect(got.headers.get("x-amz-checksum-crc32")).toBe("DUoRhQ==");
  });

  test("is kept from the source where none is asked for", async () => {
    await put(`${BUCKET}/unsummed-2`, "hello world");
    await copy(`${BUCKET}/summed-2`, `${BUCKET}/unsummed-2`, { "x-amz-checksum-algorithm": "CRC32" });
    await copy(`${BUCKET}/summed-3`, `${BUCKET}/summed-2`);
    const got = await good(`HEAD ${BUCKET}/summed-3`, { headers: { "x-amz-checksum-mode": "ENABLED" } });
    expect(got.headers.get("x-amz-checksum-crc32")).toBe("DUoRhQ==");
  });

  test("is computed over many megabytes, too, also of another branch's", async () => {
    const body = noise(5 * 1024 * 1024 + 3, 17);
    await put(`${OTHER}/to-sum`, body);
    const headers = { "x-amz-checksum-algorithm": "SHA256" };
    const { CopyObjectResult } = await xml(copy(`${BUCKET}/summed-large`, `${OTHER}/to-sum`, headers));
    const sha256 = new Uint8Array(await crypto.subtle.digest("SHA-256", body));
    expect(CopyObjectResult.ChecksumSHA256).toBe(btoa(String.fromCharCode(...sha256)));
  });

  test("of another name is refused", async () => {
    await put(`${BUCKET}/unsummed-3`);
    const refused = copy(`${BUCKET}/s`, `${BUCKET}/unsummed-3`, { "x-amz-checksum-algorithm": "MD6" });
    expect((await refused).status).toBe(400);
  });
});

describe("a copy that cannot be made", () => {
  beforeAll(async () => {
    await put(`${BUCKET}/there`);
  });

  test.each([
    ["master.copies/missing", 404, "NoSuchKey"],
    ["master.copies/there?versionId=none", 404, "NoSuchVersion"],
    ["master.nowhere/key", 404, "NoSuchBucket"],
    ["-copies/key", 400, "InvalidArgument"],
    ["api/key", 400, "InvalidArgument"],
    ["v1.master.copies/there", 404, "NoSuchBucket"],
    ["master.copies/a//b", 400, "InvalidArgument"],
    ["master.copies", 400, "InvalidArgument"],
    ["master.copies/there?versionId=", 400, "InvalidArgument"],
  ])("of '%s' is %d %s", async (source, status, Code) => {
    const refused = await failure(copy(`${BUCKET}/unmade`, source));
    expect(refused).toMatchObject({ status, Code, Message: expect.stringMatching(/.{20}/) });
  });

  test("is refused without a signature", async () => {
    const request = unsigned(`PUT ${BUCKET}/unmade`, { "x-amz-copy-source": "master.copies/there" });
    expect((await answer(request)).status).toBe(403);
  });

  test("is refused if it is of a repo that the key may not read, whatever is there", async () => {
    const key = scopedKey({ level: "write", repos: ["copies"] });
    for (const source of ["other.elsewhere/small", "other.elsewhere/missing", "master.nowhere/key"]) {
      const asked = s3(`PUT ${BUCKET}/stolen`, { headers: { "x-amz-copy-source": source }, key });
      expect(await failure(asked)).toMatchObject({
        status: 403,
        Code: "AccessDenied",
        Message: expect.stringContaining(source.split(/[./]/)[1] ?? ""),
      });
    }
    expect((await s3(`HEAD ${BUCKET}/stolen`)).status).toBe(404);
    const own = { "x-amz-copy-source": "master.copies/there" };
    expect((await s3(`PUT ${BUCKET}/own`, { headers: own, key })).status).toBe(200);
  });

  test("expects another owner of the source", async () => {
    const expected = { "x-amz-source-expected-bucket-owner": "somebody" };
    expect((await failure(copy(`${BUCKET}/unmade`, "master.copies/there", expected))).Code).toBe(
      "AccessDenied",
    );
  });

  test("wants encryption, locks or another storage class", async () => {
    const refused = [
      { "x-amz-server-side-encryption": "aws:kms" },
      { "x-amz-storage-class": "GLACIER" },
      { "x-amz-acl": "public-read" },
    ];
    for (const headers of refused) {
      const { status, Code } = await failure(copy(`${BUCKET}/unmade`, "master.copies/there", headers));
      expect([status, Code]).toEqual([501, "NotImplemented"]);
    }
    const fine = {
      "x-amz-tagging-directive": "COPY",
      "x-amz-storage-class": "STANDARD",
      "x-amz-acl": "private",
    };
    expect((await copy(`${BUCKET}/made`, "master.copies/there", fine)).status).toBe(200);
  });
});
