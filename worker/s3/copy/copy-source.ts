import { type BucketAddress, bucketName } from "../../../protocol/names.ts";
import { pathFault } from "../../../protocol/paths.ts";
import type { Context } from "../../app.ts";
import type { FileRead } from "../../branch/contract.ts";
import { permits, refusalText } from "../../core/permissions.ts";
import { S3Error } from "../answer/errors.ts";
import { branchFailure, keyFailure } from "../answer/failures.ts";
import { etag } from "../answer/fields.ts";
import { openTree } from "../bucket-tree.ts";
import type { BucketRequest } from "../operation.ts";
import { addressOf, type NamedBy } from "../request/address.ts";
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
  /** Undefined: the newest. */
  readonly commit: string | undefined;
}

/** A file to be copied. */
export interface CopySource extends SourceName {
  readonly file: FileRead;
  /** Whether it is in the branch that it is copied to. */
  readonly place: "same-branch" | "other-branch";
}

/**
 * Finds the file that a copy is made of. Throws AccessDenied if the caller may not read it, and PreconditionFailed if an
 * `x-amz-copy-source-if-*` does not hold.
 */
export async function openSource(request: BucketRequest): Promise<CopySource> {
  const { caller, headers, address, by } = request;
  const name = parseSource(headers.get("x-amz-copy-source") ?? "", by);
  const need = { permission: "read", repo: name.address.repo } as const;
  if (!permits(caller.scope, need)) {
    throw new S3Error("AccessDenied", {
      message: `Of x-amz-copy-source: ${refusalText(caller.scope, need)}`,
    });
  }
  checkExpectedOwner(headers, EXPECTED_OWNER);
  const isSame = bucketName(name.address) === bucketName(address);
  const file = await readSource(request.context, name);
  checkConditions(headers, file);
  return { ...name, file, place: isSame ? "same-branch" : "other-branch" };
}

const VERSION = "?versionId=";

/**
 * `[/]<bucket>/<key>[?versionId=<commit>]`, percent-encoded. A `+` is a plus, and a `?` that no version follows is
 * part of the key, for clients that do not encode. Throws InvalidArgument, and what is wrong with bucket or key.
 */
export function parseSource(header: string, by: NamedBy): SourceName {
  const mark = header.lastIndexOf(VERSION);
  const path = decodeUri(mark === -1 ? header : header.slice(0, mark));
  const commit = mark === -1 ? undefined : decodeUri(header.slice(mark + VERSION.length));
  const [, bucket, key] = /^\/?([^/]+)\/(.+)$/s.exec(path ?? "") ?? [];
  if (bucket === undefined || key === undefined || commit === "") throw invalidSource(header);
  const address = addressOf(bucket, by);
  if (address.view !== undefined && commit !== undefined) throw noVersions(header);
  const fault = pathFault(key);
  if (fault !== undefined) throw keyFailure(key, fault);
  return { bucket, address, key, commit };
}

function noVersions(header: string): S3Error {
  return new S3Error("InvalidRequest", {
    message: `x-amz-copy-source is '${header}', but the bucket of an open commit, a commit or a tag has no versions: leave versionId out, or copy from the branch's own bucket.`,
  });
}

function invalidSource(header: string): S3Error {
  return new S3Error("InvalidArgument", {
    message: `x-amz-copy-source is '${header}': it must be '<bucket>/<key>', percent-encoded, and may end in '?versionId=<commit>'.`,
  });
}

async function readSource(
  context: Pick<Context, "branch" | "config">,
  { bucket, address, key: path, commit }: SourceName,
): Promise<FileRead> {
  const file = await openTree(context, address).read({
    path,
    modified: context.config.lastModified,
    ...(commit !== undefined && { commit }),
  });
  if (file.ok) return file;
  if (file.reason === "is-deletion") {
    throw new S3Error("InvalidRequest", {
      message: `The copy source '${bucket}/${path}?versionId=${commit}' is the deletion of the key: name the version before it, which ListObjectVersions lists.`,
    });
  }
  const { code, message } = branchFailure(file);
  throw new S3Error(code, {
    message: `The copy source '${bucket}/${path}' cannot be read: ${message}`,
  });
}

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
  throw new S3Error("PreconditionFailed", {
    message: `x-amz-copy-source-${[...asked.keys()].join(" or x-amz-copy-source-")} does not hold for the copy source.`,
  });
}
