import { type BucketAddress, bucketName } from "../../../protocol/names.ts";
import { pathFault } from "../../../protocol/paths.ts";
import type { Context } from "../../app.ts";
import { byteSource } from "../../blobs/body-reader.ts";
import type { Content } from "../../blobs/content.ts";
import type { ByteRange } from "../../blobs/port.ts";
import { readContent } from "../../blobs/read/read-content.ts";
import type { ReadHold } from "../../blobs/read/read-hold.ts";
import { type WriteOptions, writeContent } from "../../blobs/write-content.ts";
import type { FileRead } from "../../branch/contract/files.ts";
import { permits, refusalText } from "../../core/permissions.ts";
import { S3Error, s3Error } from "../answer/errors.ts";
import { branchFailure, keyFailure } from "../answer/failures.ts";
import { etag } from "../answer/fields.ts";
import { openTree } from "../bucket-tree.ts";
import { BODY_IDLE_MS } from "../limits.ts";
import type { BucketRequest } from "../operation.ts";
import { addressOf, type NamedBy, refuseHidden } from "../request/address.ts";
import { evaluateConditions } from "../request/conditions.ts";
import { checkExpectedOwner } from "../request/refusals.ts";
import { decodeUri } from "../request/target.ts";

const CONDITIONS = ["if-match", "if-none-match", "if-modified-since", "if-unmodified-since"];
const EXPECTED_OWNER = "x-amz-source-expected-bucket-owner";

/** What `x-amz-copy-source` names. */
export interface SourceName {
  /** As the client wrote it. */
  readonly bucket: string;
  readonly address: BucketAddress;
  readonly key: string;
  /** The key if each `+` is a plus and no space; absent if there is none. */
  readonly literal?: string;
  /** Undefined: the newest. */
  readonly commit: string | undefined;
}

/** A file to be copied. Its key is the one that it was found at. */
export interface CopySource extends Omit<SourceName, "literal"> {
  readonly file: FileRead;
  /** Whether it is in the branch that it is copied to. */
  readonly place: "same-branch" | "other-branch";
}

/** Finds the file to be copied. Throws AccessDenied, and PreconditionFailed if an `x-amz-copy-source-if-*` fails. */
export async function openSource(request: BucketRequest, name = sourceOf(request)): Promise<CopySource> {
  const { caller, headers, address, by } = request;
  await refuseHidden(name.bucket, { by, hiddenRepos: request.context.hiddenRepos });
  const need = { permission: "read", repo: name.address.repo } as const;
  if (!permits(caller.scope, need)) {
    throw s3Error.AccessDenied(`Of x-amz-copy-source: ${refusalText(caller.scope, need)}`);
  }
  checkExpectedOwner(headers, EXPECTED_OWNER);
  const isSame = bucketName(name.address) === bucketName(address);
  const { key, file } = await readSource(request.context, name);
  checkConditions(headers, file);
  const { bucket, commit } = name;
  const place = isSame ? "same-branch" : "other-branch";
  return { bucket, address: name.address, key, commit, file, place };
}

/** What a request to copy names. Throws what `parseSource` throws. */
export function sourceOf({ headers, by }: Pick<BucketRequest, "headers" | "by">): SourceName {
  return parseSource(headers.get("x-amz-copy-source") ?? "", by);
}

const VERSION = "?versionId=";
const SOURCE = /^\/?([^/]+)\/(.+)$/s;

/**
 * `[/]<bucket>/<key>[?versionId=<commit>]`, percent-encoded. A `+` is a space, as on S3: some clients encode so. Others do
 * not encode at all, so that a `?` that no version follows is part of the key, and the key with its `+` as it stands is
 * `literal`. Throws InvalidArgument, and what is wrong with bucket or key.
 */
export function parseSource(header: string, by: NamedBy): SourceName {
  const mark = header.lastIndexOf(VERSION);
  const encoded = mark === -1 ? header : header.slice(0, mark);
  const path = decodeUri(encoded.replaceAll("+", " "));
  const commit = mark === -1 ? undefined : decodeUri(header.slice(mark + VERSION.length));
  const [, bucket, key] = SOURCE.exec(path ?? "") ?? [];
  if (bucket === undefined || key === undefined || commit === "")
    throw s3Error.InvalidArgument(
      `x-amz-copy-source is '${header}': it must be '<bucket>/<key>', percent-encoded, and may end in '?versionId=<commit>'.`,
    );
  const address = sourceAddress(bucket, { by, header });
  if (address.view !== undefined && commit !== undefined)
    throw s3Error.InvalidRequest(
      `x-amz-copy-source is '${header}', but the bucket of an open commit, a commit or a tag has no versions: leave versionId out, or copy from the branch's own bucket.`,
    );
  const fault = pathFault(key);
  if (fault !== undefined) throw keyFailure(key, fault);
  if (!encoded.includes("+")) return { bucket, address, key, commit };
  const [, , literal = key] = SOURCE.exec(decodeUri(encoded) ?? "") ?? [];
  return { bucket, address, key, literal, commit };
}

/** As on S3, a name that can be no bucket's is a fault of the header, and not of the bucket that the request is sent to. */
function sourceAddress(bucket: string, { by, header }: { by: NamedBy; header: string }): BucketAddress {
  try {
    return addressOf(bucket, by);
  } catch (error) {
    if (!(error instanceof S3Error && error.code === "InvalidBucketName")) throw error;
    throw s3Error.InvalidArgument(
      `x-amz-copy-source is '${header}', which names no bucket. ${error.message}`,
    );
  }
}

async function readSource(
  context: Pick<Context, "branch" | "config">,
  { bucket, address, key, literal, commit }: SourceName,
): Promise<{ key: string; file: FileRead }> {
  const tree = openTree(context.branch(address), address);
  const read = (path: string) =>
    tree.read({ path, modified: context.config.lastModified, ...(commit !== undefined && { commit }) });
  const file = await read(key);
  if (file.ok) return { key, file };
  let hint = "";
  if (literal !== undefined && NOT_THERE.has(file.reason)) {
    const asItStands = await read(literal);
    if (asItStands.ok) return { key: literal, file: asItStands };
    hint = " A '+' in x-amz-copy-source is a space: a plus is sent as %2B.";
  }
  if (file.reason === "is-deletion") {
    throw s3Error.InvalidRequest(
      `The copy source '${bucket}/${key}?versionId=${commit}' is the deletion of the key: name the version before it, which ListObjectVersions lists.`,
    );
  }
  const { code, message } = branchFailure(file);
  throw new S3Error(code, `The copy source '${bucket}/${key}' cannot be read: ${message}${hint}`);
}

/** Reasons for which a branch has nothing at a key that could be copied. */
const NOT_THERE: ReadonlySet<string> = new Set(["no-such-file", "no-such-version", "is-deletion"]);

/** `x-amz-copy-source-version-id`. A file in a view of the branch has no version. */
export function sourceVersion({ address, file }: CopySource): Record<string, string> {
  return address.view === undefined ? { "x-amz-copy-source-version-id": file.commit } : {};
}

/** A condition that does not hold is a 412 in any case: a copy has no "not modified". */
function checkConditions(headers: ReadonlyMap<string, string>, file: FileRead): void {
  const asked = new Map<string, string>();
  for (const name of CONDITIONS) {
    const value = headers.get(`x-amz-copy-source-${name}`);
    if (value !== undefined) asked.set(name, value);
  }
  if (asked.size === 0) return;
  if (evaluateConditions(asked, { etag: etag(file), modifiedAt: file.modifiedAt }) === "proceed") return;
  throw s3Error.PreconditionFailed(
    `x-amz-copy-source-${[...asked.keys()].join(" or x-amz-copy-source-")} does not hold for the copy source.`,
  );
}

type Passed = Pick<
  WriteOptions,
  "store" | "openUpload" | "renewUpload" | "uploadLeaseMs" | "checksum" | "inline" | "now"
>;

interface BytesToCopy extends Passed {
  readonly file: FileRead;
  /** Of the branch that has the file. */
  readonly hold: ReadHold;
  /** Absent: the whole. */
  readonly range?: ByteRange;
}

/** What was written, and its checksum if one was asked for. */
export interface CopiedBytes {
  readonly content: Content;
  readonly checksum: string | null;
}

/** Streams the bytes of a file into blobs of another branch. A whole file must come out with the digest that it has. */
export async function copyBytes({ file, hold, range, ...passed }: BytesToCopy): Promise<CopiedBytes> {
  const { digest, size, body } = file;
  const bytes = await readContent(passed.store, { body, size, hold, ...(range && { range }) });
  const stream = bytes instanceof Uint8Array ? new Blob([bytes]).stream() : bytes;
  const written = await writeContent(byteSource(stream), {
    ...passed,
    declaredSize: range?.length ?? size,
    ...(range ? {} : { expect: { digest: { digest, size } } }),
    idleMs: BODY_IDLE_MS,
  });
  // The client sent no body: this is no fault of its.
  if (!written.ok) {
    throw s3Error.ServiceUnavailable(
      `The bytes of the copy source could not be read to the end (${written.reason}): try again.`,
    );
  }
  return { content: written.content, checksum: written.checksum };
}
