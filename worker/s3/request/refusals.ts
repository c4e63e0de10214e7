import { type S3Error, s3Error } from "../answer/errors.ts";
import { OWNER_ID } from "../answer/fields.ts";
import { ANNOTATION_PREFIX } from "./annotation.ts";
import { headerLine, type Line, type Members, queryLine } from "./members.ts";

/** Throws NotImplemented for a query parameter that the operation does not understand: `PUT key?renameObject` must not write `key`. */
export function refuseQuery(query: ReadonlyMap<string, string>, members: Members): void {
  for (const [name, value] of query) {
    refuse(queryLine(members, name) ?? UNKNOWN, { member: `The query parameter '${name}'`, value });
  }
}

/** Throws NotImplemented for a header, or a field of a form, that would change what the operation does on S3, but not here. */
export function refuseHeaders(
  headers: ReadonlyMap<string, string>,
  members: Members,
  { word = "header" }: { readonly word?: "header" | "field" } = {},
): void {
  for (const [name, value] of headers) {
    // HTTP's own headers mean nothing if they are empty, and most of them nothing to S3.
    if (!isOurs(name) && value === "") continue;
    const line = headerLine(members, name) ?? (isOurs(name) ? UNKNOWN : undefined);
    if (line !== undefined) refuse(line, { member: `The ${word} ${name}`, value });
  }
}

/** Whether a header is S3's or this gateway's, and not HTTP's own. */
export function isOurs(name: string): boolean {
  return name.startsWith("x-amz-") || name.startsWith(ANNOTATION_PREFIX);
}

/** Of what is in no list, so that it is never ignored. */
const UNKNOWN: Line = { kind: "refused", because: "leave it out" };

function refuse(line: Line, { member, value }: { member: string; value: string }): void {
  if (line.kind === "refused") throw notImplemented(member, line.because);
  const { only } = line;
  if (only === undefined || only.values.includes(value)) return;
  if (only.because !== undefined) throw notImplemented(member, only.because);
  throw s3Error.NotImplemented(
    `${member} is implemented with the value '${only.values.join("' or '")}' only, not '${value}'.`,
  );
}

function notImplemented(member: string, because: string): S3Error {
  return s3Error.NotImplemented(`${member} is not implemented for this operation: ${because}.`);
}

/** Throws InvalidRequest if the request has no meaning for the bucket of an open commit, a commit or a tag. */
export function refuseOnView(
  query: ReadonlyMap<string, string>,
  { notOnView }: { readonly notOnView?: string },
): void {
  if (notOnView !== undefined) throw s3Error.InvalidRequest(notOnView);
  if (query.has("versionId")) throw s3Error.InvalidRequest(NO_VERSIONS);
}

const NO_VERSIONS =
  "The bucket of an open commit, a commit or a tag has no versions: leave versionId out, or read the version in the branch's own bucket.";

/** Throws AccessDenied if the client expects another owner than the one that every bucket has. */
export function checkExpectedOwner(
  headers: ReadonlyMap<string, string>,
  header = "x-amz-expected-bucket-owner",
): void {
  const expected = headers.get(header);
  if (expected !== undefined && expected !== OWNER_ID) {
    throw s3Error.AccessDenied(`${header} is '${expected}', but every bucket here belongs to '${OWNER_ID}'.`);
  }
}
