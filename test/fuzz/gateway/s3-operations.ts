import fc from "fast-check";
import { oddText } from "../text.ts";
import { anyKey, DOCUMENTS, key } from "./documents.ts";
import { framing, soundFraming } from "./framing.ts";
import { type Body, FORM_FLAWS, type FormFlaw, type Pair, type S3Ask } from "./s3-ask.ts";

/** A request without what is odd, and with what is usual left out. */
export type Plain = Pick<S3Ask, "kind" | "method"> & Partial<S3Ask>;

const bytes: fc.Arbitrary<Body> = fc.record({
  of: fc.constant("bytes"),
  size: fc.oneof(
    { weight: 6, arbitrary: fc.integer({ min: 0, max: 100 }) },
    { weight: 2, arbitrary: fc.constantFrom(4096, 4097, 9000, 70_000) },
    { weight: 1, arbitrary: fc.constantFrom(300_000, 1_000_000) },
  ),
  seed: fc.nat(1000),
});

function some(...arbitraries: readonly fc.Arbitrary<Pair>[]): fc.Arbitrary<Pair[]> {
  return fc
    .tuple(...arbitraries.map((pair) => fc.option(pair, { nil: undefined, freq: 2 })))
    .map((all) => all.filter((pair) => pair !== undefined));
}

function header(name: string, ...values: readonly string[]): fc.Arbitrary<Pair> {
  return fc.constantFrom(...values).map((value): Pair => [name, value]);
}

const range = header(
  "range",
  "bytes=0-0",
  "bytes=0-",
  "bytes=-5",
  "bytes=3-1",
  "bytes=99999999-",
  "bytes=0-1,3-4",
  "bytes=-0",
  "bytes=0-18446744073709551616",
  "chars=1-2",
  "bytes=a-b",
);
const condition = fc.oneof(
  header("if-match", "{etag}", "*", '"x"', '{etag}, "x"', ""),
  header("if-none-match", "{etag}", "*", '"x"', 'W/"x"'),
  header("if-modified-since", "Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 31 Dec 2100 00:00:00 GMT", "yesterday"),
  header("if-unmodified-since", "Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 31 Dec 2100 00:00:00 GMT", "1"),
);
const checksum = fc.oneof(
  { weight: 4, arbitrary: header("x-amz-checksum-crc32", "{crc32}") },
  { weight: 2, arbitrary: header("content-md5", "{md5}") },
  {
    weight: 1,
    arbitrary: fc.oneof(
      header("x-amz-checksum-sha256", "{sha256}", "AAAA", ""),
      header("content-md5", "x", "AAAAAAAAAAAAAAAAAAAAAA=="),
      header("x-amz-checksum-crc64nvme", "AAAAAAAAAAA="),
    ),
  },
);
const attributes = some(
  header("content-type", "text/plain", "application/json; charset=utf-8", "x"),
  header("x-amz-meta-one", "1", "a  b", "é", "x".repeat(2500)),
  header("cache-control", "no-cache"),
  header("content-encoding", "gzip", "aws-chunked"),
  header("x-amz-tagging", "k1=v", "k1=v&k2=%C3%BC", "k1=v&k1=w", "k=%zz"),
  header("x-amz-storage-class", "STANDARD", "GLACIER"),
  header("x-amz-acl", "private", "bucket-owner-full-control", "public-read"),
  header("x-sluice-commit-message", "said", ""),
  header("x-sluice-commit-meta-k", "v"),
  header("expires", "Thu, 01 Jan 1970 00:00:00 GMT", "x"),
);

/** Each of its fields now and then: most requests have few. */
function rare<T>(arbitrary: fc.Arbitrary<T>, otherwise: T): fc.Arbitrary<T> {
  return fc.oneof({ weight: 3, arbitrary: fc.constant(otherwise) }, { weight: 1, arbitrary });
}

const version = fc.oneof(
  { weight: 6, arbitrary: fc.constant<[string, string][]>([]) },
  { weight: 2, arbitrary: fc.constant<[string, string][]>([["versionId", "{version}"]]) },
  {
    weight: 1,
    arbitrary: fc
      .constantFrom("null", "", "x", "01BX5ZZKBKACTAV9WEVGEMMVRZ")
      .map((id): [string, string][] => [["versionId", id]]),
  },
);

const put = fc
  .record({
    key: fc.oneof({ weight: 3, arbitrary: key }, { weight: 1, arbitrary: anyKey }),
    body: bytes,
    headers: fc.tuple(rare(attributes, []), rare(some(condition, checksum), [])).map((all) => all.flat()),
    framing: fc.oneof(
      { weight: 4, arbitrary: fc.constant(undefined) },
      { weight: 2, arbitrary: soundFraming },
      { weight: 2, arbitrary: framing },
    ),
  })
  .map((ask): Plain => ({ kind: "PutObject", method: "PUT", means: "put", ...ask }));

const get = fc
  .record({
    key,
    method: fc.constantFrom("GET", "GET", "HEAD"),
    headers: rare(
      some(range, condition, header("if-range", "{etag}", '"x"'), header("x-amz-checksum-mode", "ENABLED")),
      [],
    ),
    query: fc
      .tuple(
        version,
        rare(
          fc.constantFrom<[string, string][]>(
            [["partNumber", "1"]],
            [["partNumber", "7"]],
            [["response-content-type", "text/x"]],
            [["response-expires", "é"]],
          ),
          [],
        ),
      )
      .map((all) => all.flat()),
  })
  .map((ask): Plain => ({ kind: ask.method === "GET" ? "GetObject" : "HeadObject", means: "get", ...ask }));

const view = fc
  .record({
    bucket: fc.constantFrom("{version}.{bucket}", "v1.{bucket}", "{session}.{bucket}", "nothing.{bucket}"),
    key: fc.option(key, { nil: undefined, freq: 4 }),
    method: fc.constantFrom("GET", "GET", "HEAD"),
    headers: rare(some(range, condition), []),
  })
  .map(({ key: at, ...ask }): Plain => ({ kind: "View", ...ask, ...(at === undefined ? {} : { key: at }) }));

const remove = fc
  .record({ key, query: version, headers: rare(some(condition), []) })
  .map((ask): Plain => ({ kind: "DeleteObject", method: "DELETE", means: "delete", ...ask }));

const source = fc.oneof(
  { weight: 6, arbitrary: key.map((each) => `/{bucket}/${encodeURIComponent(each)}`) },
  { weight: 2, arbitrary: key.map((each) => `{bucket}/${encodeURIComponent(each)}?versionId={version}`) },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      "",
      "/",
      "{bucket}",
      "/nowhere/x",
      "{version}.{bucket}/a",
      "%zz",
      "//{bucket}//a",
    ),
  },
);

const copy = fc
  .record({
    key,
    source,
    headers: rare(
      some(
        header("x-amz-metadata-directive", "COPY", "REPLACE", "x"),
        header("x-amz-tagging-directive", "COPY", "REPLACE"),
        header("x-amz-copy-source-if-match", "{etag}", '"x"'),
        condition,
      ),
      [],
    ),
  })
  .map(
    ({ source: from, headers, key: to }): Plain => ({
      kind: "CopyObject",
      method: "PUT",
      means: "copy",
      key: to,
      headers: [...headers, ["x-amz-copy-source", from]],
    }),
  );

const begin = fc
  .record({
    key,
    headers: rare(
      fc
        .tuple(
          attributes,
          some(
            header("x-amz-checksum-algorithm", "CRC32", "SHA256", "x"),
            header("x-amz-checksum-type", "COMPOSITE", "FULL_OBJECT"),
          ),
        )
        .map((all) => all.flat()),
      [],
    ),
  })
  .map(
    (ask): Plain => ({
      kind: "CreateMultipartUpload",
      method: "POST",
      means: "upload",
      query: [["uploads", undefined]],
      ...ask,
    }),
  );

const partNumber = fc.oneof(
  { weight: 8, arbitrary: fc.constantFrom("1", "2") },
  { weight: 1, arbitrary: fc.constantFrom("0", "10001", "x", "", "1.5") },
);

const part = fc
  .record({
    number: partNumber,
    body: bytes,
    headers: rare(some(checksum), []),
    framing: rare(fc.option(framing, { nil: undefined }), undefined),
  })
  .map(
    ({ number, ...ask }): Plain => ({
      kind: "UploadPart",
      method: "PUT",
      means: "part",
      key: "{key}",
      query: [
        ["partNumber", number],
        ["uploadId", "{upload}"],
      ],
      ...ask,
    }),
  );

const partCopy = fc
  .record({
    number: partNumber,
    source,
    headers: rare(some(header("x-amz-copy-source-range", "bytes=0-0", "bytes=0-", "x", "bytes=5-1")), []),
  })
  .map(
    ({ number, source: from, headers }): Plain => ({
      kind: "UploadPartCopy",
      method: "PUT",
      means: "part",
      key: "{key}",
      query: [
        ["partNumber", number],
        ["uploadId", "{upload}"],
      ],
      headers: [...headers, ["x-amz-copy-source", from]],
    }),
  );

const complete = fc
  .record({
    text: DOCUMENTS.complete,
    headers: rare(some(condition, header("x-amz-mp-object-size", "1", "x")), []),
  })
  .map(
    ({ text, headers }): Plain => ({
      kind: "CompleteMultipartUpload",
      method: "POST",
      means: "complete",
      key: "{key}",
      query: [["uploadId", "{upload}"]],
      body: { of: "text", text },
      headers,
    }),
  );

const ofUpload = fc
  .record({
    method: fc.constantFrom("GET", "GET", "DELETE"),
    more: rare(
      fc.constantFrom<[string, string][]>(
        [["max-parts", "1"]],
        [["part-number-marker", "1"]],
        [["max-parts", "x"]],
      ),
      [],
    ),
  })
  .map(
    ({ method, more }): Plain => ({
      kind: method === "GET" ? "ListParts" : "AbortMultipartUpload",
      method,
      key: "{key}",
      query: [["uploadId", "{upload}"], ...(method === "GET" ? more : [])],
    }),
  );

const deleteMany = fc
  .record({ text: DOCUMENTS.delete, headers: rare(some(checksum), [["content-md5", "{md5}"]]) })
  .map(
    ({ text, headers }): Plain => ({
      kind: "DeleteObjects",
      method: "POST",
      query: [["delete", undefined]],
      body: { of: "text", text },
      headers,
    }),
  );

const LISTINGS: readonly (readonly [name: string, value: string | undefined])[][] = [
  [["list-type", "2"]],
  [],
  [["versions", undefined]],
  [["uploads", undefined]],
];
const listed = fc.array(
  fc.oneof(
    fc.tuple(fc.constantFrom("prefix", "marker", "key-marker", "start-after"), fc.oneof(key, oddText)),
    fc.tuple(fc.constant("delimiter"), fc.constantFrom("/", "/", "", "x")),
    fc.tuple(
      fc.constantFrom("max-keys", "max-uploads"),
      fc.constantFrom("0", "1", "2", "1000", "2000", "-1", "x"),
    ),
    fc.tuple(fc.constant("encoding-type"), fc.constantFrom("url", "x")),
    fc.tuple(
      fc.constantFrom("continuation-token", "version-id-marker", "upload-id-marker"),
      fc.constantFrom("{token}", "{version}", "{upload}", "x", ""),
    ),
    fc.tuple(fc.constant("fetch-owner"), fc.constantFrom("true", "x")),
  ),
  { maxLength: 3 },
);
const list = fc
  .tuple(fc.constantFrom(...LISTINGS), rare(listed, []))
  .map(([first, more]): Plain => ({ kind: "List", method: "GET", query: [...first, ...more] }));

const tagging = fc.oneof(
  fc.tuple(key, version).map(
    ([at, query]): Plain => ({
      kind: "GetObjectTagging",
      method: "GET",
      key: at,
      query: [["tagging", undefined], ...query],
    }),
  ),
  fc.tuple(key, DOCUMENTS.tagging).map(
    ([at, text]): Plain => ({
      kind: "PutObjectTagging",
      method: "PUT",
      key: at,
      query: [["tagging", undefined]],
      body: { of: "text", text },
    }),
  ),
  key.map(
    (at): Plain => ({
      kind: "DeleteObjectTagging",
      method: "DELETE",
      key: at,
      query: [["tagging", undefined]],
    }),
  ),
);

const aboutObject = fc.oneof(
  fc
    .tuple(
      key,
      some(
        header("x-amz-object-attributes", "ETag,Checksum,ObjectParts,StorageClass,ObjectSize", "ETag", "x"),
        header("x-amz-max-parts", "1", "x"),
      ),
      version,
    )
    .map(
      ([at, headers, query]): Plain => ({
        kind: "GetObjectAttributes",
        method: "GET",
        key: at,
        headers,
        query: [["attributes", undefined], ...query],
      }),
    ),
  fc
    .tuple(
      key,
      fc.constantFrom("acl", "retention", "legal-hold", "torrent"),
      fc.constantFrom("GET", "PUT"),
      DOCUMENTS.acl,
    )
    .map(
      ([at, query, method, text]): Plain => ({
        kind: "ObjectSetting",
        method,
        key: at,
        query: [[query, undefined]],
        ...(method === "PUT" ? { body: { of: "text", text } } : {}),
      }),
    ),
);

const SETTINGS = {
  lifecycle: DOCUMENTS.lifecycle,
  cors: DOCUMENTS.cors,
  policy: DOCUMENTS.policy,
  acl: DOCUMENTS.acl,
  versioning: DOCUMENTS.versioning,
  logging: DOCUMENTS.other,
};
const OTHERS = [
  "accelerate",
  "encryption",
  "location",
  "notification",
  "object-lock",
  "ownershipControls",
  "policyStatus",
  "publicAccessBlock",
  "replication",
  "requestPayment",
  "tagging",
  "website",
];
const setting = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.constantFrom(...Object.entries(SETTINGS)).chain(([query, text]) =>
      text.map(
        (each): Plain => ({
          kind: "PutBucketSetting",
          method: "PUT",
          query: [[query, undefined]],
          body: { of: "text", text: each },
        }),
      ),
    ),
  },
  {
    weight: 2,
    arbitrary: fc
      .constantFrom(...Object.keys(SETTINGS), ...OTHERS)
      .map((query): Plain => ({ kind: "GetBucketSetting", method: "GET", query: [[query, undefined]] })),
  },
  {
    weight: 1,
    arbitrary: fc
      .constantFrom("lifecycle", "cors", "policy", "encryption")
      .map(
        (query): Plain => ({ kind: "DeleteBucketSetting", method: "DELETE", query: [[query, undefined]] }),
      ),
  },
);

const bucket = fc.oneof(
  fc.constantFrom("GET", "HEAD").map(
    (method): Plain => ({
      kind: "HeadBucket",
      method,
      ...(method === "GET" ? { query: [["location", undefined]] } : {}),
    }),
  ),
  fc
    .tuple(
      fc.constantFrom("side.{repo}", "side.{repo}", "{bucket}", "a.b.c.d", "-.x", "Ü", "api"),
      rare(DOCUMENTS.create, ""),
    )
    .map(
      ([name, text]): Plain => ({
        kind: "CreateBucket",
        method: "PUT",
        bucket: name,
        body: { of: "text", text },
      }),
    ),
  fc
    .constantFrom("side.{repo}", "nothing.{repo}")
    .map((name): Plain => ({ kind: "DeleteBucket", method: "DELETE", bucket: name })),
  fc
    .constantFrom<[string, string][]>(
      [],
      [["prefix", "master"]],
      [["max-buckets", "1"]],
      [["max-buckets", "x"]],
      [["continuation-token", "x"]],
    )
    .map((query): Plain => ({ kind: "ListBuckets", method: "GET", bucket: "", query })),
  fc
    .tuple(
      header("origin", "https://a.example.org", "null"),
      header("access-control-request-method", "PUT", "x"),
    )
    .map((headers): Plain => ({ kind: "Preflight", method: "OPTIONS", key: "a", headers, auth: "none" })),
);

const form = fc
  .record({
    fields: fc
      .tuple(
        key,
        some(
          header("content-type", "text/plain", "x"),
          header("x-amz-meta-one", "1"),
          header("success_action_status", "201", "200", "x"),
          header("acl", "private", "public-read", "x"),
          header(
            "tagging",
            "<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>",
            "<Tagging/>",
          ),
        ),
      )
      .map(([at, more]): Pair[] => [["key", at], ...more]),
    size: fc.nat(6000),
    flaw: rare(fc.constantFrom<FormFlaw | undefined>(...FORM_FLAWS), undefined),
  })
  .map(
    (body): Plain => ({ kind: "PostObject", method: "POST", auth: "none", body: { of: "form", ...body } }),
  );

/** What a client would send, well or ill. */
export const plain: fc.Arbitrary<Plain> = fc.oneof(
  { weight: 8, arbitrary: put },
  { weight: 5, arbitrary: get },
  { weight: 2, arbitrary: view },
  { weight: 2, arbitrary: remove },
  { weight: 3, arbitrary: copy },
  { weight: 3, arbitrary: begin },
  { weight: 4, arbitrary: part },
  { weight: 1, arbitrary: partCopy },
  { weight: 3, arbitrary: complete },
  { weight: 2, arbitrary: ofUpload },
  { weight: 2, arbitrary: deleteMany },
  { weight: 4, arbitrary: list },
  { weight: 2, arbitrary: tagging },
  { weight: 2, arbitrary: aboutObject },
  { weight: 4, arbitrary: setting },
  { weight: 2, arbitrary: bucket },
  { weight: 3, arbitrary: form },
);
