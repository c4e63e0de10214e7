import { env, evictDurableObject, runInDurableObject } from "cloudflare:test";
import { createHash } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import { branchOf, inObject } from "../../branch/support.ts";
import { answer, failure, good, s3, signed, xml } from "../support.ts";

const hex = (text: string): string =>
  createHash("sha256").update(new TextEncoder().encode(text)).digest("hex");
const md5 = (text: string): string => {
  const digest = createHash("md5").update(new TextEncoder().encode(text)).digest();
  return btoa(String.fromCharCode(...digest));
};

beforeAll(async () => {
  await good("PUT /master.objects");
});

describe("PutObject and GetObject", () => {
  test("give back bytes, ETag, type and metadata as they were sent", async () => {
    const headers = { "content-type": "text/csv; charset=utf-8", "x-amz-meta-origin": "two  spaces" };
    const put = await good("PUT /master.objects/a.csv", { body: "1,2\n", headers });
    const etag = `"${hex("1,2\n")}-4"`;
    expect(put.headers.get("etag")).toBe(etag);
    const get = await good("GET /master.objects/a.csv");
    expect(await get.text()).toBe("1,2\n");
    expect(Object.fromEntries(get.headers)).toMatchObject({
      etag,
      "content-type": "text/csv; charset=utf-8",
      "x-amz-meta-origin": "two  spaces",
      "accept-ranges": "bytes",
      "x-amz-version-id": put.headers.get("x-amz-version-id"),
      "last-modified": expect.stringMatching(/^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$/),
    });
    expect(get.headers.get("content-encoding")).toBeNull();
  });

  test("tell conditions that the same was written again, by PUT and by copy, where objects have own times", async () => {
    await good("PUT /master.again");
    const branch = branchOf("master.again");
    await branch.settings.change({ modified: "file" });
    const first = await good("PUT /master.again/a", { body: "same" });
    const long = new Date(Date.now() - 2 * 60 * 60 * 1000).toUTCString();
    const since = new Date(Date.now() - 60 * 60 * 1000).toUTCString();
    /** As if all that was written had been written two hours ago. */
    const age = async () => {
      await runInDurableObject(branch, (_, { storage: { sql } }) => {
        sql.exec("UPDATE commits SET createdAt = ?", Date.parse(long));
        sql.exec("UPDATE files SET renewed = NULL");
      });
      await evictDurableObject(branch);
    };
    const asked = async () => {
      const modified = await s3("GET /master.again/a", { headers: { "if-modified-since": since } });
      const unmodified = await s3("GET /master.again/a", { headers: { "if-unmodified-since": since } });
      await Promise.all([modified.text(), unmodified.text()]);
      return [modified.status, unmodified.status];
    };
    const writes = {
      put: () => good("PUT /master.again/a", { body: "same" }),
      copy: () =>
        good("PUT /master.again/a", {
          headers: { "x-amz-copy-source": "master.again/a", "x-amz-storage-class": "STANDARD" },
        }),
    };
    for (const write of Object.values(writes)) {
      await age();
      expect(await asked()).toEqual([304, 200]);
      const written = await write();
      await written.text();
      expect(written.headers.get("x-amz-version-id")).toBe(first.headers.get("x-amz-version-id"));
      expect(await asked()).toEqual([200, 412]);
      const version = `GET /master.again/a?versionId=${first.headers.get("x-amz-version-id")}`;
      const old = await good(version);
      await old.text();
      expect(old.headers.get("last-modified")).toBe(long);
    }
  });

  test("of bytes that the store has lost say so, and what names all of them", async () => {
    await good("PUT /master.objects/lost", { body: new Uint8Array(5000) });
    const blobs = await inObject(branchOf("master.objects"), async (branch) => {
      const read = await branch.files.read({ path: "lost" });
      return read.ok && read.body.kind === "chunks" ? read.body.chunks.map(({ blob }) => blob) : [];
    });
    const damages: ((blob: string) => Promise<unknown>)[] = [
      (blob) => env.BLOBS.put(blob, "cut off"),
      (blob) => env.BLOBS.delete(blob),
    ];
    for (const damage of damages) {
      await Promise.all(blobs.map(damage));
      expect(await failure(s3("GET /master.objects/lost"))).toMatchObject({
        status: 500,
        Code: "InternalError",
        Message:
          "Bytes of it are missing from the blob store: 'sluice fsck' names every file that has lost some.",
      });
    }
  });

  test("HeadObject says the same without the bytes", async () => {
    await good("PUT /master.objects/head", { body: new Uint8Array(5) });
    const [head, get] = [await good("HEAD /master.objects/head"), await good("GET /master.objects/head")];
    expect(head.body).toBeNull();
    const { "x-amz-request-id": _, ...said } = Object.fromEntries(head.headers);
    expect(said).toEqual({
      "accept-ranges": "bytes",
      "content-length": "5",
      "content-security-policy": "sandbox",
      "content-type": "binary/octet-stream",
      etag: get.headers.get("etag"),
      "last-modified": get.headers.get("last-modified"),
      "x-amz-server-side-encryption": "AES256",
      "x-amz-version-id": get.headers.get("x-amz-version-id"),
      "x-content-type-options": "nosniff",
    });
  });

  test("a body of several chunks and an odd rest comes back whole, and any range of it", async () => {
    const body = new Uint8Array(5 * 1024 * 1024 + 7).map((_, i) => (i * 31) >> 3);
    await good("PUT /master.objects/big", { body });
    const whole = new Uint8Array(await (await good("GET /master.objects/big")).arrayBuffer());
    expect(createHash("md5").update(whole).digest("hex")).toBe(createHash("md5").update(body).digest("hex"));
    const from = 4 * 1024 * 1024 - 3;
    const part = await good("GET /master.objects/big", { headers: { range: `bytes=${from}-${from + 5}` } });
    expect([part.status, part.headers.get("content-range")]).toEqual([
      206,
      `bytes ${from}-${from + 5}/${body.length}`,
    ]);
    expect(new Uint8Array(await part.arrayBuffer())).toEqual(body.slice(from, from + 6));
  });

  test("a body of unknown length is taken as it comes", async () => {
    const stream = new Blob(["abc", "def"]).stream();
    await good("PUT /master.objects/streamed", { body: stream });
    expect(await (await good("GET /master.objects/streamed")).text()).toBe("abcdef");
  });

  test("an empty body makes an empty object", async () => {
    const put = await good("PUT /master.objects/empty", { body: "" });
    expect(put.headers.get("etag")).toBe(`"${hex("")}-0"`);
    const get = await good("GET /master.objects/empty");
    expect([get.headers.get("etag"), await get.text()]).toEqual([put.headers.get("etag"), ""]);
  });

  test.each([
    "a b",
    "ü/日本😀",
    "p+q",
    "100%",
    "q?x=1&y#z",
    "back\\slash",
    "it's(ok)!*~",
    "%2F",
    ".hidden",
    "a/..b",
  ])("the key '%s' is kept as it is", async (key) => {
    const target = `/master.objects/${key.split("/").map(encodeURIComponent).join("/")}`;
    await good(`PUT ${target}`, { body: key });
    expect(await (await good(`GET ${target}`)).text()).toBe(key);
  });

  test("a key that ends in a slash is an empty directory", async () => {
    await good("PUT /master.objects/folder/", { body: "" });
    const head = await good("HEAD /master.objects/folder/");
    expect([head.headers.get("content-length"), head.headers.get("etag")]).toEqual(["0", `"${hex("")}-0"`]);
    expect((await failure(s3("GET /master.objects/folder"))).Code).toBe("NoSuchKey");
  });

  test("versionId reads an earlier commit", async () => {
    const first = await good("PUT /master.objects/versioned", { body: "one" });
    await good("PUT /master.objects/versioned", { body: "two" });
    const commit = first.headers.get("x-amz-version-id");
    const old = await good(`GET /master.objects/versioned?versionId=${commit}`);
    expect([await old.text(), old.headers.get("x-amz-version-id")]).toEqual(["one", commit]);
    expect(await (await good("GET /master.objects/versioned")).text()).toBe("two");
    expect(await failure(s3("GET /master.objects/versioned?versionId=none"))).toMatchObject({
      status: 404,
      Code: "NoSuchVersion",
    });
    expect((await failure(s3("GET /master.objects/versioned?versionId="))).Code).toBe("InvalidArgument");
  });

  test("a proxy that compresses is told that the bytes are not to be touched", async () => {
    await good("PUT /master.objects/plain.txt", { body: "x", headers: { "content-type": "text/plain" } });
    const request = await signed("GET /master.objects/plain.txt");
    const proxied = new Request(request, { cf: { clientAcceptEncoding: "gzip" } });
    expect((await answer(proxied)).headers.get("content-encoding")).toBe("identity");
  });
});

describe("what a client says of its body is checked, and nothing is written where it does not hold", () => {
  const refused = async (headers: Record<string, string>, body = "content"): Promise<string> => {
    const { Code } = await failure(s3("PUT /master.objects/checked", { headers, body }));
    expect((await s3("HEAD /master.objects/checked")).status).toBe(404);
    return Code;
  };
  const long = "x".repeat(100_000);

  test("Content-MD5", async () => {
    expect(await refused({ "content-md5": md5("other") })).toBe("BadDigest");
    expect(await refused({ "content-md5": md5("other") }, long)).toBe("BadDigest");
    for (const wrong of ["abc", "", "####", btoa("too short")]) {
      expect(await refused({ "content-md5": wrong })).toBe("InvalidDigest");
    }
    await good("PUT /master.objects/md5", { headers: { "content-md5": md5("content") }, body: "content" });
  });

  test("x-amz-content-sha256", async () => {
    expect(await refused({ "x-amz-content-sha256": hex("other") })).toBe("XAmzContentSHA256Mismatch");
    expect(await refused({ "x-amz-content-sha256": hex("other") }, long)).toBe("XAmzContentSHA256Mismatch");
    await good("PUT /master.objects/sha", {
      headers: { "x-amz-content-sha256": hex("content") },
      body: "content",
    });
  });

  test("Content-Length", async () => {
    expect(await refused({ "content-length": "99" })).toBe("IncompleteBody");
    expect(await refused({ "content-length": "3" })).toBe("IncompleteBody");
    const missing = await failure(s3("PUT /master.objects/checked"));
    expect(missing).toMatchObject({ status: 411, Code: "MissingContentLength" });
  });
});

describe("conditions and ranges", () => {
  let etag = "";
  beforeAll(async () => {
    const put = await good("PUT /master.objects/conditional", { body: "0123456789" });
    etag = put.headers.get("etag") ?? "";
  });
  const get = (headers: Record<string, string>) => s3("GET /master.objects/conditional", { headers });

  test("304 has the ETag and no body", async () => {
    const response = await get({ "if-none-match": etag });
    expect([response.status, response.headers.get("etag"), response.body]).toEqual([304, etag, null]);
    expect((await get({ "if-none-match": etag.slice(1, -1) })).status).toBe(304);
    expect((await get({ "if-modified-since": new Date(Date.now() + 60_000).toUTCString() })).status).toBe(
      304,
    );
  });

  test("412 has a body that is plain text, as the spec says", async () => {
    const failed = await get({ "if-match": '"other"' });
    expect([failed.status, failed.headers.get("content-type")]).toEqual([412, "text/plain; charset=utf-8"]);
    expect(await failed.text()).toContain("If-Match");
  });

  test("416 names code, message and size, and is not the document of other errors", async () => {
    const outside = await get({ range: "bytes=10-" });
    expect([outside.status, outside.headers.get("content-range")]).toEqual([416, "bytes */10"]);
    // aws-c-s3 reads the size if the type is this one to the letter.
    expect(outside.headers.get("content-type")).toBe("application/xml");
    expect((await xml(outside)).Error).toEqual({
      Code: "InvalidRange",
      Message: expect.stringContaining("10 bytes"),
      ActualObjectSize: "10",
    });
  });

  test("416 of an object without bytes says so, to whoever asks for its first part or its first range", async () => {
    await good("PUT /master.objects/nothing", { body: "" });
    const first = await s3("GET /master.objects/nothing", { headers: { range: "bytes=0-8388607" } });
    expect([first.status, first.headers.get("content-range")]).toEqual([416, "bytes */0"]);
    expect((await xml(first)).Error).toMatchObject({ Code: "InvalidRange", ActualObjectSize: "0" });
    const head = await s3("HEAD /master.objects/nothing", { headers: { range: "bytes=0-" } });
    expect([head.status, await head.text()]).toEqual([416, ""]);
  });

  test("a key that is missing is 404 whatever the conditions", async () => {
    const response = s3("GET /master.objects/missing", { headers: { "if-none-match": "*" } });
    expect(await failure(response)).toMatchObject({ status: 404, Code: "NoSuchKey" });
  });

  test.each([
    ["bytes=0-0", 206, "0"],
    ["bytes=-3", 206, "789"],
    ["bytes=8-99", 206, "89"],
    ["bytes=0-1,3-4", 200, "0123456789"],
    ["lines=1-2", 200, "0123456789"],
  ])("the range %s answers %d", async (range, status, text) => {
    const response = await get({ range });
    expect([response.status, await response.text()]).toEqual([status, text]);
  });

  test("If-Range answers the whole where the object is another", async () => {
    expect((await get({ range: "bytes=0-0", "if-range": etag })).status).toBe(206);
    expect((await get({ range: "bytes=0-0", "if-range": '"other"' })).status).toBe(200);
  });

  test("HEAD takes conditions and ranges, too", async () => {
    const head = (headers: Record<string, string>) => s3("HEAD /master.objects/conditional", { headers });
    const part = await head({ range: "bytes=2-4" });
    expect([part.status, part.headers.get("content-length")]).toEqual([206, "3"]);
    expect((await head({ "if-none-match": etag })).status).toBe(304);
    expect((await head({ "if-match": '"other"' })).status).toBe(412);
  });
});

describe("DeleteObject", () => {
  test("deletes the file in a commit of its own; the earlier commit still has it", async () => {
    const put = await good("PUT /master.objects/gone", { body: "x" });
    const deleted = await good("DELETE /master.objects/gone");
    expect(deleted.status).toBe(204);
    expect((await failure(s3("GET /master.objects/gone"))).Code).toBe("NoSuchKey");
    const version = put.headers.get("x-amz-version-id");
    expect((await s3(`GET /master.objects/gone?versionId=${version}`)).status).toBe(200);
    expect(
      (await s3(`GET /master.objects/gone?versionId=${deleted.headers.get("x-amz-version-id")}`)).status,
    ).toBe(405);
  });

  test("answers the same where there is no such file, and makes no commit", async () => {
    const response = await good("DELETE /master.objects/never-there");
    expect([response.status, response.headers.get("x-amz-version-id")]).toEqual([204, null]);
  });
});
