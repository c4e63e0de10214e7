import type { SaidOfCommit } from "../../protocol/annotations.ts";
import {
  type BranchAddress,
  type BucketAddress,
  bucketName,
  isUlid,
  parseBucket,
  type ViewAddress,
  viewBucket,
} from "../../protocol/names.ts";
import { PATH_FAULT_TEXT, pathFault } from "../../protocol/paths.ts";
import { encodePath } from "../../protocol/requests.ts";
import { UsageError } from "../output/failure.ts";

/**
 * A place in a branch: `s3://<branch>.<repo>/<path>`, or in one of its open commits, commits or tags. The path may be
 * empty, and may end in `/`.
 */
export interface Address extends BucketAddress {
  /** In full, also if a repo alone was named. */
  readonly bucket: string;
  readonly path: string;
}

/** Path of a branch in the control API. */
export function branchPath({ repo, branch }: BranchAddress): string {
  return `/repos/${encodePath(repo)}/branches/${encodePath(branch)}`;
}

const SCHEME = "s3://";

export function isAddress(text: string): boolean {
  return text.startsWith(SCHEME);
}

/** Reads `s3://[[<view>.]<branch>.]<repo>[/<path>]`; a UsageError says what is wrong with it. */
export function parseAddress(text: string): Address {
  if (!isAddress(text)) throw new UsageError(`'${text}' must be s3://<branch>.<repo>/<path>`);
  const rest = text.slice(SCHEME.length);
  const slash = rest.indexOf("/");
  const bucket = slash < 0 ? rest : rest.slice(0, slash);
  const path = slash < 0 ? "" : rest.slice(slash + 1);
  const found = parseBucket(bucket);
  if (!found) {
    throw new UsageError(
      `'${bucket}' in '${text}' must be <branch>.<repo>: two names of letters, digits, '_' and '-', e.g. master.images; <repo> alone is its branch master; that of an open commit, a commit or a tag is <x>.<branch>.<repo>`,
    );
  }
  const fault = path === "" ? undefined : pathFault(path);
  if (fault) throw new UsageError(`the path in '${text}' can't be stored: ${PATH_FAULT_TEXT[fault]}`);
  const { view } = found;
  return { ...found, bucket: view === undefined ? bucketName(found) : viewBucket({ ...found, view }), path };
}

/** An address that must name a file. */
export function parseFileAddress(text: string): Address {
  const address = parseAddress(text);
  if (address.path === "" || address.path.endsWith("/")) {
    throw new UsageError(`'${text}' must name a file: s3://<branch>.<repo>/<path>`);
  }
  return address;
}

/** An address that must name a bucket alone, with or without `s3://`. */
export function parseBucketAddress(text: string): Address {
  const address = parseAddress(isAddress(text) ? text : `${SCHEME}${text}`);
  if (address.path !== "") throw new UsageError(`'${text}' must name a bucket alone: s3://<branch>.<repo>`);
  return address;
}

/** An address that must name a branch alone, as those do that are made and deleted. */
export function parseBranchBucket(text: string): Address {
  const address = parseBucketAddress(text);
  if (address.view === undefined) return address;
  throw new UsageError(
    `'${text}' is ${viewText(address.view)} and no bucket of its own: name the branch, s3://${bucketName(address)}`,
  );
}

/** An address that must name the bucket of an open commit. */
export function parseOpenCommit(text: string): ViewAddress {
  const { repo, branch, view } = parseBucketAddress(text);
  if (view !== undefined && isUlid(view)) return { repo, branch, view };
  throw new UsageError(
    `'${text}' must be the bucket of an open commit, as 'sluice commit start' printed it: s3://<session>.<branch>.<repo>`,
  );
}

/** The open commit whose bucket this is, with or without `s3://`; undefined if it is no such bucket. */
export function openCommitIn(text: string): ViewAddress | undefined {
  const found = parseBucket(text.replace(SCHEME, ""));
  if (found?.view === undefined || !isUlid(found.view)) return undefined;
  return { ...found, view: found.view };
}

/**
 * Refuses an address into which nothing can be written, and an open commit if something is `said` of a commit: none is made
 * there. Of an id only the gateway knows.
 */
export function mustTakeWrites(address: Address, { message, meta }: SaidOfCommit = {}): void {
  const { view, bucket } = address;
  if (view === undefined) return;
  if (!isUlid(view)) {
    throw new UsageError(
      `s3://${bucket} is a tag, which is read-only: write to s3://${bucketName(address)}, or move the tag with 'sluice tag create --force'`,
    );
  }
  if (message === undefined && meta === undefined) return;
  throw new UsageError(
    `--message and --meta are for a commit, and in an open commit none is made: give them to 'sluice commit finish ${SCHEME}${bucket}'`,
  );
}

/** What a view is, as far as its name tells. */
export function viewText(view: string): string {
  return isUlid(view) ? "an open commit or a commit" : "a tag";
}

/** For people. */
export function showAddress({ bucket }: Pick<Address, "bucket">, path: string): string {
  return `${SCHEME}${bucket}/${path}`;
}
