import { describe, expect, test } from "vitest";
import { Attributes } from "../../../protocol/files.ts";
import { readAttributes, setAttributeHeaders, setOverrides } from "../../../worker/s3/objects/attributes.ts";

const read = (headers: Record<string, string>, key = "key") =>
  readAttributes(new Map(Object.entries(headers)), key);
const code = (act: () => unknown): unknown => {
  try {
    return act();
  } catch (error) {
    return error instanceof Error && "code" in error ? error.code : error;
  }
};

describe("the type of an object", () => {
  test.each([
    ["data.csv", "text/csv"],
    ["a/b/events.NDJSON", "application/x-ndjson"],
    ["table.parquet", "application/vnd.apache.parquet"],
    ["archive.tar.gz", "application/gzip"],
    ["index.html", "text/html"],
    ["module.mjs", "text/javascript"],
    ["weights.npy", "application/x-npy"],
    ["page.wasm", "application/wasm"],
    ["日本.png", "image/png"],
  ])("of the key '%s' is guessed as %s", (key, type) => {
    expect(read({}, key).contentType).toBe(type);
  });

  test.each([
    "json",
    ".json",
    "a.b/c",
    "data.csv/",
    "name.",
    "a.unheard-of",
    "a.__proto__",
    "constructor",
  ])("of the key '%s' is S3's default", (key) => {
    expect(read({}, key).contentType).toBe("binary/octet-stream");
  });

  test("is what the client says, where it says something", () => {
    expect(read({ "content-type": "text/x-mine" }, "a.csv").contentType).toBe("text/x-mine");
    expect(read({ "content-type": "" }, "a.csv").contentType).toBe("text/csv");
  });
});

describe("what is kept of a PUT's headers", () => {
  test("is the standard ones and user metadata, and comes back in the same headers", () => {
    const sent = {
      "cache-control": "max-age=60",
      "content-disposition": 'attachment; filename="ü.txt"',
      "content-encoding": "gzip",
      "content-language": "de, en",
      "content-type": "text/plain; charset=utf-8",
      expires: "not even a date",
      "x-amz-meta-mtime": "1700000000",
      "x-amz-meta-who": "=?UTF-8?B?w7w=?= ü 日本",
      "x-amz-meta-__proto__": "kept, too",
    };
    const answered: Record<string, string> = {};
    const attributes = read({ ...sent, "x-amz-acl": "private", range: "bytes=0-1" });
    setAttributeHeaders(answered, { attributes, key: "key.csv" });
    expect(answered).toEqual(sent);
  });

  test("leaves out aws-chunked, which belongs to the transfer", () => {
    expect(read({ "content-encoding": "aws-chunked" }).contentEncoding).toBeUndefined();
    expect(read({ "content-encoding": "gzip,aws-chunked" }).contentEncoding).toBe("gzip");
  });

  test("holds user metadata up to 2 KiB, names and values together, in bytes of UTF-8", () => {
    const most = { "x-amz-meta-a": "x".repeat(2047) };
    expect(read(most).metadata).toEqual({ a: "x".repeat(2047) });
    expect(code(() => read({ ...most, "x-amz-meta-b": "" }))).toBe("MetadataTooLarge");
    expect(code(() => read({ "x-amz-meta-a": "ü".repeat(1024) }))).toBe("MetadataTooLarge");
  });

  test("holds no control characters, which would break the answer", () => {
    expect(code(() => read({ "x-amz-meta-a": "a\u0001b" }))).toBe("InvalidArgument");
    expect(code(() => read({ "cache-control": "a\u007f" }))).toBe("InvalidArgument");
    expect(read({ "x-amz-meta-a": "a\tb" }).metadata).toEqual({ a: "a\tb" });
  });
});

test("what the control API takes in as attributes is what an answer can carry", () => {
  const taken = (attributes: unknown): boolean => Attributes.safeParse(attributes).success;
  expect(taken({ contentType: "text/plain", metadata: { "a-b": "ü\t日本" } })).toBe(true);
  for (const attributes of [
    { contentType: "a\nb" },
    { cacheControl: "\u0000" },
    { metadata: { "a b": "1" } },
    { metadata: { A: "1" } },
    { metadata: { "": "1" } },
    { metadata: { a: "\r\nb: c" } },
  ]) {
    expect(taken(attributes)).toBe(false);
  }
});

describe("response-* parameters", () => {
  const overridden = (query: Record<string, string>) => {
    const headers: Record<string, string> = { "content-type": "text/plain", etag: '"e"' };
    setOverrides(headers, new Map(Object.entries(query)));
    return headers;
  };

  test("replace six headers and no others", () => {
    expect(
      overridden({
        "response-cache-control": "no-store",
        "response-content-disposition": "attachment",
        "response-content-encoding": "br",
        "response-content-language": "fr",
        "response-content-type": "text/html",
        "response-expires": "0",
        "response-etag": "x",
      }),
    ).toEqual({
      "cache-control": "no-store",
      "content-disposition": "attachment",
      "content-encoding": "br",
      "content-language": "fr",
      "content-type": "text/html",
      etag: '"e"',
      expires: "0",
    });
  });

  test("change nothing where they are empty, and cannot smuggle in a header", () => {
    expect(overridden({ "response-content-type": "" })["content-type"]).toBe("text/plain");
    expect(code(() => overridden({ "response-content-type": "a\r\nset-cookie: b" }))).toBe("InvalidArgument");
  });
});
