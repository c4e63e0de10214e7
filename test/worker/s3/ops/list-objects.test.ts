import { beforeAll, describe, expect, test } from "vitest";
import { answer, failure, good, s3, signed, xml } from "../support.ts";

const BUCKET = "/master.listed";
const KEYS = ["a", "a&<b>", "d+1/x", "d/1", "d/2", "d/sub/3", "e", "empty/", "z 1", "zü"];

beforeAll(async () => {
  await good(`PUT ${BUCKET}`);
  for (const key of KEYS) {
    await good(`PUT ${BUCKET}/${key.split("/").map(encodeURIComponent).join("/")}`, {
      body: key.endsWith("/") ? "" : key,
    });
  }
});

// biome-ignore lint/suspicious/noExplicitAny: the shape is what the tests assert.
const list = async (query: string): Promise<any> =>
  (await xml(good(`GET ${BUCKET}?${query}`))).ListBucketResult;
const keysOf = (page: { Contents?: { Key: string }[] }): string[] =>
  (page.Contents ?? []).map(({ Key }) => Key);
const prefixesOf = (page: { CommonPrefixes?: { Prefix: string }[] }): string[] =>
  (page.CommonPrefixes ?? []).map(({ Prefix }) => Prefix);

describe.each(["", "list-type=2&"])("a listing, ?%s", (version) => {
  test("has every key in byte order, with ETag, size and time", async () => {
    const page = await list(version);
    expect(keysOf(page)).toEqual(KEYS);
    expect(page).toMatchObject({ Name: "master.listed", Prefix: "", MaxKeys: "1000", IsTruncated: "false" });
    expect(page.Contents[0]).toMatchObject({
      Size: "1",
      StorageClass: "STANDARD",
      ETag: '"ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb-1"',
      LastModified: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    });
  });

  test("folds at the delimiter, empty directories, too", async () => {
    const page = await list(`${version}delimiter=/`);
    expect(keysOf(page)).toEqual(["a", "a&<b>", "e", "z 1", "zü"]);
    expect(prefixesOf(page)).toEqual(["d+1/", "d/", "empty/"]);
    expect(page.Delimiter).toBe("/");
    const below = await list(`${version}delimiter=/&prefix=d/`);
    expect([keysOf(below), prefixesOf(below)]).toEqual([["d/1", "d/2"], ["d/sub/"]]);
  });

  test("takes an empty delimiter for none", async () => {
    expect(keysOf(await list(`${version}delimiter=`))).toEqual(KEYS);
  });

  test("percent-encodes for encoding-type=url", async () => {
    const page = await list(`${version}encoding-type=url&prefix=z`);
    expect([keysOf(page), page.EncodingType]).toEqual([["z%201", "z%C3%BC"], "url"]);
    expect(keysOf(await list(`${version}encoding-type=url&prefix=d%2B`))).toEqual(["d%2B1/x"]);
  });

  test("clamps max-keys and answers nothing for 0", async () => {
    expect((await list(`${version}max-keys=100000`)).MaxKeys).toBe("1000");
    const none = await list(`${version}max-keys=0`);
    expect([keysOf(none), none.IsTruncated, none.MaxKeys]).toEqual([[], "false", "0"]);
  });

  test.each([
    ["max-keys=-1", "max-keys"],
    ["max-keys=x", "max-keys"],
    ["max-keys=", "max-keys"],
    ["delimiter=-", "delimiter"],
    ["delimiter=//", "delimiter"],
    ["encoding-type=base64", "encoding-type"],
  ])("refuses %s and names it", async (query, name) => {
    const refused = await failure(s3(`GET ${BUCKET}?${version}${query}`));
    expect(refused).toMatchObject({ status: 400, Code: "InvalidArgument" });
    expect(refused.Message).toContain(name);
  });
});

describe("paging", () => {
  const walk = async (query: string, next: (page: Record<string, string>) => string): Promise<string[]> => {
    const seen: string[] = [];
    let more = "";
    for (let pages = 0; pages < 20; pages++) {
      const page = await list(query + more);
      seen.push(...[...keysOf(page), ...prefixesOf(page)].sort());
      if (page.IsTruncated !== "true") return seen;
      more = next(page);
    }
    throw new Error("the listing does not end");
  };

  test.each([1, 2, 3, 7])("by marker, %d at a time, sees each key once", async (size) => {
    const next = (page: Record<string, string>): string =>
      `&marker=${encodeURIComponent(page.NextMarker ?? "")}`;
    expect(await walk(`max-keys=${size}`, next)).toEqual(KEYS);
    expect((await walk(`max-keys=${size}&delimiter=/`, next)).sort()).toEqual(
      ["a", "a&<b>", "d+1/", "d/", "e", "empty/", "z 1", "zü"].sort(),
    );
  });

  test.each([1, 2, 3, 7])("by continuation token, %d at a time, sees each key once", async (size) => {
    const next = (page: Record<string, string>): string =>
      `&continuation-token=${page.NextContinuationToken}`;
    expect(await walk(`list-type=2&max-keys=${size}`, next)).toEqual(KEYS);
    expect(await walk(`list-type=2&max-keys=${size}&delimiter=/`, next)).toHaveLength(8);
  });

  test("the last key of a page, as a marker, goes on behind it", async () => {
    expect(keysOf(await list("marker=d/2"))).toEqual(KEYS.slice(KEYS.indexOf("d/2") + 1));
    const page = await list("marker=d/2&encoding-type=url");
    expect(page.Marker).toBe("d/2");
  });
});

test.each([
  "",
  "list-type=2&",
])("each entry has the time that the gateway is set up for (%s)", async (version) => {
  type Entry = { Key: string; LastModified: string; IsLatest?: string };
  const times = async (lastModified: "branch" | "file"): Promise<string[][]> => {
    const request = await signed(`GET ${BUCKET}?${version}`);
    const { ListBucketResult } = await xml(answer(request, { config: { lastModified } }));
    return ListBucketResult.Contents.map(({ Key, LastModified }: Entry) => [Key, LastModified]);
  };
  expect(new Set((await times("branch")).map(([, time]) => time)).size).toBe(1);
  // One commit a key. Two of them may be of one millisecond.
  const { ListVersionsResult } = await xml(good(`GET ${BUCKET}?versions`));
  const newest = ListVersionsResult.Version.filter(({ IsLatest }: Entry) => IsLatest === "true");
  const written = newest.map(({ Key, LastModified }: Entry) => [Key, LastModified]);
  expect(written).toHaveLength(KEYS.length);
  expect(new Set(written.map(([, time]: string[]) => time)).size).toBeGreaterThan(1);
  expect(await times("file")).toEqual(written);
});

test.each([
  ["marker", "Marker"],
  ["list-type=2&start-after", "StartAfter"],
])("%s goes back encoded like the keys, as does every other name", async (parameter, tag) => {
  const page = await list(`${parameter}=a%26&prefix=z%20&delimiter=/&encoding-type=url`);
  expect([page[tag], page.Prefix, page.Delimiter]).toEqual(["a%26", "z%20", "/"]);
  const folded = await list(`${parameter}=a%26&delimiter=/&encoding-type=url`);
  expect(prefixesOf(folded)).toEqual(["d%2B1/", "d/", "empty/"]);
});

test("a start inside a folder shows what is left of it, a start at a folder's name skips it", async () => {
  for (const parameter of ["marker", "list-type=2&start-after"]) {
    expect(prefixesOf(await list(`${parameter}=d/1&delimiter=/`))).toEqual(["d/", "empty/"]);
    expect(prefixesOf(await list(`${parameter}=d/&delimiter=/`))).toEqual(["empty/"]);
    expect(keysOf(await list(`${parameter}=d/`))).toEqual(KEYS.slice(KEYS.indexOf("d/1")));
  }
});

test("x-amz-optional-object-attributes asks for what no object has", async () => {
  const ask = (wanted: string) =>
    s3(`GET ${BUCKET}?list-type=2`, { headers: { "x-amz-optional-object-attributes": wanted } });
  expect((await ask("RestoreStatus")).status).toBe(200);
  expect(await failure(ask("Tags"))).toMatchObject({ status: 400, Code: "InvalidArgument" });
});

test("a continuation token is good for as long as the bucket is, whatever is written meanwhile", async () => {
  const first = await list("list-type=2&max-keys=3");
  const token = first.NextContinuationToken;
  await good(`PUT ${BUCKET}/0-before`, { body: "x" });
  const next = await list(`list-type=2&continuation-token=${token}`);
  expect([keysOf(next), next.ContinuationToken]).toEqual([KEYS.slice(3), token]);
  expect((await list("list-type=2&max-keys=4")).NextContinuationToken).toBe(token);
  await good(`DELETE ${BUCKET}/0-before`);
});

describe("version 2", () => {
  test("counts keys and prefixes, and starts after a key", async () => {
    expect((await list("list-type=2&delimiter=/")).KeyCount).toBe("8");
    const after = await list("list-type=2&start-after=e");
    expect([keysOf(after), after.StartAfter]).toEqual([["empty/", "z 1", "zü"], "e"]);
  });

  test("a continuation token outdoes start-after", async () => {
    const first = await list("list-type=2&max-keys=2&start-after=a");
    const query = `list-type=2&start-after=z&continuation-token=${first.NextContinuationToken}`;
    expect(keysOf(await list(query))).toEqual(KEYS.slice(3));
  });

  test("names the owner only when asked, version 1 always", async () => {
    expect((await list("list-type=2")).Contents[0].Owner).toBeUndefined();
    expect((await list("list-type=2&fetch-owner=true")).Contents[0].Owner.DisplayName).toBe("sluice");
    expect((await list("")).Contents[0].Owner.DisplayName).toBe("sluice");
  });

  test.each(["list-type=2&continuation-token=abc", "list-type=3"])("refuses %s", async (query) => {
    expect(await failure(s3(`GET ${BUCKET}?${query}`))).toMatchObject({
      status: 400,
      Code: "InvalidArgument",
    });
  });
});

test("an empty continuation-token is a first page, and start-after still counts", async () => {
  const all = await list("list-type=2&continuation-token=");
  expect([keysOf(all), all.ContinuationToken]).toEqual([KEYS, ""]);
  const rest = await list("list-type=2&continuation-token=&start-after=d/2");
  expect(keysOf(rest)).toEqual(KEYS.slice(KEYS.indexOf("d/2") + 1));
});

test("no key begins with a slash: prefix=/ finds nothing, and marker=/ starts behind that byte", async () => {
  await good("PUT /master.slash");
  for (const key of ["-before", ".before", "0after", "after/file"])
    await good(`PUT /master.slash/${key}`, { body: key });
  const listed = async (query: string) =>
    (await xml(good(`GET /master.slash?${query}`))).ListBucketResult as { Contents?: { Key: string }[] };
  expect(await listed("prefix=/")).toMatchObject({ Prefix: "/", IsTruncated: "false" });
  expect(keysOf(await listed("prefix=/"))).toEqual([]);
  expect(keysOf(await listed("prefix=/after/"))).toEqual([]);
  expect(keysOf(await listed("marker=/"))).toEqual(["0after", "after/file"]);
  expect(keysOf(await listed("marker=/&delimiter=/"))).toEqual(["0after"]);
});

test("an empty bucket lists as empty", async () => {
  await good("PUT /master.empty");
  const { ListBucketResult } = await xml(good("GET /master.empty"));
  expect([ListBucketResult.IsTruncated, ListBucketResult.Contents]).toEqual(["false", undefined]);
});
