import { bucketName, parseBucketName } from "../protocol/names.ts";
import { PATH_FAULT_TEXT, pathFault } from "../protocol/paths.ts";
import { UsageError } from "./failure.ts";

/** A place in a branch: `s3://<branch>.<repo>/<path>`. The path may be empty, and may end in `/`. */
export interface Address {
  readonly repo: string;
  readonly branch: string;
  readonly bucket: string;
  readonly path: string;
}

const SCHEME = "s3://";

export function isAddress(text: string): boolean {
  return text.startsWith(SCHEME);
}

/** Reads `s3://<branch>.<repo>[/<path>]`; a UsageError says what is wrong with it. */
export function parseAddress(text: string): Address {
  if (!isAddress(text)) throw new UsageError(`'${text}' must be s3://<branch>.<repo>/<path>`);
  const rest = text.slice(SCHEME.length);
  const slash = rest.indexOf("/");
  const bucket = slash < 0 ? rest : rest.slice(0, slash);
  const path = slash < 0 ? "" : rest.slice(slash + 1);
  const branch = parseBucketName(bucket);
  if (!branch) {
    throw new UsageError(
      `'${bucket}' in '${text}' must be <branch>.<repo>: two names of letters, digits, '_' and '-', e.g. master.images`,
    );
  }
  const fault = path === "" ? undefined : pathFault(path);
  if (fault) throw new UsageError(`the path in '${text}' can't be stored: ${PATH_FAULT_TEXT[fault]}`);
  return { ...branch, bucket: bucketName(branch), path };
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

/** For people. */
export function showAddress({ bucket }: Address, path: string): string {
  return `${SCHEME}${bucket}/${path}`;
}
