import { CHECKSUM_ALGORITHMS } from "../../core/checksums.ts";
import { checksumHeader } from "../answer/fields.ts";

/**
 * The members of each operation: what the gateway does with a header or a query parameter that a client sends. Each is
 * *taken*, *harmless* or *refused*, and this table alone decides it (refusals.ts holds requests to it, before an operation
 * is called). Nothing that a client asks for is ignored in silence: a harmless one asks for what is so here anyway.
 *
 * Each member that botocore's model of S3 has for an operation of ours has a line (test/worker/s3/every-operation.test.ts). What
 * has none is refused if it is a query parameter, an `x-amz-*` or an `x-sluice-commit-*`. Other headers without a line mean
 * nothing to S3.
 */
export interface Members {
  /** Names in lower case. One that ends in `*` stands for all with that beginning that have no line of their own. */
  readonly headers: Lines;
  readonly query: Lines;
}

type Lines = Readonly<Record<string, Line>>;

/** What is done with one member. */
export type Line = Taken | Harmless | Refused;

/** The operation reads it, or what comes before each operation does. */
interface Taken {
  readonly kind: "taken";
  readonly only?: OnlyValues;
  /** Of a query parameter: also in a request without a signature. */
  readonly unsigned?: true;
}

/** It changes nothing, and nobody reads it. */
interface Harmless {
  readonly kind: "harmless";
  readonly because: string;
  readonly only?: OnlyValues;
}

interface Refused {
  readonly kind: "refused";
  /** Says what is not here, and what to do instead: clients read it. */
  readonly because: string;
}

/** With any other value it is refused. */
interface OnlyValues {
  readonly values: readonly string[];
  /** What the client reads then, as of a refused one. */
  readonly because?: string;
}

const TAKEN: Taken = { kind: "taken" };
const UNSIGNED: Taken = { kind: "taken", unsigned: true };

function harmless(because: string): Harmless {
  return { kind: "harmless", because };
}

function refused(because: string): Refused {
  return { kind: "refused", because };
}

/** Each of these names with this line. */
function all<L extends Line>(line: L, names: readonly string[]): Readonly<Record<string, L>> {
  return Object.fromEntries(names.map((name) => [name, line]));
}

const NO_ACLS = "there are no ACLs: leave it out, and give access keys their scope";
const ONE_STORAGE_CLASS = harmless("there is one storage class");
const NO_KEYS =
  "objects are encrypted as the store does it, with no key of a KMS or of the client's: leave it out, or encrypt before sending";
const NOTHING_LOCKED = harmless("nothing is locked");

/** What every operation may be sent. */
const EVERYWHERE: Lines = {
  "x-amz-content-sha256": TAKEN,
  "x-amz-date": TAKEN,
  "x-amz-expected-bucket-owner": TAKEN,
  // The AWS SDK for C++ sends it with every request.
  "x-amz-api-version": { ...harmless("it is the one version there is"), only: { values: ["2006-03-01"] } },
  "x-amz-request-payer": harmless("nobody pays for requests"),
  "x-amz-user-agent": harmless("it says who asks, and nothing of what is asked"),
  "x-amz-copy-source-server-side-encryption*": refused(
    "no object here is encrypted with a key of its own: leave it out",
  ),
  "x-amz-grant-*": refused(NO_ACLS),
  "x-amz-object-lock-*": refused(
    "objects cannot be locked: leave it out; every commit stays readable by its id",
  ),
  "x-amz-server-side-encryption*": refused(NO_KEYS),
  "x-amz-tagging": refused("leave it out; what makes an object takes it, and PutObjectTagging a body"),
  "x-amz-write-offset-bytes": refused("objects are written whole: leave it out"),
  "x-sluice-commit-*": refused(
    "leave it out; what makes a commit takes x-sluice-commit-message and x-sluice-commit-meta-*",
  ),
};

/** SDKs name the operation in a query parameter. */
const HINT: Lines = { "x-id": harmless("method, path and the other parameters say which operation it is") };

/** What is said of a commit, by what makes one. */
const ANNOTATION = all(TAKEN, ["x-sluice-commit-message", "x-sluice-commit-meta-*"]);

/** Of every operation that reads a body. */
const BODY = all(TAKEN, [
  "content-length",
  "content-md5",
  ...CHECKSUM_ALGORITHMS.map(checksumHeader),
  "x-amz-decoded-content-length",
  "x-amz-sdk-checksum-algorithm",
  "x-amz-trailer",
]);

/** HTTP's headers that are kept with an object. */
const KEPT_HEADERS = [
  "cache-control",
  "content-disposition",
  "content-encoding",
  "content-language",
  "content-type",
  "expires",
];

/** Of every operation that makes an object. */
const OBJECT: Lines = {
  ...ANNOTATION,
  ...all(TAKEN, [...KEPT_HEADERS, "x-amz-meta-*"]),
  // The operation looks whether the branch is public. There is one owner, who has every object.
  "x-amz-acl": { ...TAKEN, only: { values: ["private", "public-read", "bucket-owner-full-control"] } },
  // The operation looks whether what is stored lies encrypted.
  "x-amz-server-side-encryption": { ...TAKEN, only: { values: ["AES256"], because: NO_KEYS } },
  "x-amz-storage-class": { ...ONE_STORAGE_CLASS, only: { values: ["STANDARD"] } },
  "x-amz-tagging": TAKEN,
  "x-amz-website-redirect-location": refused("no object redirects its readers: leave it out"),
};

const WRITE_CONDITIONS = all(TAKEN, ["if-match", "if-none-match"]);
const NO_TIMES = all(refused("a write has no condition on times: leave it out, or send If-Match"), [
  "if-modified-since",
  "if-unmodified-since",
]);

const CONDITIONS = ["if-match", "if-modified-since", "if-none-match", "if-unmodified-since"];

/** S3 has none for tags, and would pass over them. */
const TAGGING_CONDITIONS = all(
  refused("tags are set without conditions: leave it out, or send versionId"),
  CONDITIONS,
);

const COPY = all(TAKEN, [
  "x-amz-copy-source",
  ...CONDITIONS.map((name) => `x-amz-copy-source-${name}`),
  "x-amz-source-expected-bucket-owner",
]);

const DELETION: Lines = {
  ...ANNOTATION,
  "x-amz-bypass-governance-retention": NOTHING_LOCKED,
  "x-amz-mfa": refused("no deletion asks for a second factor: leave it out"),
};

/** Of GetObject and HeadObject. */
const SELECTION: Members = members(
  {
    ...all(TAKEN, [...CONDITIONS, "if-range", "range", "x-amz-checksum-mode"]),
    // MinIO's, by which its clients have the tags in the answer that has the bytes.
    "x-amz-tagging-directive": { ...TAKEN, only: { values: ["ACCESS"] } },
  },
  {
    ...all(TAKEN, [...KEPT_HEADERS.map((name) => `response-${name}`), "versionId"]),
    partNumber: UNSIGNED,
  },
);

/** Of an operation with these headers and query parameters beside what every operation may be sent. */
function members(headers: Lines, query: Lines = {}): Members {
  return { headers: { ...EVERYWHERE, ...headers }, query: { ...HINT, ...query } };
}

/** Of the listings of objects, in each of which `more` are parameters of its own. */
function listing(line: Taken, more: readonly string[]): Members {
  const query = all(line, ["delimiter", "encoding-type", "max-keys", "prefix", ...more]);
  return members({ "x-amz-optional-object-attributes": TAKEN }, query);
}

/** Of an operation that takes no header of its own. */
function asking(...query: readonly string[]): Members {
  return members({}, all(TAKEN, query));
}

/** Of an operation that takes a document in its body, and in `query` what it is about. */
function setting(query: string, more: Lines = {}): Members {
  return members({ ...BODY, ...more }, { [query]: TAKEN });
}

/** Of one on an object, one of whose versions may be named. */
function ofVersion({ headers, query }: Members): Members {
  return { headers, query: { ...query, versionId: TAKEN } };
}

const LOCK_TOKEN: Lines = {
  "x-amz-bucket-object-lock-token": refused("no bucket has an object lock: leave it out"),
};

/** Of the two operations that set an ACL. */
const ACL = setting(
  "acl",
  all(TAKEN, [
    "x-amz-acl",
    "x-amz-grant-full-control",
    "x-amz-grant-read",
    "x-amz-grant-read-acp",
    "x-amz-grant-write",
    "x-amz-grant-write-acp",
  ]),
);

/** The lines of a few names out of others. */
function only(lines: Lines, wanted: (name: string) => boolean): Lines {
  return Object.fromEntries(Object.entries(lines).filter(([name]) => wanted(name)));
}

/**
 * What the fields of a form may be, as headers are of a PutObject (S3 API Reference, "POST Object"). A field that has no line
 * must be in a condition of the policy as all others, and means nothing to S3.
 */
export const FORM_FIELDS: Members = {
  headers: {
    ...only(EVERYWHERE, (name) => name !== "x-amz-content-sha256" && name !== "x-amz-expected-bucket-owner"),
    ...OBJECT,
    ...only(BODY, (name) => name.startsWith("x-amz-checksum-") || name === "content-md5"),
    ...all(TAKEN, [
      "bucket",
      "key",
      "policy",
      "redirect",
      "success_action_redirect",
      "success_action_status",
      "tagging",
      "x-amz-algorithm",
      "x-amz-checksum-algorithm",
      "x-amz-credential",
      "x-amz-signature",
    ]),
    acl: { ...TAKEN, only: { values: ["private", "public-read", "bucket-owner-full-control"] } },
    "x-ignore-*": harmless("it says so itself"),
    ...all(refused("a form has no condition on what is there: leave it out"), CONDITIONS),
  },
  query: {},
};

/** The settings of a bucket by the query parameter of each, as the names of their operations have them behind `Get` and `Put`. */
export const SETTINGS = {
  accelerate: "BucketAccelerateConfiguration",
  acl: "BucketAcl",
  cors: "BucketCors",
  encryption: "BucketEncryption",
  logging: "BucketLogging",
  notification: "BucketNotificationConfiguration",
  "object-lock": "ObjectLockConfiguration",
  ownershipControls: "BucketOwnershipControls",
  policy: "BucketPolicy",
  publicAccessBlock: "PublicAccessBlock",
  replication: "BucketReplication",
  requestPayment: "BucketRequestPayment",
  tagging: "BucketTagging",
  versioning: "BucketVersioning",
  website: "BucketWebsite",
} as const;
type SettingName = (typeof SETTINGS)[keyof typeof SETTINGS];

/** Of each operation on a setting that takes no header of its own. */
const SETTING_MEMBERS = Object.fromEntries(
  Object.entries(SETTINGS).flatMap(([query, name]) => [
    [`Get${name}`, asking(query)],
    [`Put${name}`, setting(query)],
  ]),
) as Record<`${"Get" | "Put"}${SettingName}`, Members>;

function membersOf<Name extends string>(table: Readonly<Record<Name, Members>>): typeof table {
  return table;
}

/** By the operation's name. One that operations.ts lists and this does not is not compiled. */
export const MEMBERS = membersOf({
  ...SETTING_MEMBERS,
  AbortMultipartUpload: members(
    {
      "x-amz-if-match-initiated-time": refused("the upload's id says which one is meant: leave it out"),
    },
    { uploadId: TAKEN },
  ),
  CompleteMultipartUpload: setting("uploadId", {
    ...ANNOTATION,
    ...WRITE_CONDITIONS,
    "x-amz-checksum-type": TAKEN,
    "x-amz-mp-object-size": TAKEN,
  }),
  CopyObject: members({
    ...OBJECT,
    ...COPY,
    ...WRITE_CONDITIONS,
    ...NO_TIMES,
    "x-amz-checksum-algorithm": TAKEN,
    "x-amz-metadata-directive": TAKEN,
    "x-amz-object-annotation-directive": harmless("no object has annotations"),
    // A copy of an object onto itself may name its storage class as what it changes.
    "x-amz-storage-class": { ...TAKEN, only: { values: ["STANDARD"] } },
    "x-amz-tagging-directive": TAKEN,
  }),
  CreateBucket: members({
    ...BODY,
    "x-amz-acl": { ...TAKEN, only: { values: ["private", "public-read"] } },
    "x-amz-bucket-namespace": { ...harmless("there is one"), only: { values: ["global"] } },
    "x-amz-bucket-object-lock-enabled": { ...NOTHING_LOCKED, only: { values: ["false"] } },
    "x-amz-object-ownership": {
      ...harmless("there is one owner"),
      only: { values: ["BucketOwnerEnforced"] },
    },
  }),
  CreateMultipartUpload: members(
    {
      ...OBJECT,
      ...all(refused("an upload's conditions come with its completion: leave it out here"), [
        "if-match",
        "if-none-match",
      ]),
      "x-amz-checksum-algorithm": TAKEN,
      "x-amz-checksum-type": TAKEN,
      // s3fs sends it when it begins a copy in parts.
      "x-amz-metadata-directive": TAKEN,
    },
    { uploads: TAKEN, filepath: TAKEN },
  ),
  DeleteBucket: asking(),
  DeleteBucketCors: asking("cors"),
  DeleteBucketEncryption: asking("encryption"),
  DeleteBucketLifecycle: asking("lifecycle"),
  DeleteBucketOwnershipControls: asking("ownershipControls"),
  DeleteBucketPolicy: asking("policy"),
  DeleteBucketReplication: asking("replication"),
  DeleteBucketTagging: asking("tagging"),
  DeleteBucketWebsite: asking("website"),
  DeleteObject: members(
    {
      ...DELETION,
      ...NO_TIMES,
      "if-match": TAKEN,
      ...all(refused("a deletion has If-Match as its one condition: leave it out"), [
        "if-none-match",
        "x-amz-if-match-last-modified-time",
        "x-amz-if-match-size",
      ]),
    },
    { versionId: TAKEN },
  ),
  DeleteObjects: setting("delete", DELETION),
  DeletePublicAccessBlock: asking("publicAccessBlock"),
  DeleteObjectTagging: members(
    { ...ANNOTATION, ...TAGGING_CONDITIONS },
    { tagging: TAKEN, versionId: TAKEN },
  ),
  // minio-go asks by withUpdatedAt for a header with the time, and goes on without: S3 has none.
  GetBucketLifecycleConfiguration: members(
    {},
    { lifecycle: TAKEN, withUpdatedAt: harmless("the answer has what S3's has") },
  ),
  GetBucketLocation: members({}, { location: UNSIGNED }),
  GetBucketPolicyStatus: asking("policyStatus"),
  GetObject: SELECTION,
  GetObjectAcl: asking("acl", "versionId"),
  GetObjectAttributes: members(
    all(TAKEN, ["x-amz-max-parts", "x-amz-object-attributes", "x-amz-part-number-marker"]),
    { attributes: TAKEN, versionId: TAKEN },
  ),
  GetObjectLegalHold: asking("legal-hold", "versionId"),
  GetObjectRetention: asking("retention", "versionId"),
  GetObjectTagging: asking("tagging", "versionId"),
  HeadBucket: asking(),
  HeadObject: SELECTION,
  ListBuckets: members(
    {},
    {
      ...all(TAKEN, ["continuation-token", "max-buckets", "prefix"]),
      "bucket-region": refused("buckets have no region: leave it out"),
    },
  ),
  ListMultipartUploads: asking(
    "delimiter",
    "encoding-type",
    "key-marker",
    "max-uploads",
    "prefix",
    "upload-id-marker",
    "uploads",
  ),
  ListObjects: listing(UNSIGNED, ["marker"]),
  ListObjectsV2: listing(UNSIGNED, ["continuation-token", "fetch-owner", "list-type", "start-after"]),
  ListObjectVersions: listing(TAKEN, ["key-marker", "version-id-marker", "versions"]),
  ListParts: asking("encoding-type", "max-parts", "part-number-marker", "uploadId"),
  // What it is asked is in the fields of the form: see FORM_FIELDS.
  PostObject: {
    headers: {
      ...EVERYWHERE,
      "x-amz-content-sha256": {
        ...harmless("nobody signed the body"),
        only: { values: ["UNSIGNED-PAYLOAD"], because: "the body is a form: leave it out" },
      },
      "content-md5": refused("it would be of the whole form: send it as a field, of the file"),
    },
    query: HINT,
  },
  PutBucketAcl: ACL,
  PutBucketLifecycleConfiguration: setting("lifecycle", {
    "x-amz-transition-default-minimum-object-size": harmless("it is about transitions, which are refused"),
  }),
  PutBucketNotificationConfiguration: setting("notification", {
    "x-amz-skip-destination-validation": harmless("nobody is notified"),
  }),
  PutBucketPolicy: setting("policy", {
    "x-amz-confirm-remove-self-bucket-access": harmless("no policy here takes access from a key"),
  }),
  PutBucketReplication: setting("replication", LOCK_TOKEN),
  PutBucketVersioning: setting("versioning", {
    "x-amz-mfa": refused("no change of versions asks for a second factor: leave it out"),
  }),
  PutObject: members({
    ...OBJECT,
    ...BODY,
    ...WRITE_CONDITIONS,
    ...NO_TIMES,
    "x-amz-checksum-algorithm": TAKEN,
  }),
  PutObjectAcl: ofVersion(ACL),
  PutObjectLegalHold: ofVersion(setting("legal-hold")),
  PutObjectLockConfiguration: setting("object-lock", LOCK_TOKEN),
  PutObjectRetention: ofVersion(
    setting("retention", { "x-amz-bypass-governance-retention": NOTHING_LOCKED }),
  ),
  PutObjectTagging: ofVersion(setting("tagging", { ...ANNOTATION, ...TAGGING_CONDITIONS })),
  UploadPart: members(
    {
      ...BODY,
      "x-amz-checksum-algorithm": harmless("the upload was begun for the checksum that its parts have"),
    },
    { partNumber: TAKEN, uploadId: TAKEN },
  ),
  UploadPartCopy: members(
    { ...COPY, "x-amz-copy-source-range": TAKEN },
    { partNumber: TAKEN, uploadId: TAKEN },
  ),
});

/** The line of a header of this name; undefined if it has none. */
export function headerLine({ headers }: Members, name: string): Line | undefined {
  if (Object.hasOwn(headers, name)) return headers[name];
  // Every request has some of HTTP's own headers, which no beginning is of.
  if (!name.startsWith("x-")) return undefined;
  let line: Line | undefined;
  let longest = 0;
  for (const beginning in headers) {
    if (!beginning.endsWith("*") || beginning.length <= longest) continue;
    if (!name.startsWith(beginning.slice(0, -1))) continue;
    line = headers[beginning];
    longest = beginning.length;
  }
  return line;
}

/** The line of a query parameter; undefined if it has none. */
export function queryLine({ query }: Members, name: string): Line | undefined {
  return Object.hasOwn(query, name) ? query[name] : undefined;
}
