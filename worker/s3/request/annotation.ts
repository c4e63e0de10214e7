import {
  ANNOTATION_NAME_PATTERN,
  annotationBytes,
  MAX_ANNOTATION_BYTES,
} from "../../../protocol/annotations.ts";
import type { BucketAddress } from "../../../protocol/names.ts";
import type { Caller } from "../../app.ts";
import type { Annotation } from "../../branch/contract/answers.ts";
import { type S3Error, s3Error } from "../answer/errors.ts";

/** How the headers begin by which a client says something of its commit. They are signed, as `x-amz-*` are. */
export const ANNOTATION_PREFIX = "x-sluice-commit-";
const MESSAGE = `${ANNOTATION_PREFIX}message`;
const META = `${ANNOTATION_PREFIX}meta-`;

// A tab is allowed in a header (RFC 9110 §5.5).
const CONTROL = /[\u0000-\u0008\u000a-\u001f\u007f]/;

/**
 * The annotation of the commit that a request makes: the caller's key, and what its headers say. Throws MetadataTooLarge,
 * InvalidArgument for what an annotation can't hold, and InvalidRequest in an open commit, where no commit is made.
 */
export function readAnnotation({
  headers,
  address,
  caller,
}: {
  readonly headers: ReadonlyMap<string, string>;
  readonly address: BucketAddress;
  readonly caller: Pick<Caller, "keyId">;
}): Annotation {
  const message = headers.get(MESSAGE) || undefined;
  const entries: [name: string, value: string][] = [];
  for (const [name, value] of headers) {
    if (!name.startsWith(ANNOTATION_PREFIX)) continue;
    if (address.view !== undefined) throw inOpenCommit(name);
    if (CONTROL.test(value))
      throw s3Error.InvalidArgument(`${name} holds a control character: leave it out.`);
    if (name.startsWith(META)) entries.push([nameOf(name), value]);
  }
  const meta = entries.length === 0 ? undefined : Object.fromEntries(entries);
  refuseTooLong(annotationBytes({ message, meta }));
  return { key: caller.keyId, ...(message !== undefined && { message }), ...(meta && { meta }) };
}

function nameOf(header: string): string {
  const name = header.slice(META.length);
  if (ANNOTATION_NAME_PATTERN.test(name)) return name;
  throw s3Error.InvalidArgument(
    `${header} is not a name of an entry: behind ${META} stands a letter or digit, then letters, digits, '.', '_' and '-'.`,
  );
}

function refuseTooLong(bytes: number): void {
  if (bytes <= MAX_ANNOTATION_BYTES) return;
  throw s3Error.MetadataTooLarge(
    `The headers ${ANNOTATION_PREFIX}* hold ${bytes} bytes, the message and the names and values together: a commit keeps at most ${MAX_ANNOTATION_BYTES}.`,
  );
}

function inOpenCommit(header: string): S3Error {
  return s3Error.InvalidRequest(
    `${header} belongs to a commit, and a write into an open commit makes none: leave it out, and give it with 'sluice commit finish --message' or in the body of the finish.`,
  );
}
