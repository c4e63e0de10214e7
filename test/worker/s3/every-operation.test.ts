import { beforeAll, describe, expect, test } from "vitest";
import type { KeyLevel } from "../../../protocol/keys.ts";
import { GRANT_HEADER } from "../../../protocol/runner.ts";
import type { DataPermission } from "../../../worker/core/permissions.ts";
import { openGrants } from "../../../worker/keys/grants.ts";
import { detectOperation } from "../../../worker/s3/detect.ts";
import {
  BUCKET_OPERATIONS,
  FORM_OPERATIONS,
  OBJECT_OPERATIONS,
  SERVICE_OPERATIONS,
  UPLOAD_OPERATIONS,
} from "../../../worker/s3/operations.ts";
import { headerLine, type Line, MEMBERS, queryLine } from "../../../worker/s3/request/members.ts";
import model from "../../fixtures/s3-model.json";
import {
  type Ask,
  answer,
  ENDPOINT,
  failure,
  good,
  ROOT_KEY,
  s3,
  scopedKey,
  unsigned,
  xml,
} from "./support.ts";

/** A request that works, once what it needs is there. */
interface Example {
  readonly line: string;
  readonly ask?: Ask;
  /** What a good answer has. */
  readonly status?: number;
  /** What the answer says if nothing is configured that could be shown. */
  readonly code?: string;
}

const BUCKET = "/master.every";
const OPERATIONS = {
  ...SERVICE_OPERATIONS,
  ...BUCKET_OPERATIONS,
  ...OBJECT_OPERATIONS,
  ...UPLOAD_OPERATIONS,
};
type Name = keyof typeof OPERATIONS;
const NAMES = Object.keys(OPERATIONS) as Name[];

const onKey = { "x-amz-copy-source": `${BUCKET}/key` };
const CORS = {
  body: "<CORSConfiguration><CORSRule><AllowedMethod>GET</AllowedMethod><AllowedOrigin>*</AllowedOrigin></CORSRule></CORSConfiguration>",
};
const LIFECYCLE = {
  body: "<LifecycleConfiguration><Rule><Filter/><Status>Enabled</Status><Expiration><Days>9</Days></Expiration></Rule></LifecycleConfiguration>",
};
/** What is said of the lock of an object. */
const NO_LOCK = { status: 400, code: "InvalidRequest" };
let uploads = 0;

/** A read of a setting, which `code` says is not configured. */
function reading(query: string, code?: string): () => Promise<Example> {
  return async () => ({ line: `GET ${BUCKET}?${query}`, ...(code !== undefined && { status: 404, code }) });
}

function setting(query: string, body: string): () => Promise<Example> {
  return async () => ({ line: `PUT ${BUCKET}?${query}`, ask: { body } });
}

/** A setting that can't be here at all. */
function refusing(query: string, root: string): () => Promise<Example> {
  return async () => ({
    line: `PUT ${BUCKET}?${query}`,
    ask: { body: `<${root}/>` },
    status: 501,
    code: "NotImplemented",
  });
}

function removing(query: string): () => Promise<Example> {
  return async () => ({ line: `DELETE ${BUCKET}?${query}`, status: 204 });
}

/** Begins an upload and uploads its first part. */
async function upload(): Promise<{ target: string; etag: string }> {
  const key = `${BUCKET}/parts-${uploads++}`;
  const begun = await xml(good(`POST ${key}?uploads`));
  const target = `${key}?uploadId=${begun.InitiateMultipartUploadResult.UploadId}`;
  const part = await good(`PUT ${target}&partNumber=1`, { body: "part" });
  return { target, etag: part.headers.get("etag") ?? "" };
}

/** One for each operation there is: without it, the test does not compile. */
const EXAMPLES: Record<Name, () => Promise<Example>> = {
  ListBuckets: async () => ({ line: "GET /" }),
  CreateBucket: async () => ({ line: "PUT /made.every" }),
  DeleteBucket: async () => {
    await s3("PUT /doomed.every");
    return { line: "DELETE /doomed.every", status: 204 };
  },
  DeleteBucketCors: async () => ({ line: `DELETE ${BUCKET}?cors`, status: 204 }),
  GetBucketCors: async () => {
    await good(`PUT ${BUCKET}?cors`, CORS);
    return { line: `GET ${BUCKET}?cors` };
  },
  PutBucketCors: async () => ({ line: `PUT ${BUCKET}?cors`, ask: CORS }),
  DeleteBucketLifecycle: async () => ({ line: `DELETE ${BUCKET}?lifecycle`, status: 204 }),
  GetBucketLifecycleConfiguration: async () => {
    await good(`PUT ${BUCKET}?lifecycle`, LIFECYCLE);
    return { line: `GET ${BUCKET}?lifecycle` };
  },
  PutBucketLifecycleConfiguration: async () => ({ line: `PUT ${BUCKET}?lifecycle`, ask: LIFECYCLE }),
  HeadBucket: async () => ({ line: `HEAD ${BUCKET}` }),
  GetBucketLocation: async () => ({ line: `GET ${BUCKET}?location` }),
  GetBucketAccelerateConfiguration: reading("accelerate"),
  GetBucketAcl: reading("acl"),
  GetBucketPolicy: reading("policy", "NoSuchBucketPolicy"),
  GetBucketPolicyStatus: reading("policyStatus", "NoSuchBucketPolicy"),
  PutBucketAcl: async () => ({ line: `PUT ${BUCKET}?acl`, ask: { headers: { "x-amz-acl": "private" } } }),
  PutBucketPolicy: async () => {
    await s3("PUT /policied.every");
    const allow = (action: string, resource: string) => ({
      Effect: "Allow",
      Principal: "*",
      Action: action,
      Resource: `arn:aws:s3:::policied.every${resource}`,
    });
    const body = JSON.stringify({ Statement: [allow("s3:ListBucket", ""), allow("s3:GetObject", "/*")] });
    return { line: "PUT /policied.every?policy", ask: { body }, status: 204 };
  },
  DeleteBucketPolicy: removing("policy"),
  GetObjectLegalHold: async () => ({ line: `GET ${BUCKET}/key?legal-hold`, ...NO_LOCK }),
  GetObjectRetention: async () => ({ line: `GET ${BUCKET}/key?retention`, ...NO_LOCK }),
  PutObjectLegalHold: async () => ({
    line: `PUT ${BUCKET}/key?legal-hold`,
    ask: { body: "<LegalHold><Status>ON</Status></LegalHold>" },
    ...NO_LOCK,
  }),
  PutObjectRetention: async () => ({
    line: `PUT ${BUCKET}/key?retention`,
    ask: { body: "<Retention><Mode>GOVERNANCE</Mode></Retention>" },
    ...NO_LOCK,
  }),
  GetObjectAcl: async () => ({ line: `GET ${BUCKET}/key?acl` }),
  PutObjectAcl: async () => ({
    line: `PUT ${BUCKET}/key?acl`,
    ask: { headers: { "x-amz-acl": "private" } },
  }),
  GetBucketEncryption: reading("encryption"),
  GetBucketLogging: reading("logging"),
  GetBucketNotificationConfiguration: reading("notification"),
  GetBucketOwnershipControls: reading("ownershipControls"),
  GetBucketReplication: reading("replication", "ReplicationConfigurationNotFoundError"),
  GetBucketRequestPayment: reading("requestPayment"),
  GetBucketTagging: reading("tagging", "NoSuchTagSet"),
  GetBucketVersioning: reading("versioning"),
  GetBucketWebsite: reading("website", "NoSuchWebsiteConfiguration"),
  GetObjectLockConfiguration: reading("object-lock", "ObjectLockConfigurationNotFoundError"),
  GetPublicAccessBlock: reading("publicAccessBlock", "NoSuchPublicAccessBlockConfiguration"),
  PutBucketAccelerateConfiguration: setting(
    "accelerate",
    "<AccelerateConfiguration><Status>Suspended</Status></AccelerateConfiguration>",
  ),
  PutBucketEncryption: setting(
    "encryption",
    "<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>",
  ),
  PutBucketLogging: setting("logging", "<BucketLoggingStatus/>"),
  PutBucketNotificationConfiguration: setting("notification", "<NotificationConfiguration/>"),
  PutBucketOwnershipControls: setting(
    "ownershipControls",
    "<OwnershipControls><Rule><ObjectOwnership>BucketOwnerEnforced</ObjectOwnership></Rule></OwnershipControls>",
  ),
  PutBucketRequestPayment: setting(
    "requestPayment",
    "<RequestPaymentConfiguration><Payer>BucketOwner</Payer></RequestPaymentConfiguration>",
  ),
  PutBucketVersioning: setting(
    "versioning",
    "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>",
  ),
  PutBucketTagging: async () => ({
    line: `PUT ${BUCKET}?tagging`,
    ask: { body: "<Tagging><TagSet/></Tagging>" },
    status: 204,
  }),
  PutBucketReplication: refusing("replication", "ReplicationConfiguration"),
  PutBucketWebsite: refusing("website", "WebsiteConfiguration"),
  PutObjectLockConfiguration: refusing("object-lock", "ObjectLockConfiguration"),
  PutPublicAccessBlock: setting("publicAccessBlock", "<PublicAccessBlockConfiguration/>"),
  DeleteBucketEncryption: removing("encryption"),
  DeleteBucketOwnershipControls: async () => ({
    line: `DELETE ${BUCKET}?ownershipControls`,
    status: 501,
    code: "NotImplemented",
  }),
  DeleteBucketReplication: removing("replication"),
  DeleteBucketTagging: removing("tagging"),
  DeleteBucketWebsite: removing("website"),
  DeletePublicAccessBlock: removing("publicAccessBlock"),
  ListObjects: async () => ({ line: `GET ${BUCKET}` }),
  ListObjectsV2: async () => ({ line: `GET ${BUCKET}?list-type=2` }),
  ListObjectVersions: async () => ({ line: `GET ${BUCKET}?versions` }),
  ListMultipartUploads: async () => ({ line: `GET ${BUCKET}?uploads` }),
  DeleteObjects: async () => ({
    line: `POST ${BUCKET}?delete`,
    ask: { body: "<Delete><Object><Key>absent</Key></Object></Delete>" },
  }),
  PutObject: async () => ({ line: `PUT ${BUCKET}/put`, ask: { body: "x" } }),
  CopyObject: async () => ({ line: `PUT ${BUCKET}/copy`, ask: { headers: onKey } }),
  GetObject: async () => ({ line: `GET ${BUCKET}/key` }),
  HeadObject: async () => ({ line: `HEAD ${BUCKET}/key` }),
  GetObjectAttributes: async () => ({
    line: `GET ${BUCKET}/key?attributes`,
    ask: { headers: { "x-amz-object-attributes": "ETag" } },
  }),
  GetObjectTagging: async () => ({ line: `GET ${BUCKET}/key?tagging` }),
  PutObjectTagging: async () => ({
    line: `PUT ${BUCKET}/key?tagging`,
    ask: { body: "<Tagging><TagSet><Tag><Key>a</Key><Value>1</Value></Tag></TagSet></Tagging>" },
  }),
  DeleteObjectTagging: async () => ({ line: `DELETE ${BUCKET}/key?tagging`, status: 204 }),
  DeleteObject: async () => {
    await good(`PUT ${BUCKET}/gone`, { body: "x" });
    return { line: `DELETE ${BUCKET}/gone`, status: 204 };
  },
  CreateMultipartUpload: async () => ({ line: `POST ${BUCKET}/key?uploads` }),
  UploadPart: async () => {
    const { target } = await upload();
    return { line: `PUT ${target}&partNumber=1`, ask: { body: "x" } };
  },
  UploadPartCopy: async () => {
    const { target } = await upload();
    return { line: `PUT ${target}&partNumber=1`, ask: { headers: onKey } };
  },
  ListParts: async () => ({ line: `GET ${(await upload()).target}` }),
  CompleteMultipartUpload: async () => {
    const { target, etag } = await upload();
    const part = `<Part><PartNumber>1</PartNumber><ETag>${etag}</ETag></Part>`;
    return {
      line: `POST ${target}`,
      ask: { body: `<CompleteMultipartUpload>${part}</CompleteMultipartUpload>` },
    };
  },
  AbortMultipartUpload: async () => ({ line: `DELETE ${(await upload()).target}`, status: 204 }),
};

beforeAll(async () => {
  await good(`PUT ${BUCKET}`);
  await good(`PUT ${BUCKET}/key`, { body: "x", headers: { "x-amz-checksum-algorithm": "CRC32" } });
});

describe.each(NAMES)("%s", (name) => {
  const { permission } = OPERATIONS[name];

  test("is refused without a signature", async () => {
    const { line, ask } = await EXAMPLES[name]();
    const response = await answer(unsigned(line, ask?.headers));
    expect(response.status).toBe(403);
    if (hasBody(line)) expect((await failure(response)).Code).toBe("AccessDenied");
  });

  test("is refused with a wrong secret, and with a key that nobody has", async () => {
    const { line, ask } = await EXAMPLES[name]();
    const wrong = await s3(line, { ...ask, key: { ...ROOT_KEY, secret: "not-the-secret" } });
    const nobody = await s3(line, { ...ask, key: { id: "nobody", secret: ROOT_KEY.secret } });
    expect([wrong.status, nobody.status]).toEqual([403, 403]);
    if (!hasBody(line)) return;
    expect((await failure(wrong)).Code).toBe("SignatureDoesNotMatch");
    expect((await failure(nobody)).Code).toBe("InvalidAccessKeyId");
  });

  test("is done for a key that has just the right to it", async () => {
    const { line, ask, status = 200, code } = await EXAMPLES[name]();
    const key = scopedKey({ level: levelFor(permission), repos: ["every"] });
    const response = await s3(line, { ...ask, key });
    const said =
      code === undefined
        ? expect.not.stringContaining("<Error>")
        : expect.stringContaining(`<Code>${code}</Code>`);
    expect([response.status, await response.text()]).toEqual([status, said]);
    expect(response.headers.get("x-amz-request-id")).toBeTruthy();
  });
});

/** The list of buckets belongs to no repo: it shows less, and refuses nobody. */
const OF_A_REPO = NAMES.filter((name) => name !== "ListBuckets");

test.each(OF_A_REPO)("%s is refused to a key of another repo", async (name) => {
  const { line, ask } = await EXAMPLES[name]();
  const refused = await s3(line, { ...ask, key: scopedKey({ level: "admin", repos: ["other"] }) });
  expect(refused.status).toBe(403);
  if (!hasBody(line)) return;
  const { Code, Message } = await failure(refused);
  expect([Code, Message]).toEqual([
    "AccessDenied",
    expect.stringContaining(`needs ${OPERATIONS[name].permission}`),
  ]);
});

test.each(NAMES)("%s is refused to a key of a runner, whatever it presents", async (name) => {
  const { line, ask } = await EXAMPLES[name]();
  const key = scopedKey({ level: "runner", repos: null });
  const inputs = [{ repo: "every", branch: "master", commit: "any", from: null }];
  const terms = { keyId: key.id, until: Date.now() + 60_000 };
  const grant = openGrants(["test-root-secret"]).sign(
    { pipeline: "every", inputs, output: { repo: "every", branch: "master" } },
    terms,
  );
  const headers = { ...ask?.headers, [GRANT_HEADER]: grant };
  const refused = await s3(line, { ...ask, headers, key });
  expect(refused.status).toBe(403);
  if (hasBody(line)) expect(await failure(refused)).toMatchObject({ Code: "AccessDenied" });
});

test.each(
  NAMES.filter((name) => levelBelow(OPERATIONS[name].permission)),
)("%s is refused to a key of the level below", async (name) => {
  const { line, ask } = await EXAMPLES[name]();
  const level = levelBelow(OPERATIONS[name].permission) ?? "read";
  expect(await failure(s3(line, { ...ask, key: scopedKey({ level, repos: ["every"] }) }))).toMatchObject({
    status: 403,
    Code: "AccessDenied",
    Message: expect.stringContaining(`allows ${level}`),
  });
});

test("ListBuckets shows a key no bucket of another repo", async () => {
  await good("PUT /master.hidden");
  const key = scopedKey({ level: "read", repos: ["every", "absent"] });
  const { ListAllMyBucketsResult: seen } = await xml(good("GET /", { key }));
  const names = seen.Buckets.Bucket.map(({ Name }: { Name: string }) => Name);
  expect(names).toContain("master.every");
  expect(names.filter((name: string) => !name.endsWith(".every"))).toEqual([]);
});

test("there is an example for every operation in the tables, and none besides", () => {
  expect(Object.keys(EXAMPLES).sort()).toEqual([...NAMES].sort());
  expect(Object.keys(MEMBERS).sort()).toEqual([...NAMES, ...Object.keys(FORM_OPERATIONS)].sort());
});

describe.each(NAMES)("each member of %s", (name) => {
  const members = MEMBERS[name];

  test("that S3's model has is taken, harmless or refused", () => {
    const { headers, query } = OF_MODEL[name] ?? {};
    const without = [
      ...(headers?.filter((header) => headerLine(members, header) === undefined) ?? ["no such operation"]),
      ...(query?.filter((parameter) => queryLine(members, parameter) === undefined) ?? []),
    ];
    expect(without).toEqual([]);
  });

  test("that is taken is read, and none that is harmless", async () => {
    const names = (kind: Line["kind"]): string[] =>
      Object.entries({ ...members.headers, ...members.query }).flatMap(([member, line]) =>
        line.kind === kind ? [member] : [],
      );
    const taken = names("taken").filter((member) => !member.endsWith("*") && !READ_BEFORE.has(member));
    const read = await readBy(name);
    expect(taken.filter((member) => !read.has(member))).toEqual([]);
    expect(names("harmless").filter((member) => read.has(member))).toEqual([]);
  });
});

const OF_MODEL: Readonly<Record<string, { headers: string[]; query: string[] }>> = model.operations;

/** Read before an operation is called: by the signature's check, for the owner, for the key. */
const READ_BEFORE = new Set([
  "filepath",
  "x-amz-content-sha256",
  "x-amz-date",
  "x-amz-expected-bucket-owner",
]);

/** The names that an operation, and what finds it, looks up in its requests: its example, and one that asks for more. */
async function readBy(name: Name): Promise<ReadonlySet<string>> {
  const read = new Set<string>();
  const operation: { handle(request: never): Promise<Response> } = OPERATIONS[name];
  const { handle } = operation;
  operation.handle = (request) => noting(read, () => handle.call(operation, request));
  try {
    for (const more of [{}, ...(MORE[name] ?? [])]) {
      const { line, ask } = await EXAMPLES[name]();
      const [method = "", target = ""] = line.split(" ");
      const { pathname, searchParams } = new URL(target, ENDPOINT);
      for (const [parameter, value] of Object.entries(more.query ?? {})) searchParams.set(parameter, value);
      const headers = { ...ask?.headers, ...more.headers };
      const asked = { method, query: new Map(searchParams), headers: new Map(Object.entries(headers)) };
      const level = pathname.split("/").length > 2 ? "object" : "bucket";
      if (name !== "ListBuckets") await noting(read, async () => detectOperation(level, asked));
      await s3(`${method} ${pathname}?${searchParams}`, { ...ask, headers });
    }
  } finally {
    operation.handle = handle;
  }
  return read;
}

interface More {
  readonly headers?: Record<string, string>;
  readonly query?: Record<string, string>;
}

/** Without their length, bodies in chunks are refused once it was looked for. */
const CHUNKED: More[] = [{ headers: { "x-amz-content-sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER" } }];
const A_PART: More[] = [{ query: { partNumber: "1" } }];
const MORE: Partial<Record<Name, readonly More[]>> = {
  CompleteMultipartUpload: CHUNKED,
  CopyObject: [
    { headers: { "x-amz-metadata-directive": "REPLACE" } },
    { headers: { "x-amz-copy-source": `${BUCKET}/copy` } },
  ],
  CreateBucket: CHUNKED,
  DeleteObjects: CHUNKED,
  GetObject: A_PART,
  HeadObject: A_PART,
  PutBucketAccelerateConfiguration: CHUNKED,
  PutBucketAcl: CHUNKED,
  PutBucketCors: CHUNKED,
  PutBucketEncryption: CHUNKED,
  PutBucketLifecycleConfiguration: CHUNKED,
  PutBucketLogging: CHUNKED,
  PutBucketNotificationConfiguration: CHUNKED,
  PutBucketOwnershipControls: CHUNKED,
  PutBucketPolicy: CHUNKED,
  PutBucketReplication: CHUNKED,
  PutBucketRequestPayment: CHUNKED,
  PutBucketTagging: CHUNKED,
  PutBucketVersioning: CHUNKED,
  PutBucketWebsite: CHUNKED,
  PutObject: CHUNKED,
  PutObjectAcl: CHUNKED,
  PutObjectLegalHold: CHUNKED,
  PutObjectLockConfiguration: CHUNKED,
  PutObjectRetention: CHUNKED,
  PutPublicAccessBlock: CHUNKED,
  PutObjectTagging: CHUNKED,
  UploadPart: CHUNKED,
};

/** Does the work, and notes down the keys that are looked up in maps meanwhile. */
async function noting<T>(keys: Set<string>, work: () => Promise<T>): Promise<T> {
  const { get, has } = Map.prototype;
  Map.prototype.get = function (key) {
    if (typeof key === "string") keys.add(key);
    return get.call(this, key);
  };
  Map.prototype.has = function (key) {
    if (typeof key === "string") keys.add(key);
    return has.call(this, key);
  };
  try {
    return await work();
  } finally {
    Map.prototype.get = get;
    Map.prototype.has = has;
  }
}

function hasBody(line: string): boolean {
  return !line.startsWith("HEAD");
}

/** The lowest level that gives a permission. */
function levelFor(permission: DataPermission): KeyLevel {
  return permission === "list" ? "read" : permission;
}

function levelBelow(permission: DataPermission): KeyLevel | undefined {
  const below: Partial<Record<KeyLevel, KeyLevel>> = { write: "read", admin: "write" };
  return below[levelFor(permission)];
}
