import { type Commit, CommitPage } from "../../protocol/commits.ts";
import { type BranchAddress, bucketName, CommitName } from "../../protocol/names.ts";
import { encodePath } from "../../protocol/requests.ts";
import { CliError, UsageError } from "../output/failure.ts";
import { showTime } from "../output/output.ts";
import {
  type Address,
  branchPath,
  isAddress,
  parseAddress,
  parseBucketAddress,
  viewText,
} from "./address.ts";
import type { Client } from "./client.ts";

/** Reads the address of a branch, or of a file in it, with or without `s3://`. */
function parseBranchAddress(text: string): Address {
  const address = parseAddress(isAddress(text) ? text : `s3://${text}`);
  if (address.view === undefined) return address;
  throw new UsageError(
    `'${text}' is ${viewText(address.view)}, which has no history: name s3://${bucketName(address)}`,
  );
}

/** Reads the address of a branch alone. */
export function parseBranch(text: string): Address {
  const address = parseBranchAddress(text);
  if (address.path === "") return address;
  throw new UsageError(`'${text}' must name a branch alone: <branch>.<repo>`);
}

/** A branch, and a commit of it by its id or tag if one is named. */
export interface CommitAddress extends Address {
  readonly commit?: string;
}

/** Reads `<branch>.<repo>[@<commit or tag>]`, with or without `s3://`. */
export function parseCommitAddress(text: string): CommitAddress {
  const at = text.indexOf("@");
  if (at < 0) return parseBranch(text);
  const commit = CommitName.safeParse(text.slice(at + 1));
  if (!commit.success) {
    throw new UsageError(`what is behind '@' in '${text}' must be the id of a commit, or a tag`);
  }
  return { ...parseBranch(text.slice(0, at)), commit: commit.data };
}

/** Reads `<branch>.<repo>[@<commit or tag>]`, or the bucket of a commit or a tag, with or without `s3://`. */
export function parseCommitBucket(text: string): CommitAddress {
  if (text.includes("@")) return parseCommitAddress(text);
  const { view, ...address } = parseBucketAddress(text);
  return view === undefined ? address : { ...address, bucket: bucketName(address), commit: view };
}

/** Reads `<branch>.<repo>[@<commit or tag>][/<path>]`, with or without `s3://`. */
export function parseCommitFile(text: string): CommitAddress {
  const [, bucket = "", path = ""] = /^((?:s3:\/\/)?[^/]*)(.*)$/s.exec(text) ?? [];
  const { commit } = parseCommitAddress(bucket);
  const address = parseBranchAddress(`${bucket.replace(/@.*/s, "")}${path}`);
  return commit === undefined ? address : { ...address, commit };
}

/** Path of a branch's commits in the control API. */
export function commitsPath({ repo, branch }: BranchAddress): string {
  return `${branchPath({ repo, branch })}/commits`;
}

/** Path of one of a branch's tags in the control API. */
export function tagPath({ repo, branch }: BranchAddress, tag: string): string {
  return `${branchPath({ repo, branch })}/tags/${encodePath(tag)}`;
}

/** The newest commit of the branch. */
export async function headCommit(client: Client, address: Address): Promise<string> {
  const { commits } = await client.get(CommitPage, commitsPath(address), { limit: "1" });
  if (commits[0]) return commits[0].id;
  throw new CliError(`s3://${address.bucket} has no commit yet`, { code: "NoSuchCommit" });
}

/** What a commit did, in words. */
export function showChanges({ changes: { written, ended } }: Pick<Commit, "changes">): string {
  return `${written} written, ${ended} replaced or deleted`;
}

/** Whether anything was said of a commit. */
export function isSaid({ message, meta }: Pick<Commit, "message" | "meta">): boolean {
  return message !== null || Object.keys(meta).length > 0;
}

/** What is known of a commit beside its files. */
export type CommitWords = Pick<Commit, "key" | "message" | "meta" | "redacted" | "imported">;

/** Who made a commit and what they said of it, a line each; those that it has. */
export function annotationLines({ key, message, meta, redacted, imported }: CommitWords): string[] {
  return [
    ...(key === null ? [] : [`key       ${key}`]),
    ...(message === null ? [] : [`message   ${message}`]),
    ...Object.entries(meta).map(([name, value]) => `meta      ${name}=${value}`),
    ...(redacted ? [`redacted  ${showTime(redacted.at)} by ${redacted.by}`] : []),
    ...(imported ? ["imported  yes: an archive says this of it"] : []),
  ];
}
