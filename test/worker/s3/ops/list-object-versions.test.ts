import { beforeAll, describe, expect, test } from "vitest";
import { answer, failure, good, s3, unsigned, xml } from "../support.ts";

const BUCKET = "/master.versioned";
const versions: Record<string, string> = {};

beforeAll(async () => {
  await good(`PUT ${BUCKET}`);
  const commit = async (name: string, line: string, body?: string) => {
    const response = await good(line, body === undefined ? {} : { body });
    versions[name] = response.headers.get("x-amz-version-id") ?? "";
  };
  await commit("a1", `PUT ${BUCKET}/a`, "1");
  await commit("a2", `PUT ${BUCKET}/a`, "22");
  await commit("b1", `PUT ${BUCKET}/b`, "b");
  await commit("a-gone", `DELETE ${BUCKET}/a`);
  await commit("a3", `PUT ${BUCKET}/a`, "333");
  await commit("d1", `PUT ${BUCKET}/d/x`, "d");
  await commit("d2", `PUT ${BUCKET}/d/y`, "d");
  await commit("b-gone", `DELETE ${BUCKET}/b`);
  await commit("z1", `PUT ${BUCKET}/z%20%2B`, "z");
});

/** What a page holds, in the order of its XML. */
async function page(query: string): Promise<{ text: string; entries: string[] }> {
  const text = await (await good(`GET ${BUCKET}?versions${query}`)).text();
  const entries = [...text.matchAll(/<(Version|DeleteMarker|CommonPrefixes)>(.*?)<\/\1>/gs)].map(
    ([, tag, inner = ""]) => {
      const of = (name: string) => new RegExp(`<${name}>(.*?)</${name}>`).exec(inner)?.[1];
      if (tag === "CommonPrefixes") return `${of("Prefix")}`;
      const name = Object.keys(versions).find((each) => versions[each] === of("VersionId"));
      const latest = of("IsLatest") === "true" ? "*" : "";
      return `${tag === "Version" ? "" : "x "}${of("Key")} ${name}${latest}`;
    },
  );
  return { text, entries };
}

const ALL = ["a a3*", "x a a-gone", "a a2", "a a1", "x b b-gone*", "b b1", "d/x d1*", "d/y d2*", "z + z1*"];

describe("ListObjectVersions", () => {
  test("lists versions and deletions by key, the newest first, in one order", async () => {
    const { text, entries } = await page("");
    expect(entries).toEqual(ALL);
    const { ListVersionsResult } = await xml(good(`GET ${BUCKET}?versions`));
    expect(ListVersionsResult).toMatchObject({
      Name: "master.versioned",
      Prefix: "",
      KeyMarker: "",
      VersionIdMarker: "",
      MaxKeys: "1000",
      IsTruncated: "false",
    });
    expect(ListVersionsResult.Version[0]).toEqual({
      Key: "a",
      VersionId: versions.a3,
      IsLatest: "true",
      LastModified: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      ETag: expect.stringMatching(/^"[0-9a-f]{64}-3"$/),
      Size: "3",
      StorageClass: "STANDARD",
      Owner: expect.objectContaining({ DisplayName: "sluice" }),
    });
    expect(text).not.toContain("NextKeyMarker");
  });

  test("each version can be read by its id", async () => {
    for (const [name, body] of [
      ["a1", "1"],
      ["a2", "22"],
      ["a3", "333"],
    ] as const) {
      expect(await (await good(`GET ${BUCKET}/a?versionId=${versions[name]}`)).text()).toBe(body);
    }
  });

  test("a version has the algorithm and the kind of its checksum, and one that came without has neither", async () => {
    const place = "/checksums.versioned";
    await good(`PUT ${place}`);
    const put = (key: string, headers: Record<string, string>) =>
      good(`PUT ${place}/${key}`, { body: "123456789", headers });
    await put("none", {});
    await put("sent", { "x-amz-checksum-crc32c": "4waSgw==", "x-amz-meta-checksum": '{"algorithm":"SHA1"}' });
    await put("replaced", { "x-amz-checksum-crc32": "y/Q5Jg==" });
    await put("replaced", { "x-amz-checksum-crc64nvme": "rosUhgp5mIg=" });
    await good(`DELETE ${place}/sent`);
    for (const query of ["", "&delimiter=/"]) {
      const { ListVersionsResult } = await xml(good(`GET ${place}?versions${query}`));
      const said = ListVersionsResult.Version.map((version: Record<string, string>) => [
        version.Key,
        version.ChecksumAlgorithm,
        version.ChecksumType,
      ]);
      expect(said).toEqual([
        ["none", undefined, undefined],
        ["replaced", "CRC64NVME", "FULL_OBJECT"],
        ["replaced", "CRC32", "FULL_OBJECT"],
        ["sent", "CRC32C", "FULL_OBJECT"],
      ]);
      expect(ListVersionsResult.DeleteMarker[0]).not.toHaveProperty("ChecksumAlgorithm");
    }
  });

  test("a deletion that is read by its id is 405 and says when it was, of GET, HEAD and attributes", async () => {
    const { ListVersionsResult } = await xml(good(`GET ${BUCKET}?versions`));
    const { LastModified } = ListVersionsResult.DeleteMarker.find(({ Key }: { Key: string }) => Key === "a");
    const said = {
      allow: "DELETE",
      "x-amz-delete-marker": "true",
      "x-amz-version-id": versions["a-gone"],
      "last-modified": new Date(LastModified).toUTCString(),
    };
    const deleted = `${BUCKET}/a?versionId=${versions["a-gone"]}`;
    const get = await s3(`GET ${deleted}`);
    expect(Object.fromEntries(get.headers)).toMatchObject(said);
    expect(await failure(get)).toMatchObject({ status: 405, Code: "MethodNotAllowed" });
    const head = await s3(`HEAD ${deleted}`);
    expect([head.status, await head.text()]).toEqual([405, ""]);
    expect(Object.fromEntries(head.headers)).toMatchObject(said);
    const attributes = { "x-amz-object-attributes": "ETag" };
    const asked = await s3(`GET ${deleted}&attributes`, { headers: attributes });
    expect([asked.status, asked.headers.get("x-amz-delete-marker")]).toEqual([405, "true"]);
    // A condition is judged of an object, and there is none.
    expect((await s3(`GET ${deleted}`, { headers: { "if-none-match": "*" } })).status).toBe(405);
  });

  test("other ids, and the bucket of the commit that deleted, say that nothing is there", async () => {
    const gone = versions["a-gone"];
    for (const [target, Code] of [
      [`${BUCKET}/b?versionId=${versions["b-gone"]}`, "MethodNotAllowed"],
      // The commit after a deletion did not delete it, and neither did the one before that of another key.
      [`${BUCKET}/b?versionId=${versions.z1}`, "NoSuchVersion"],
      [`${BUCKET}/never?versionId=${gone}`, "NoSuchVersion"],
      [`${BUCKET}/a?versionId=01ARZ3NDEKTSV4RRFFQ69G5FAV`, "NoSuchVersion"],
      [`/${gone}.master.versioned/a`, "NoSuchKey"],
      [`${BUCKET}/b`, "NoSuchKey"],
    ]) {
      const refused = await s3(`GET ${target}`);
      if (Code !== "MethodNotAllowed") expect(refused.headers.get("x-amz-delete-marker")).toBeNull();
      expect([target, (await failure(refused)).Code]).toEqual([target, Code]);
    }
  });

  test("no copy is made of a deletion", async () => {
    const source = { "x-amz-copy-source": `${BUCKET}/a?versionId=${versions["a-gone"]}` };
    const refused = await failure(s3(`PUT ${BUCKET}/never`, { headers: source }));
    expect(refused).toMatchObject({ status: 400, Code: "InvalidRequest" });
    expect(refused.Message).toContain("deletion");
  });

  test("takes a prefix, and folds at the delimiter", async () => {
    expect((await page("&prefix=d/")).entries).toEqual(["d/x d1*", "d/y d2*"]);
    expect((await page("&delimiter=/")).entries.toSorted()).toEqual(
      ["d/", ...ALL.filter((entry) => !entry.startsWith("d/"))].toSorted(),
    );
  });

  test("percent-encodes for encoding-type=url", async () => {
    const { text } = await page("&encoding-type=url&prefix=z%20");
    expect(text).toContain("<Key>z%20%2B</Key>");
    expect(text).toContain("<Prefix>z%20</Prefix>");
  });

  test.each([1, 2, 3, 4])("pages by both markers, %i at a time", async (size) => {
    const seen: string[] = [];
    let after = "";
    for (let more = true; more; ) {
      const { text, entries } = await page(`&max-keys=${size}${after}`);
      expect(entries.length).toBeLessThanOrEqual(size);
      seen.push(...entries);
      more = text.includes("<IsTruncated>true<");
      const key = /<NextKeyMarker>(.*?)</.exec(text)?.[1] ?? "";
      const version = /<NextVersionIdMarker>(.*?)</.exec(text)?.[1];
      after = `&key-marker=${encodeURIComponent(key)}${version ? `&version-id-marker=${version}` : ""}`;
    }
    expect(seen).toEqual(ALL);
  });

  test("goes on behind a key with all its versions where only that is given", async () => {
    expect((await page("&key-marker=a")).entries).toEqual(ALL.slice(4));
    expect((await page("&key-marker=&version-id-marker=")).entries).toEqual(ALL);
    expect((await page(`&key-marker=a&version-id-marker=${versions.a2}`)).entries).toEqual(ALL.slice(3));
  });

  test("answers nothing for max-keys=0", async () => {
    const { text, entries } = await page("&max-keys=0");
    expect([entries, text.includes("<IsTruncated>false<")]).toEqual([[], true]);
  });
});

describe("ListObjectVersions is refused", () => {
  test.each([
    ["max-keys=-1", "max-keys"],
    ["max-keys=abc", "max-keys"],
    ["delimiter=-", "delimiter"],
    ["encoding-type=base64", "encoding-type"],
    ["version-id-marker=01ABC", "key-marker"],
  ])("for %s, which the message names", async (query, name) => {
    expect(await failure(s3(`GET ${BUCKET}?versions&${query}`))).toMatchObject({
      status: 400,
      Code: "InvalidArgument",
      Message: expect.stringContaining(name),
    });
  });

  test("for a bucket that is not there, and without a signature", async () => {
    expect((await failure(s3("GET /master.nowhere?versions"))).Code).toBe("NoSuchBucket");
    expect((await failure(s3("GET /master.nowhere?versions&max-keys=0"))).Code).toBe("NoSuchBucket");
    expect((await answer(unsigned(`GET ${BUCKET}?versions`))).status).toBe(403);
  });
});
