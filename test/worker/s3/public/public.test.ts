import { env } from "cloudflare:test";
import { beforeAll, describe, expect, test, vi } from "vitest";
import type { Context } from "../../../../worker/app.ts";
import type { BranchApi } from "../../../../worker/branch/contract/api.ts";
import { BranchSettingsTable } from "../../../../worker/catalogue/branch-settings.ts";
import { NOT_SIGNED } from "../../../../worker/s3/answer/errors.ts";
import { refuseUnsigned } from "../../../../worker/s3/auth/unsigned.ts";
import { type BucketTree, openTree, publicTree } from "../../../../worker/s3/bucket-tree.ts";
import { handleS3 } from "../../../../worker/s3/gateway.ts";
import {
  BUCKET_OPERATIONS,
  OBJECT_OPERATIONS,
  SERVICE_OPERATIONS,
  UPLOAD_OPERATIONS,
} from "../../../../worker/s3/operations.ts";
import { MEMBERS } from "../../../../worker/s3/request/members.ts";
import { openAgain } from "../open-commits/support.ts";
import { answer, CONFIG, failure, good, s3, testContext, unsigned, xml } from "../support.ts";
import { anybody, publicBranch, putAll, told } from "./support.ts";

const OPEN = "/master.open";
const SHUT = "/master.shut";
const page = { "content-type": "text/html" };

beforeAll(async () => {
  await publicBranch(OPEN, { "a.txt": "a", "dir/b.txt": "b" });
  await good(`PUT ${SHUT}`);
  await putAll(SHUT, { "a.txt": "a" });
});

function branchOf(bucket: string) {
  const [branch = "", repo = ""] = bucket.slice(1).split(".");
  return testContext().branch({ repo, branch });
}

describe("of a public branch, anybody without a key", () => {
  test("reads objects, and parts and ranges of them", async () => {
    const read = await anybody(`GET ${OPEN}/dir/b.txt`);
    expect([read.status, await read.text()]).toEqual([200, "b"]);
    expect(await (await anybody(`GET ${OPEN}/a.txt?partNumber=1&x-id=GetObject`)).text()).toBe("a");
    expect((await anybody(`GET ${OPEN}/a.txt`, { range: "bytes=0-0" })).status).toBe(206);
    const head = await anybody(`HEAD ${OPEN}/a.txt`, { "x-amz-checksum-mode": "ENABLED" });
    expect([head.status, head.headers.get("content-length")]).toEqual([200, "1"]);
    const etag = head.headers.get("etag") ?? "";
    expect((await anybody(`GET ${OPEN}/a.txt`, { "if-none-match": etag })).status).toBe(304);
  });

  test("hears what is not there", async () => {
    expect(await failure(anybody(`GET ${OPEN}/absent`))).toMatchObject({ status: 404, Code: "NoSuchKey" });
    expect((await anybody(`HEAD ${OPEN}/absent`)).status).toBe(404);
  });

  test("lists it in both versions, page by page", async () => {
    expect((await anybody(`HEAD ${OPEN}`)).status).toBe(200);
    expect(await (await anybody(`GET ${OPEN}?location`)).text()).toBe(
      await (await good(`GET ${OPEN}?location`)).text(),
    );
    const first = await xml(anybody(`GET ${OPEN}?list-type=2&max-keys=1&fetch-owner=true`));
    expect(first.ListBucketResult.Contents.map(({ Key }: { Key: string }) => Key)).toEqual(["a.txt"]);
    const token = first.ListBucketResult.NextContinuationToken;
    const second = await xml(anybody(`GET ${OPEN}?list-type=2&continuation-token=${token}`));
    expect(second.ListBucketResult.Contents.map(({ Key }: { Key: string }) => Key)).toEqual(["dir/b.txt"]);
    const old = await xml(anybody(`GET ${OPEN}?delimiter=/&prefix=&encoding-type=url&marker=b`));
    expect(old.ListBucketResult.CommonPrefixes).toEqual([{ Prefix: "dir/" }]);
    expect((await anybody(`GET ${OPEN}?max-keys=0`)).status).toBe(200);
  });

  test.each([
    "GET /master.open?versions",
    "GET /master.open?uploads",
    "GET /master.open?versioning",
    "GET /master.open?cors",
    "GET /master.open?acl",
    "GET /master.open?policy",
    "GET /master.open?list-type=2&versions",
    "GET /master.open/a.txt?acl",
    "GET /master.open/a.txt?tagging",
    "GET /master.open/a.txt?attributes",
    "GET /master.open/a.txt?versionId=01ARZ3NDEKTSV4RRFFQ69G5FAV",
    "HEAD /master.open/a.txt?versionId=01ARZ3NDEKTSV4RRFFQ69G5FAV",
    "GET /master.open/a.txt?uploadId=master.open.01ARZ3NDEKTSV4RRFFQ69G5FAV",
    "PUT /master.open",
    "PUT /master.open?cors",
    "PUT /master.open/a.txt",
    "POST /master.open?delete",
    "POST /master.open/a.txt?uploads",
    "PATCH /master.open/a.txt",
    "DELETE /master.open",
    "DELETE /master.open/a.txt",
  ])("may not: %s", async (line) => {
    const refused = await anybody(line);
    expect(refused.status).toBe(403);
    if (!line.startsWith("HEAD")) expect((await failure(refused)).Code).toBe("AccessDenied");
    expect(await (await good(`GET ${OPEN}/a.txt`)).text()).toBe("a");
  });

  test("may not choose headers of the answer, as on S3", async () => {
    const refused = await failure(anybody(`GET ${OPEN}/a.txt?response-content-type=text/html`));
    expect(refused).toMatchObject({ status: 400, Code: "InvalidRequest" });
    expect(refused.Message).toContain("response-content-type");
  });

  test("reads and lists its commits and tags, which are buckets, too", async () => {
    const bucket = "/master.dated";
    await publicBranch(bucket, { key: "old" });
    const { "x-amz-version-id": commit = "" } = Object.fromEntries(
      (await good(`HEAD ${bucket}/key`)).headers,
    );
    await branchOf(bucket).tags.create({ name: "v1", force: false });
    await putAll(bucket, { key: "new", more: "new" });
    for (const past of [`/${commit.toLowerCase()}.master.dated`, "/v1.master.dated"]) {
      expect(await (await anybody(`GET ${past}/key`)).text()).toBe("old");
      expect((await anybody(`HEAD ${past}`)).status).toBe(200);
      const { ListBucketResult } = await xml(anybody(`GET ${past}?list-type=2`));
      expect(ListBucketResult.Contents.map(({ Key }: { Key: string }) => Key)).toEqual(["key"]);
      expect((await anybody(`PUT ${past}/key`)).status).toBe(403);
    }
    expect(await (await anybody("GET /dated/key")).text()).toBe("new");
    await branchOf(bucket).settings.change({ public: false });
    for (const name of ["/v1.master.dated", "/no-tag.master.dated", "/dated"]) {
      for (const line of [`GET ${name}/key`, `GET ${name}`, `HEAD ${name}`]) {
        expect((await anybody(line)).status).toBe(403);
      }
    }
  });

  test("sees nothing of an open commit, whose bucket answers as one that is not there", async () => {
    const { bucket } = await openAgain("open");
    await putAll(bucket, { "staged.txt": "staged" });
    const absent = bucket.replace(/^\/.{26}/, "/01arz3ndektsv4rrffq69g5fav");
    for (const line of [
      "GET {}/staged.txt",
      "GET {}/a.txt",
      "GET {}?list-type=2",
      "GET {}?max-keys=0",
      "HEAD {}",
    ]) {
      const [there, not] = await Promise.all(
        [bucket, absent].map((name) => anybody(line.replace("{}", name))),
      );
      expect(there?.status).toBe(404);
      const resource = (name: string) => line.replace(/^\S+ \{\}([^?]*).*/, `${name}$1`);
      expect(await told(there as Response, resource(bucket))).toEqual(
        await told(not as Response, resource(absent)),
      );
    }
  });
});

test("without a signature just six operations are done", () => {
  const tables = { ...SERVICE_OPERATIONS, ...BUCKET_OPERATIONS, ...OBJECT_OPERATIONS, ...UPLOAD_OPERATIONS };
  const unsignedOnes = Object.entries(tables).filter(([, operation]) => operation.unsigned !== undefined);
  expect(unsignedOnes.map(([name]) => name).toSorted()).toEqual([
    "GetBucketLocation",
    "GetObject",
    "HeadBucket",
    "HeadObject",
    "ListObjects",
    "ListObjectsV2",
  ]);
});

test("an operation that is not one of those is refused without a look at what it is asked", () => {
  const asked = new Map<string, string>();
  expect(() => refuseUnsigned(asked, { members: MEMBERS.GetObject })).toThrow(NOT_SIGNED);
  expect(() =>
    refuseUnsigned(asked, { members: MEMBERS.GetObject, ...OBJECT_OPERATIONS.GetObject }),
  ).not.toThrow();
});

describe("of a branch that is not public, anybody without a key", () => {
  const lines = [
    "GET {}",
    "GET {}?list-type=2",
    "GET {}?location",
    "HEAD {}",
    "GET {}/a.txt",
    "HEAD {}/a.txt",
    "PUT {}/a.txt",
    "DELETE {}",
  ];

  test.each(lines)("hears the same as of one that is not there: %s", async (line) => {
    for (const absent of ["/master.absent", "/no.such.bucket.name", "/undotted", "/v1.master.shut", "/api"]) {
      const [shut, not] = await Promise.all(
        [SHUT, absent].map((bucket) => anybody(line.replace("{}", bucket))),
      );
      expect(shut?.status).toBe(403);
      const resource = (bucket: string) => line.replace(/^\S+ \{\}([^?]*).*/, `${bucket}$1`);
      expect(await told(shut as Response, resource(SHUT))).toEqual(
        await told(not as Response, resource(absent)),
      );
    }
  });

  test("gets no object called, be it there or not", async () => {
    const called: string[] = [];
    const context = testContext();
    const watched: Context = {
      ...context,
      branch(address) {
        called.push(address.repo);
        return context.branch(address);
      },
    };
    const ask = (line: string) => handleS3(unsigned(line), { context: watched, now: Date.now });
    for (const bucket of [SHUT, "/master.made-up", OPEN]) await ask(`GET ${bucket}/a.txt`);
    expect(new Set(called)).toEqual(new Set(["open"]));
  });
});

describe("the branch looks at its own flag", () => {
  /** What D1 says though it is no longer so: the copy that another isolate remembers for seconds. */
  async function whileRemembered(work: () => Promise<void>): Promise<void> {
    const list = vi
      .spyOn(BranchSettingsTable.prototype, "listOpen")
      .mockResolvedValue([{ repo: "late", branch: "master", isPublic: true, hasCors: false }]);
    try {
      await work();
    } finally {
      list.mockRestore();
    }
  }

  test("so that 'off' holds at once, whatever is remembered elsewhere", async () => {
    const bucket = "/master.late";
    await publicBranch(bucket, { key: "x" });
    const lines = [
      `GET ${bucket}/key`,
      `HEAD ${bucket}/key`,
      `GET ${bucket}`,
      `HEAD ${bucket}`,
      `GET ${bucket}?max-keys=0`,
    ];
    await whileRemembered(async () => {
      for (const line of lines) expect((await anybody(line)).status).toBe(200);
      expect(await branchOf(bucket).settings.change({ public: false })).toEqual({ ok: true });
      for (const line of lines) expect((await anybody(line)).status, line).toBe(403);
      const [off, absent] = await Promise.all([
        anybody(`GET ${bucket}/key`),
        anybody("GET /master.gone/key"),
      ]);
      expect(await told(off, `${bucket}/key`)).toEqual(await told(absent, "/master.gone/key"));
      await good(`DELETE ${bucket}`);
      for (const line of lines) expect((await anybody(line)).status, line).toBe(403);
      await good(`PUT ${bucket}`);
      await putAll(bucket, { key: "x" });
      for (const line of lines) expect((await anybody(line)).status, line).toBe(403);
    });
  });

  test("and a signed request is not asked for it", async () => {
    expect(await (await good(`GET ${SHUT}/a.txt`)).text()).toBe("a");
  });
});

describe("a branch", () => {
  test("is made public by CreateBucket, until it is deleted", async () => {
    const bucket = "/made.public";
    await publicBranch(bucket, { key: "x" });
    expect((await anybody(`GET ${bucket}/key`)).status).toBe(200);
    const again = await failure(s3(`PUT ${bucket}`));
    expect(again).toMatchObject({ status: 409, Code: "BucketAlreadyOwnedByYou" });
    expect((await anybody(`GET ${bucket}/key`)).status).toBe(200);
    await good(`DELETE ${bucket}`);
    expect((await anybody(`GET ${bucket}/key`)).status).toBe(403);
    await good(`PUT ${bucket}`, { headers: { "x-amz-acl": "private" } });
    await putAll(bucket, { key: "x" });
    expect((await anybody(`GET ${bucket}/key`)).status).toBe(403);
  });

  test("that is there already is not made public by another CreateBucket", async () => {
    await s3(`PUT ${SHUT}`, { headers: { "x-amz-acl": "public-read" } });
    expect((await anybody(`GET ${SHUT}/a.txt`)).status).toBe(403);
  });

  test.each([
    "public-read-write",
    "authenticated-read",
    "bucket-owner-full-control",
  ])("is not made with the ACL %s", async (acl) => {
    const refused = await failure(s3("PUT /made.acl", { headers: { "x-amz-acl": acl } }));
    expect(refused).toMatchObject({ status: 501, Code: "NotImplemented" });
    expect(refused.Message).toContain("x-amz-acl");
    expect((await s3("HEAD /made.acl")).status).toBe(404);
  });
});

describe("an object with the ACL public-read", () => {
  const acl = { "x-amz-acl": "public-read" };
  const writes = [
    ["PutObject", (bucket: string) => s3(`PUT ${bucket}/put`, { headers: acl, body: "x" })],
    [
      "CopyObject",
      (bucket: string) =>
        s3(`PUT ${bucket}/copy`, { headers: { ...acl, "x-amz-copy-source": `${OPEN}/a.txt` } }),
    ],
    ["CreateMultipartUpload", (bucket: string) => s3(`POST ${bucket}/parts?uploads`, { headers: acl })],
  ] as const;

  test.each(writes)("is taken by %s in a public branch", async (_, write) => {
    expect((await write(OPEN)).status).toBe(200);
  });

  test.each(writes)("is refused by %s elsewhere, by name, and nothing is written", async (_, write) => {
    const refused = await failure(write(SHUT));
    expect(refused).toMatchObject({ status: 501, Code: "NotImplemented" });
    expect(refused.Message).toContain("x-amz-acl");
    const { ListBucketResult } = await xml(good(`GET ${SHUT}?list-type=2`));
    expect(ListBucketResult.Contents.map(({ Key }: { Key: string }) => Key)).toEqual(["a.txt"]);
  });

  test("is refused where there is no branch", async () => {
    const refused = await failure(s3("PUT /master.absent/k", { headers: acl, body: "x" }));
    expect(refused).toMatchObject({ status: 404, Code: "NoSuchBucket" });
  });
});

describe("an object's answer", () => {
  const domain = "buckets.test";

  test("keeps a page from acting on a host that has the control API, too", async () => {
    await good(`PUT ${OPEN}/page.html`, { headers: page, body: "<script>1</script>" });
    const etag = (await good(`HEAD ${OPEN}/page.html`)).headers.get("etag") ?? "";
    const answers = [
      await good(`GET ${OPEN}/page.html`),
      await good(`HEAD ${OPEN}/page.html`),
      await anybody(`GET ${OPEN}/page.html`),
      await s3(`GET ${OPEN}/page.html`, { headers: { "if-none-match": etag } }),
      await s3(`GET ${OPEN}/page.html`, { headers: { range: "bytes=1-2" } }),
      await answer(unsigned(`GET ${OPEN}/page.html`), { config: { domain } }),
    ];
    for (const { headers } of answers) {
      expect(headers.get("x-content-type-options")).toBe("nosniff");
      expect(headers.get("content-security-policy")).toBe("sandbox");
    }
  });

  test("leaves a page as it is on the host of its bucket, where nothing else is", async () => {
    const request = new Request("http://master.open.buckets.test/page.html", {
      headers: { host: "master.open.buckets.test" },
    });
    const { status, headers } = await answer(request, { config: { domain } });
    expect([status, headers.get("content-security-policy")]).toEqual([200, null]);
  });
});

test("a public branch is not the control API: what is unsigned is refused there", async () => {
  expect(CONFIG.domain).toBeUndefined();
  const { default: worker } = await import("../../../../worker/index.ts");
  const request = new Request("http://sluice.test/api/v1/repos/open/branches");
  const refused = await worker.fetch(request as never, env as never);
  expect(refused.status).toBe(403);
});

test("what is answered out of memory is asked for as by anybody", () => {
  const asked: object[] = [];
  const shared: NonNullable<BucketTree["shared"]> = {
    read: (request) => void asked.push(request),
    page: (listing) => void asked.push(listing),
  };
  const branch = { lifecycle: {}, files: {}, uploads: {}, multipart: {} } as BranchApi;
  const tree = publicTree(openTree(branch, { repo: "r", branch: "b" }, shared));
  tree.shared?.read({ path: "a" });
  tree.shared?.page({ of: "files", prefix: "", limit: 1 });
  expect(asked).toEqual([
    { path: "a", publicOnly: true },
    { of: "files", prefix: "", limit: 1, publicOnly: true },
  ]);
});
