import { S3Error } from "../answer/errors.ts";
import { OWNER_ID } from "../answer/fields.ts";
import type { Operation } from "../operation.ts";
import { NOTE_HEADERS, NOTE_PREFIX } from "./note.ts";

/** `x-amz-*` headers that change no answer of ours, or that are checked before the operation. */
const HARMLESS = new Set([
  "x-amz-content-sha256",
  "x-amz-date",
  "x-amz-user-agent",
  "x-amz-request-payer",
  "x-amz-expected-bucket-owner",
]);

/** Headers of every operation that makes an object. */
export const OBJECT_HEADERS: readonly string[] = [
  "x-amz-meta-*",
  "x-amz-acl",
  "x-amz-storage-class",
  ...NOTE_HEADERS,
];

/**
 * Headers that are understood with these values only, which ask for what is so here anyway. (`public-read` makes a bucket
 * public; with an object, the operation looks whether its branch is.)
 */
const ONLY_VALUES: ReadonlyMap<string, readonly string[]> = new Map([
  ["x-amz-acl", ["private", "public-read"]],
  ["x-amz-bucket-object-lock-enabled", ["false"]],
  ["x-amz-object-ownership", ["BucketOwnerEnforced"]],
  ["x-amz-storage-class", ["STANDARD"]],
]);

/** What to do instead, for headers that clients send because a user set something. By the beginning of the name. */
const FIXES: readonly (readonly [beginning: string, fix: string])[] = [
  [
    "x-amz-server-side-encryption",
    "objects are kept as the blob store keeps them: leave it out, or encrypt before sending",
  ],
  [
    "x-amz-copy-source-server-side-encryption",
    "no object here is encrypted with a key of its own: leave it out",
  ],
  ["x-amz-object-lock", "objects cannot be locked: leave it out; every commit stays readable by its id"],
  ["x-amz-tagging", "objects have no tags: leave it out, or send it as x-amz-meta-*"],
  ["x-amz-grant", "there are no ACLs: leave it out, and give access keys their scope"],
  ["x-amz-write-offset-bytes", "objects are written whole: leave it out"],
  [NOTE_PREFIX, `leave it out; what makes a commit takes ${NOTE_HEADERS.join(" and ")}`],
];

/** SDKs name the operation in a query parameter of this name. */
export const OPERATION_HINT = "x-id";

type Refusable = Pick<Operation<never>, "query" | "takes" | "refuses">;

/** Throws NotImplemented for a query parameter that the operation does not understand: `PUT key?tagging` must not write `key`. */
export function refuseQuery(query: ReadonlyMap<string, string>, operation: Refusable): void {
  for (const name of query.keys()) {
    if (name !== OPERATION_HINT && !operation.query?.includes(name)) {
      throw new S3Error("NotImplemented", {
        message: `The query parameter '${name}' is not implemented for this operation: leave it out.`,
      });
    }
  }
}

/** Throws InvalidRequest if the request has no meaning for the bucket of an open commit, a commit or a tag. */
export function refuseOnView(
  query: ReadonlyMap<string, string>,
  { notOnView }: Pick<Operation<never>, "notOnView">,
): void {
  if (notOnView !== undefined) throw new S3Error("InvalidRequest", { message: notOnView });
  if (query.has("versionId")) throw new S3Error("InvalidRequest", { message: NO_VERSIONS });
}

const NO_VERSIONS =
  "The bucket of an open commit, a commit or a tag has no versions: leave versionId out, or read the version in the branch's own bucket.";

/** Throws NotImplemented for a header that would change what the operation does on S3, but not here. */
export function refuseHeaders(headers: ReadonlyMap<string, string>, operation: Refusable): void {
  for (const [name, value] of headers) {
    const isAmz = name.startsWith("x-amz-");
    const known =
      isAmz || name.startsWith(NOTE_PREFIX)
        ? HARMLESS.has(name) || isTaken(name, operation)
        : value === "" || !operation.refuses?.includes(name);
    if (!known) throw notImplemented(name);
    if (isAmz) refuseOtherValue(name, value);
  }
}

/** Throws AccessDenied if the client expects another owner than the one that every bucket has. */
export function checkExpectedOwner(
  headers: ReadonlyMap<string, string>,
  header = "x-amz-expected-bucket-owner",
): void {
  const expected = headers.get(header);
  if (expected !== undefined && expected !== OWNER_ID) {
    throw new S3Error("AccessDenied", {
      message: `${header} is '${expected}', but every bucket here belongs to '${OWNER_ID}'.`,
    });
  }
}

function isTaken(name: string, { takes = [] }: Refusable): boolean {
  return takes.some((taken) => (taken.endsWith("*") ? name.startsWith(taken.slice(0, -1)) : name === taken));
}

function refuseOtherValue(name: string, value: string): void {
  const only = ONLY_VALUES.get(name);
  if (only === undefined || only.includes(value)) return;
  throw new S3Error("NotImplemented", {
    message: `The header ${name} is implemented with the value '${only.join("' or '")}' only, not '${value}'.`,
  });
}

function notImplemented(name: string): S3Error {
  const [, fix = "leave it out"] = FIXES.find(([beginning]) => name.startsWith(beginning)) ?? [];
  return new S3Error("NotImplemented", {
    message: `The header ${name} is not implemented for this operation: ${fix}.`,
  });
}
