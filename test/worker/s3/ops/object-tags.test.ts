import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { beforeAll, describe, expect, test } from "vitest";
import { parseTagging } from "../../../../worker/s3/objects/tag-set.ts";
import { branchOf, startOpenCommit } from "../../branch/support.ts";
import { failure, good, s3, scopedKey, xml } from "../support.ts";

const BUCKET = "/master.tagged";

beforeAll(async () => {
  await good(`PUT ${BUCKET}`);
});

/** The tags of an object as pairs, in the order of the answer. */
async function tagsOf(path: string): Promise<string[][]> {
  const { Tagging } = await xml(good(`GET ${path}?tagging`));
  return [Tagging.TagSet?.Tag ?? []]
    .flat()
    .map(({ Key, Value }: { Key: string; Value: string }) => [Key, Value]);
}

const tagging = (...tags: readonly (readonly [string, string])[]): string =>
  `<Tagging><TagSet>${tags.map(([key, value]) => `<Tag><Key>${key}</Key><Value>${value}</Value></Tag>`).join("")}</TagSet></Tagging>`;

describe("tags by header", () => {
  test.each([
    ["a=b", [["a", "b"]]],
    [
      "b=2&a=1",
      [
        ["a", "1"],
        ["b", "2"],
      ],
    ],
    ["&", []],
    ["", []],
    ["key", [["key", ""]]],
    ["key=&", [["key", ""]]],
    ["key@=val@", [["key@", "val@"]]],
    ["key%2E=value%2F", [["key.", "value/"]]],
    ["a++b=c%20d", [["a  b", "c d"]]],
    ["%C3%A9t%C3%A9=%E5%80%A4", [["été", "値"]]],
    ["a=b=c", [["a", "b=c"]]],
    [
      "__proto__=x&constructor=y",
      [
        ["__proto__", "x"],
        ["constructor", "y"],
      ],
    ],
  ])("'%s' is the tags %j of a PUT, and their number is told", async (header, tags) => {
    const path = `${BUCKET}/header`;
    await good(`PUT ${path}`, { body: "x", headers: { "x-amz-tagging": header } });
    expect(await tagsOf(path)).toEqual(tags);
    for (const method of ["GET", "HEAD"]) {
      const { headers } = await good(`${method} ${path}`);
      expect(headers.get("x-amz-tagging-count")).toBe(tags.length === 0 ? null : String(tags.length));
    }
  });

  test("come with the answer to a read if it asks for them, as they can be sent again", async () => {
    const path = `${BUCKET}/asked`;
    const sent = "a%20b=c%2Fd&empty=&%C3%A9=%E5%80%A4";
    await good(`PUT ${path}`, { body: "x", headers: { "x-amz-tagging": sent } });
    await good(`PUT ${BUCKET}/none`, { body: "x" });
    const headers = { "x-amz-tagging-directive": "ACCESS" };
    for (const method of ["GET", "HEAD"]) {
      expect((await good(`${method} ${path}`, { headers })).headers.get("x-amz-tagging")).toBe(sent);
      expect((await good(`${method} ${path}`)).headers.has("x-amz-tagging")).toBe(false);
      expect((await good(`${method} ${BUCKET}/none`, { headers })).headers.has("x-amz-tagging")).toBe(false);
    }
    const copy = { headers: { "x-amz-tagging-directive": "COPY" } };
    expect(await failure(s3(`GET ${path}`, copy))).toMatchObject({ status: 501, Code: "NotImplemented" });
  });

  test.each([
    ["=", "InvalidArgument"],
    ["=a", "InvalidArgument"],
    ["key%", "InvalidArgument"],
    ["key=%ff", "InvalidArgument"],
    ["key=1&key=2", "InvalidArgument"],
    ["k(=v", "InvalidTag"],
    ["k=v*", "InvalidTag"],
    ["aws:k=v", "InvalidTag"],
    [`${"k".repeat(129)}=v`, "InvalidTag"],
    [`k=${"v".repeat(257)}`, "InvalidTag"],
    // Two code units each.
    [`k=${encodeURIComponent("𝒳".repeat(129))}`, "InvalidTag"],
    [Array.from({ length: 11 }, (_, n) => `k${n}=v`).join("&"), "BadRequest"],
  ])("'%s' is %s, and nothing is written", async (header, code) => {
    const headers = { "x-amz-tagging": header };
    for (const line of [`PUT ${BUCKET}/refused`, `POST ${BUCKET}/refused?uploads`]) {
      expect(await failure(s3(line, { headers, body: "" }))).toMatchObject({ status: 400, Code: code });
    }
    const copied = {
      ...headers,
      "x-amz-copy-source": `${BUCKET}/header`,
      "x-amz-tagging-directive": "REPLACE",
    };
    expect(await failure(s3(`PUT ${BUCKET}/refused`, { headers: copied }))).toMatchObject({ Code: code });
    expect((await s3(`HEAD ${BUCKET}/refused`)).status).toBe(404);
  });

  test("ten tags of the longest keys and values are kept", async () => {
    const long = Array.from({ length: 10 }, (_, n) => [`${n}${"k".repeat(127)}`, "v".repeat(256)]);
    const header = new URLSearchParams(long).toString();
    await good(`PUT ${BUCKET}/long`, { body: "x", headers: { "x-amz-tagging": header } });
    expect(await tagsOf(`${BUCKET}/long`)).toEqual(long);
  });

  test("an object of parts has the tags that its upload began with", async () => {
    const path = `${BUCKET}/parts`;
    const begun = await xml(good(`POST ${path}?uploads`, { headers: { "x-amz-tagging": "kind=parts" } }));
    const target = `${path}?uploadId=${begun.InitiateMultipartUploadResult.UploadId}`;
    const part = await good(`PUT ${target}&partNumber=1`, { body: "part" });
    const etag = part.headers.get("etag");
    const body = `<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>${etag}</ETag></Part></CompleteMultipartUpload>`;
    await good(`POST ${target}`, { body });
    expect(await tagsOf(path)).toEqual([["kind", "parts"]]);
  });

  test("what makes no object takes none", async () => {
    const headers = { "x-amz-tagging": "a=b" };
    expect(await failure(s3(`DELETE ${BUCKET}/header`, { headers }))).toMatchObject({
      status: 501,
      Message: expect.stringContaining("PutObjectTagging"),
    });
  });
});

describe("a PUT of the same bytes", () => {
  test("with the same tags in another order makes no commit, and one with others does", async () => {
    const path = `${BUCKET}/same`;
    const put = async (tags: string) =>
      (await good(`PUT ${path}`, { body: "same", headers: { "x-amz-tagging": tags } })).headers.get(
        "x-amz-version-id",
      );
    const first = await put("b=2&a=1");
    expect(await put("a=1&b=2")).toBe(first);
    const second = await put("a=1&b=3");
    expect(second).not.toBe(first);
    expect(await tagsOf(path)).toEqual([
      ["a", "1"],
      ["b", "3"],
    ]);
    const { Tagging } = await xml(good(`GET ${path}?tagging&versionId=${first}`));
    expect(Tagging.TagSet.Tag).toEqual([
      { Key: "a", Value: "1" },
      { Key: "b", Value: "2" },
    ]);
    await good(`PUT ${path}`, { body: "same" });
    expect(await tagsOf(path)).toEqual([]);
  });
});

describe("a copy", () => {
  const copy = (headers: Record<string, string>, key = "copy", source = "source") =>
    s3(`PUT ${BUCKET}/${key}`, { headers: { "x-amz-copy-source": `${BUCKET}/${source}`, ...headers } });

  beforeAll(async () => {
    const headers = { "x-amz-tagging": "from=source", "x-amz-meta-a": "1" };
    await good(`PUT ${BUCKET}/source`, { body: "source", headers });
    await good("PUT /master.taggedelsewhere");
  });

  test("has the tags of its source, also if its metadata are replaced, and in another branch", async () => {
    for (const more of [
      {},
      { "x-amz-metadata-directive": "REPLACE" },
      { "x-amz-tagging-directive": "COPY" },
    ]) {
      await good(`PUT ${BUCKET}/copy`, { body: "other" });
      expect((await copy(more)).status).toBe(200);
      expect(await tagsOf(`${BUCKET}/copy`)).toEqual([["from", "source"]]);
    }
    const headers = { "x-amz-copy-source": `${BUCKET}/source` };
    await good("PUT /master.taggedelsewhere/copy", { headers });
    expect(await tagsOf("/master.taggedelsewhere/copy")).toEqual([["from", "source"]]);
  });

  test("has those of the request if they are to be replaced, and none if it has none", async () => {
    const replace = { "x-amz-tagging-directive": "REPLACE" };
    expect((await copy({ ...replace, "x-amz-tagging": "of=copy" })).status).toBe(200);
    expect(await tagsOf(`${BUCKET}/copy`)).toEqual([["of", "copy"]]);
    expect((await good(`HEAD ${BUCKET}/copy`)).headers.get("x-amz-meta-a")).toBe("1");
    expect((await copy(replace)).status).toBe(200);
    expect(await tagsOf(`${BUCKET}/copy`)).toEqual([]);
  });

  test("of an object onto itself may replace its tags alone", async () => {
    await good(`PUT ${BUCKET}/itself`, { body: "itself" });
    expect(await failure(copy({}, "itself", "itself"))).toMatchObject({
      status: 400,
      Code: "InvalidRequest",
    });
    const replace = { "x-amz-tagging-directive": "REPLACE", "x-amz-tagging": "new=1" };
    expect((await copy(replace, "itself", "itself")).status).toBe(200);
    expect(await tagsOf(`${BUCKET}/itself`)).toEqual([["new", "1"]]);
  });

  test("is refused if its directive is neither, or would leave the tags of the request out", async () => {
    const odd = await failure(copy({ "x-amz-tagging-directive": "replace" }));
    expect(odd).toMatchObject({ status: 400, Code: "InvalidArgument" });
    const lost = await failure(copy({ "x-amz-tagging": "a=b" }));
    expect(lost).toMatchObject({ status: 400, Code: "InvalidRequest" });
    expect(lost.Message).toContain("x-amz-tagging-directive: REPLACE");
  });
});

test("an upload in parts may say that its own metadata count, as s3fs does, and not that others' do", async () => {
  const line = `POST ${BUCKET}/directive?uploads`;
  await good(line, { headers: { "x-amz-metadata-directive": "REPLACE", "x-amz-meta-mode": "33188" } });
  const refused = await failure(s3(line, { headers: { "x-amz-metadata-directive": "COPY" } }));
  expect(refused).toMatchObject({ status: 400, Code: "InvalidArgument" });
  expect(refused.Message).toContain("'COPY'");
});

describe("GetObjectTagging", () => {
  test("tells the version whose tags it tells, and none of an object without", async () => {
    const put = await good(`PUT ${BUCKET}/plain`, { body: "x" });
    const answered = await good(`GET ${BUCKET}/plain?tagging`);
    expect(answered.headers.get("x-amz-version-id")).toBe(put.headers.get("x-amz-version-id"));
    expect((await xml(answered)).Tagging).toHaveProperty("TagSet", "");
  });

  test("knows no object that is not there", async () => {
    expect(await failure(s3(`GET ${BUCKET}/absent?tagging`))).toMatchObject({
      status: 404,
      Code: "NoSuchKey",
    });
  });
});

describe("a Tagging of XML", () => {
  test("is read with and without a namespace, in order of its keys", () => {
    const spaced = `<?xml version="1.0"?>\n<Tagging xmlns="http://s3.amazonaws.com/doc/2006-03-01/">\n<TagSet>\n<Tag><Key>b</Key><Value/></Tag><Tag><Value> 1 </Value><Key>a</Key></Tag>\n</TagSet></Tagging>`;
    expect(parseTagging(spaced)).toEqual([
      ["a", " 1 "],
      ["b", ""],
    ]);
    expect(parseTagging("<Tagging><TagSet/></Tagging>")).toEqual([]);
    expect(parseTagging(tagging())).toEqual([]);
  });

  test.each([
    ["", "MalformedXML"],
    ["<Tagging/>", "MalformedXML"],
    ["<Tagging><TagSet>text</TagSet></Tagging>", "MalformedXML"],
    ["<Tagging><TagSet/><TagSet/></Tagging>", "MalformedXML"],
    ["<Tagging><TagSet><Tag><Key>a</Key></Tag></TagSet></Tagging>", "MalformedXML"],
    ["<Tagging><TagSet><Tag><Key>a</Key><Key>b</Key><Value/></Tag></TagSet></Tagging>", "MalformedXML"],
    ["<Tagging><TagSet><Tag><Key>a</Key><Value><b/></Value></Tag></TagSet></Tagging>", "MalformedXML"],
    ["<Tagging><TagSet><Label/></TagSet></Tagging>", "MalformedXML"],
    ["<TagSet><Tag><Key>a</Key><Value/></Tag></TagSet>", "MalformedXML"],
    [`<Tagging><TagSet>${"<Tag/>".repeat(10_000)}</TagSet></Tagging>`, "MalformedXML"],
    [tagging(["", "x"]), "InvalidTag"],
    [tagging(["a", "\u0001"]), "InvalidTag"],
    [tagging(["a", "1"], ["a", "2"]), "InvalidTag"],
    [tagging(...Array.from({ length: 11 }, (_, n) => [`k${n}`, ""] as const)), "BadRequest"],
  ])("%s is %s", (text, code) => {
    expect(() => parseTagging(text)).toThrow(expect.objectContaining({ code }));
  });
});

describe("PutObjectTagging and DeleteObjectTagging", () => {
  const setTags = (path: string, ...tags: readonly (readonly [string, string])[]) =>
    good(`PUT ${path}?tagging`, { body: tagging(...tags) });
  const versionIn = (response: Response) => response.headers.get("x-amz-version-id");
  const versions = async (prefix: string) => {
    const { ListVersionsResult } = await xml(good(`GET ${BUCKET}?versions&prefix=${prefix}`));
    return ListVersionsResult.Version.map(({ VersionId }: { VersionId: string }) => VersionId);
  };

  test("are one commit each, with the same bytes, ETag and other attributes", async () => {
    const path = `${BUCKET}/set`;
    const headers = {
      "content-type": "text/x-own",
      "x-amz-meta-a": "1",
      "x-amz-checksum-algorithm": "CRC32",
    };
    const put = await good(`PUT ${path}`, { body: "set", headers });
    const set = await setTags(path, ["b", "2"], ["a", "1"]);
    expect(versionIn(set)).not.toBe(versionIn(put));
    expect(await tagsOf(path)).toEqual([
      ["a", "1"],
      ["b", "2"],
    ]);
    const gone = await good(`DELETE ${path}?tagging`);
    expect(gone.status).toBe(204);
    expect(await tagsOf(path)).toEqual([]);
    expect(await versions("set")).toEqual([versionIn(gone), versionIn(set), versionIn(put)]);
    const read = await good(`GET ${path}`, { headers: { "x-amz-checksum-mode": "ENABLED" } });
    expect(Object.fromEntries(read.headers)).toMatchObject({
      etag: put.headers.get("etag"),
      "content-type": "text/x-own",
      "x-amz-meta-a": "1",
      "x-amz-checksum-crc32": put.headers.get("x-amz-checksum-crc32"),
      "x-amz-version-id": versionIn(gone),
    });
    expect(await read.text()).toBe("set");
  });

  test("make no commit if the object has these tags, and answer with its version", async () => {
    const path = `${BUCKET}/has`;
    const put = await good(`PUT ${path}`, { body: "x", headers: { "x-amz-tagging": "a=1&b=2" } });
    expect(versionIn(await setTags(path, ["b", "2"], ["a", "1"]))).toBe(versionIn(put));
    const gone = await good(`DELETE ${path}?tagging`);
    expect(versionIn(await good(`DELETE ${path}?tagging`))).toBe(versionIn(gone));
    expect(await versions("has")).toEqual([versionIn(gone), versionIn(put)]);
  });

  test("take the newest version by its id, and no other", async () => {
    const path = `${BUCKET}/versions`;
    const first = versionIn(await good(`PUT ${path}`, { body: "1" }));
    const second = versionIn(await good(`PUT ${path}`, { body: "2" }));
    const other = versionIn(await good(`PUT ${BUCKET}/versions-other`, { body: "other" }));
    for (const method of ["PUT", "DELETE"]) {
      const ask = method === "PUT" ? { body: tagging(["a", "1"]) } : {};
      for (const [version, status, Code] of [
        [first, 405, "MethodNotAllowed"],
        ["01ARZ3NDEKTSV4RRFFQ69G5FAV", 404, "NoSuchVersion"],
        ["nonsense", 404, "NoSuchVersion"],
      ] as const) {
        const line = `${method} ${path}?tagging&versionId=${version}`;
        expect(await failure(s3(line, ask))).toMatchObject({ status, Code });
      }
    }
    // A later commit that left the key alone has the same version of it.
    for (const version of [second, other]) {
      await good(`DELETE ${path}?tagging&versionId=${version}`);
    }
    await good(`PUT ${path}?tagging&versionId=${other}`, { body: tagging(["of", "newest"]) });
    expect(await tagsOf(path)).toEqual([["of", "newest"]]);
    expect(await versions("versions")).toHaveLength(4);
    await good(`DELETE ${path}`);
    expect(await failure(s3(`DELETE ${path}?tagging&versionId=${second}`))).toMatchObject({ status: 405 });
  });

  test("know no object that is not there, and write nothing for what they refuse", async () => {
    for (const line of [`PUT ${BUCKET}/absent?tagging`, `PUT ${BUCKET}/absent/below?tagging`]) {
      expect(await failure(s3(line, { body: tagging() }))).toMatchObject({ status: 404, Code: "NoSuchKey" });
    }
    expect(await failure(s3(`DELETE ${BUCKET}/absent?tagging`))).toMatchObject({ Code: "NoSuchKey" });
    expect(await failure(s3("PUT /master.nobucket/key?tagging", { body: tagging() }))).toMatchObject({
      Code: "NoSuchBucket",
    });
    await good(`PUT ${BUCKET}/kept`, { body: "kept", headers: { "x-amz-tagging": "a=1" } });
    for (const [ask, status, Code] of [
      [{ body: "nonsense" }, 400, "MalformedXML"],
      [{ body: `${tagging()}${" ".repeat(70_000)}` }, 400, "MaxMessageLengthExceeded"],
      [{ body: tagging(["", ""]) }, 400, "InvalidTag"],
      [{ body: tagging(), headers: { "content-md5": "AAAAAAAAAAAAAAAAAAAAAA==" } }, 400, "BadDigest"],
      [{ body: tagging(), headers: { "if-match": "*" } }, 501, "NotImplemented"],
    ] as const) {
      expect(await failure(s3(`PUT ${BUCKET}/kept?tagging`, ask))).toMatchObject({ status, Code });
    }
    expect(await tagsOf(`${BUCKET}/kept`)).toEqual([["a", "1"]]);
  });

  test("of an empty directory are tags like others", async () => {
    await good(`PUT ${BUCKET}/folder/`, { body: "", headers: { "x-amz-tagging": "a=1" } });
    await setTags(`${BUCKET}/folder/`, ["b", "2"]);
    expect(await tagsOf(`${BUCKET}/folder/`)).toEqual([["b", "2"]]);
  });

  test("need write, and leave an annotation on their commit", async () => {
    await good(`PUT ${BUCKET}/noted`, { body: "x" });
    const reader = scopedKey({ level: "read", repos: ["tagged"] });
    const body = tagging(["a", "1"]);
    expect(await failure(s3(`PUT ${BUCKET}/noted?tagging`, { body, key: reader }))).toMatchObject({
      status: 403,
      Code: "AccessDenied",
    });
    const headers = { "x-sluice-commit-message": "labelled" };
    const commit = versionIn(await good(`PUT ${BUCKET}/noted?tagging`, { body, headers }));
    const newest = await branchOf("master.tagged").history.list({ limit: 1 });
    expect(newest).toMatchObject({ commits: [{ id: commit, annotation: { message: "labelled" } }] });
  });

  test("stage in an open commit, and are refused in the buckets of commits and tags", async () => {
    await good("PUT /master.tagviews");
    const first = versionIn(await good("PUT /master.tagviews/a", { body: "a" }));
    const session = await startOpenCommit(branchOf("master.tagviews"));
    const open = `/${session}.master.tagviews`;
    const set = await good(`PUT ${open}/a?tagging`, { body: tagging(["a", "1"]) });
    expect(versionIn(set)).toBeNull();
    expect(await tagsOf(`${open}/a`)).toEqual([["a", "1"]]);
    expect(await tagsOf("/master.tagviews/a")).toEqual([]);
    expect(await failure(s3(`PUT ${open}/absent?tagging`, { body: tagging() }))).toMatchObject({
      Code: "NoSuchKey",
    });
    const commit = `/${first}.master.tagviews`;
    expect(await tagsOf(`${commit}/a`)).toEqual([]);
    for (const line of [`PUT ${commit}/a?tagging`, `DELETE ${commit}/a?tagging`]) {
      const ask = line.startsWith("PUT") ? { body: tagging() } : {};
      expect(await failure(s3(line, ask))).toMatchObject({ status: 405, Code: "MethodNotAllowed" });
    }
  });
});

describe("Last-Modified", () => {
  test("of an object stays that of its bytes, whatever tags it gets", async () => {
    await good("PUT /master.tagtimes");
    expect(await branchOf("master.tagtimes").settings.change({ modified: "file" })).toEqual({ ok: true });
    const path = "/master.tagtimes/a";
    await good(`PUT ${path}`, { body: "a" });
    await aged("master.tagtimes", 1);
    const modified = async (line: string) => (await good(line)).headers.get("last-modified");
    const listed = async () =>
      (await xml(good("GET /master.tagtimes?list-type=2"))).ListBucketResult.Contents[0].LastModified;
    const [before, listedBefore] = [await modified(`HEAD ${path}`), await listed()];
    const set = await good(`PUT ${path}?tagging`, { body: tagging(["a", "1"]) });
    await good(`DELETE ${path}?tagging`);
    for (const line of [
      `HEAD ${path}`,
      `GET ${path}`,
      `HEAD ${path}?versionId=${set.headers.get("x-amz-version-id")}`,
    ]) {
      expect(await modified(line)).toBe(before);
    }
    expect(await listed()).toBe(listedBefore);
    await good(`PUT ${path}`, { body: "a", headers: { "x-amz-tagging": "new=1" } });
    expect(await modified(`HEAD ${path}`)).not.toBe(before);
  });

  /** As if everything had been written so many days earlier. */
  async function aged(bucket: string, days: number): Promise<void> {
    await runInDurableObject(branchOf(bucket), (_, { storage: { sql } }) => {
      const ms = days * 24 * 60 * 60 * 1000;
      for (const [table, column] of [
        ["commits", "createdAt"],
        ["files", "bytesAt"],
        ["files", "renewed"],
      ])
        sql.exec(`UPDATE ${table} SET ${column} = ${column} - ?`, ms);
    });
    await evictDurableObject(branchOf(bucket));
  }
});
