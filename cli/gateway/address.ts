import { bucketName, openCommitBucket, parseBucket } from "../../protocol/names.ts";
import { PATH_FAULT_TEXT, pathFault } from "../../protocol/paths.ts";
import { UsageError } from "../output/failure.ts";

/** A place in a branch: `s3://<branch>.<repo>/<path>`, or in an open commit. The path may be empty, and may end in `/`. */
export interface Address {
  readonly repo: string;
  readonly branch: string;
  /** Id of the open commit, if the address is in one. */
  readonly session?: string;
  readonly bucket: string;
  readonly path: string;
}

const SCHEME = "s3://";

export function isAddress(text: string): boolean {
  return text.startsWith(SCHEME);
}

/** Reads `s3://[<session>.]<branch>.<repo>[/<path>]`; a UsageError says what is wrong with it. */
export function parseAddress(text: string): Address {
  if (!isAddress(text)) throw new UsageError(`'${text}' must be s3://<branch>.<repo>/<path>`);
  const rest = text.slice(SCHEME.length);
  const slash = rest.indexOf("/");
  const bucket = slash < 0 ? rest : rest.slice(0, slash);
  const path = slash < 0 ? "" : rest.slice(slash + 1);
  const found = parseBucket(bucket);
  if (!found) {
    throw new UsageError(
      `'${bucket}' in '${text}' must be <branch>.<repo>: two names of letters, digits, '_' and '-', e.g. master.images; an open commit's is <session>.<branch>.<repo>`,
    );
  }
  const fault = path === "" ? undefined : pathFault(path);
  if (fault) throw new UsageError(`the path in '${text}' can't be stored: ${PATH_FAULT_TEXT[fault]}`);
  const { repo, branch, session } = found;
  return session === undefined
    ? { repo, branch, bucket: bucketName(found), path }
    : { repo, branch, session, bucket: openCommitBucket({ repo, branch, session }), path };
}

/** An address that must name a file. */
export function parseFileAddress(text: string): Address {
  const address = parseAddress(text);
  if (address.path === "" || address.path.endsWith("/")) {
    throw new UsageError(`'${text}' must name a file: s3://<branch>.<repo>/<path>`);
  }
  return address;
}

/** An address that must name a bucket alone. */
export function parseBucketAddress(text: string): Address {
  const address = parseAddress(text);
  if (address.path !== "") throw new UsageError(`'${text}' must name a bucket alone: s3://<branch>.<repo>`);
  return address;
}

/** An address that must name the bucket of an open commit. */
export function parseOpenCommit(text: string): Required<Address> {
  const { session, ...address } = parseBucketAddress(text);
  if (session !== undefined) return { ...address, session };
  throw new UsageError(
    `'${text}' must be the bucket of an open commit, as 'sluice commit start' printed it: s3://<session>.<branch>.<repo>`,
  );
}

/** Refuses an open commit where something is said of a commit: none is made there. */
export function mustMakeCommit({ session, bucket }: Address): void {
  if (session === undefined) return;
  throw new UsageError(
    `--message and --meta are for a commit, and in an open commit none is made: give them to 'sluice commit finish ${SCHEME}${bucket}'`,
  );
}

/** For people. */
export function showAddress({ bucket }: Address, path: string): string {
  return `${SCHEME}${bucket}/${path}`;
}
