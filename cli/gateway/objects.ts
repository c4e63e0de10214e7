import { pipeline } from "node:stream/promises";
import type { Attributes } from "../../protocol/files.ts";
import { PATH_FAULT_TEXT, pathFault } from "../../protocol/paths.ts";
import { encodePath, type Query } from "../../protocol/requests.ts";
import { CliError, EXIT, errnoOf, systemText } from "../output/failure.ts";
import { type Address, showAddress } from "./address.ts";
import {
  type Listed,
  type ListedBucket,
  type ListedFile,
  type ListedVersion,
  type ListedVersions,
  parseBuckets,
  parseListing,
  parseS3Error,
  parseTagging,
  parseVersions,
} from "./answers.ts";
import { type Answer, type Client, GatewayError, pagesOf, unlessRefused } from "./client.ts";

/** The S3 requests of the CLI. */

export interface ListRequest {
  readonly bucket: string;
  readonly prefix: string;
  /** "/" folds what lies deeper. */
  readonly delimiter?: "/";
}

/**
 * One page of a listing: the first one, that behind a key, or that of a token. Its names become paths of this machine, so
 * they are checked here, again as the gateway did when they were written. Throws a CliError for one that no file can have.
 */
export async function listPage(
  client: Client,
  {
    bucket,
    prefix,
    delimiter,
    ...from
  }: ListRequest & { startAfter?: string | undefined; token?: string | undefined },
): Promise<Listed> {
  const text = await textAt(client, `/${bucket}`, {
    "list-type": "2",
    prefix,
    delimiter,
    "start-after": from.startAfter || undefined,
    "continuation-token": from.token,
  });
  const page = await parseListing(text);
  for (const path of [...page.files.map(({ path }) => path), ...page.prefixes]) checkListed(path, prefix);
  return page;
}

async function textAt(client: Client, path: string, query?: Query): Promise<string> {
  const answer = await client.send({ method: "GET", path, query });
  const text = await answer.body.text();
  client.mustBeNoPage(text);
  return text;
}

/** What is not below the prefix, and is cut as if it were, could begin with anything. */
function checkListed(path: string, prefix: string): void {
  const fault = pathFault(path);
  const why = fault ? PATH_FAULT_TEXT[fault] : `it was asked for what begins with ${JSON.stringify(prefix)}`;
  if (fault === undefined && path.startsWith(prefix)) return;
  throw new CliError(
    `the gateway lists ${JSON.stringify(path)}, which can't be a name there: ${why}. It is no Sluice gateway, or a hostile one`,
    { code: "ContractError" },
  );
}

/** Every page of a listing, as it comes. */
export function listPages(client: Client, request: ListRequest): AsyncGenerator<Listed> {
  return pagesOf((token) => listPage(client, { ...request, token }));
}

/** Every page of the versions that a branch keeps, deletions too: by path, the newest of a path first. Checked as listings are. */
export function versionPages(
  client: Client,
  { bucket, prefix, delimiter }: ListRequest,
): AsyncGenerator<ListedVersions> {
  return pagesOf(async (marker) => {
    const place = { "key-marker": marker?.path, "version-id-marker": marker?.version };
    const text = await textAt(client, `/${bucket}`, { versions: "", prefix, delimiter, ...place });
    const page = await parseVersions(text);
    for (const path of [...page.versions.map(({ path }) => path), ...page.prefixes])
      checkListed(path, prefix);
    return page;
  });
}

/** The versions of a file and of all that is below it, as of a folder; of the whole branch if the path is empty. */
export async function* versionsUnder(
  client: Client,
  { bucket, path }: Pick<Address, "bucket" | "path">,
): AsyncGenerator<ListedVersion> {
  if (path !== "" && !path.endsWith("/")) {
    yield* versionsOf(client, { bucket, path });
  }
  for await (const page of versionPages(client, { bucket, prefix: directoryPrefix(path) })) {
    yield* page.versions;
  }
}

/** Those of one path, which come before all others that begin with it. */
async function* versionsOf(
  client: Client,
  { bucket, path }: Pick<Address, "bucket" | "path">,
): AsyncGenerator<ListedVersion> {
  for await (const page of versionPages(client, { bucket, prefix: path })) {
    for (const version of page.versions) {
      if (version.path !== path) return;
      yield version;
    }
  }
}

/** Every file and empty directory under a prefix; those in between have no entries of their own. */
export async function* listFiles(
  client: Client,
  request: Omit<ListRequest, "delimiter">,
): AsyncGenerator<ListedFile> {
  for await (const page of listPages(client, request)) yield* page.files;
}

/**
 * What a bucket has at these paths, by path. Asks for pages of the listing and leaves out the stretches between them in which
 * nothing is wanted, so that a few paths in a bucket of millions cost a few pages.
 */
export async function existingFiles(
  client: Client,
  { bucket, paths }: { bucket: string; paths: readonly string[] },
): Promise<Map<string, ListedFile>> {
  const found = new Map<string, ListedFile>();
  const wanted = new Set(paths);
  let left = [...wanted].toSorted(byBytes);
  let startAfter: string | undefined = before(left[0] ?? "");
  let token: string | undefined;
  while (left.length > 0) {
    const page = await listPage(client, { bucket, prefix: "", startAfter, token });
    for (const file of page.files) if (wanted.has(file.path)) found.set(file.path, file);
    if (page.next === undefined) break;
    const last = page.files.at(-1)?.path;
    left = last === undefined ? left : left.filter((path) => byBytes(path, last) > 0);
    const next = before(left[0] ?? "");
    const leaps = last !== undefined && byBytes(next, last) > 0;
    [startAfter, token] = leaps ? [next, undefined] : [undefined, page.next];
  }
  return found;
}

/** The order of listings: by the bytes of the path. */
export function byBytes(one: string, other: string): number {
  return Buffer.compare(Buffer.from(one), Buffer.from(other));
}

/** A text that is in front of a path, with little in between. */
function before(path: string): string {
  return [...path].slice(0, -1).join("");
}

/** The prefix of everything below a directory: "" is the root. */
export function directoryPrefix(path: string): string {
  return path === "" || path.endsWith("/") ? path : `${path}/`;
}

export async function listBuckets(client: Client): Promise<ListedBucket[]> {
  return parseBuckets(await textAt(client, "/"));
}

/** Makes a bucket, if a region is named to live there. */
export async function createBucket(client: Client, bucket: string, region?: string): Promise<void> {
  const text = region === undefined ? undefined : located(region);
  const answer = await client.send({ method: "PUT", path: `/${bucket}`, text });
  await answer.body.dump();
}

function located(region: string): string {
  const escaped = region.replace(/[&<>]/g, (sign) => `&#${sign.charCodeAt(0)};`);
  return `<CreateBucketConfiguration><LocationConstraint>${escaped}</LocationConstraint></CreateBucketConfiguration>`;
}

/** Makes a bucket unless it is there. */
export async function ensureBucket(client: Client, bucket: string): Promise<void> {
  await unlessRefused(createBucket(client, bucket), "BucketAlreadyOwnedByYou");
}

/** Whether something failed since the bucket is not there. */
export function isNoBucket(error: unknown): boolean {
  return error instanceof GatewayError && ["NoSuchBucket", "NoSuchBranch"].includes(error.code);
}

/** Whether lifecycle rules may let files of a bucket go: it has some, or the key may not see whether it has. */
export async function mayExpire(client: Client, bucket: string): Promise<boolean> {
  try {
    return (await unlessRefused(textAt(client, `/${bucket}`, { lifecycle: "" }), 404)) !== undefined;
  } catch (error) {
    if (error instanceof GatewayError && error.status === 403) return true;
    throw error;
  }
}

/** A file's bytes to come, at HEAD or at a commit. */
export function getFile(client: Client, address: Address, commit?: string): Promise<Answer> {
  return client.send({ method: "GET", path: objectPath(address), query: version(commit) });
}

/** Writes a file's bytes to stdout. Throws a CliError if they break off, so that nobody takes a part for the whole. */
export async function printFile(client: Client, address: Address, commit?: string): Promise<void> {
  const answer = await getFile(client, address, commit);
  try {
    await pipeline(answer.body, process.stdout, { end: false });
  } catch (error) {
    // A fault of stdout has ended the program already.
    throw brokeOff(address, error);
  }
}

/** The bytes of a file came to no end, since the connection failed. */
export function brokeOff(address: Address, error: unknown, code = errnoOf(error) ?? "BrokeOff"): CliError {
  const message = `${showAddress(address, address.path)} broke off: ${systemText(error)}`;
  return new CliError(message, { code, exitCode: EXIT.unreachable });
}

export interface FileInfo {
  readonly size: number;
  readonly etag: string;
  readonly contentType: string | null;
  readonly modifiedAt: string | null;
  readonly commit: string | null;
}

/** What is known about a file, without its bytes. */
export async function headFile(client: Client, address: Address, commit?: string): Promise<FileInfo> {
  const answer = await client.send({ method: "HEAD", path: objectPath(address), query: version(commit) });
  await answer.body.dump();
  const modified = header(answer, "last-modified");
  return {
    size: Number(header(answer, "content-length") ?? 0),
    etag: etagOf(answer),
    contentType: header(answer, "content-type"),
    modifiedAt: modified === null ? null : new Date(modified).toISOString(),
    commit: header(answer, "x-amz-version-id"),
  };
}

/** The headers of a file's answer by which what is kept beside its bytes is put again. */
const ATTRIBUTE_HEADERS = {
  contentType: "content-type",
  cacheControl: "cache-control",
  contentDisposition: "content-disposition",
  contentEncoding: "content-encoding",
  contentLanguage: "content-language",
  expires: "expires",
} as const;
const META = "x-amz-meta-";

/** What is kept with a file beside its bytes. */
export async function readAttributes(client: Client, address: Address): Promise<Attributes> {
  const answer = await client.send({ method: "HEAD", path: objectPath(address) });
  await answer.body.dump();
  const kept = Object.entries(ATTRIBUTE_HEADERS).flatMap(([name, from]) => {
    const value = header(answer, from);
    return value === null ? [] : [[name, value] as const];
  });
  const metadata = Object.keys(answer.headers)
    .filter((name) => name.startsWith(META))
    .map((name) => [name.slice(META.length), header(answer, name) ?? ""] as const);
  const isTagged = header(answer, "x-amz-tagging-count") !== null;
  const tags = isTagged ? await parseTagging(await textAt(client, objectPath(address), { tagging: "" })) : [];
  return {
    ...Object.fromEntries(kept),
    ...(tags.length > 0 && { tags }),
    ...(metadata.length > 0 && { metadata: Object.fromEntries(metadata) }),
  };
}

/** Copies a file inside the gateway, with what is kept beside its bytes. Returns the commit, or null if it was staged. */
export async function copyFile(
  client: Client,
  { from, to, ifMatch }: { from: Address; to: Address; ifMatch?: string },
): Promise<string | null> {
  const answer = await client.send({
    method: "PUT",
    path: objectPath(to),
    headers: {
      "x-amz-copy-source": objectPath(from).slice(1),
      ...(ifMatch !== undefined && { "x-amz-copy-source-if-match": `"${ifMatch}"` }),
    },
  });
  // A copy that fails in its middle is told in the body of a good answer.
  const text = await answer.body.text();
  if (text.includes("<Error>")) throw new CliError((await parseS3Error(500, text)).message);
  return header(answer, "x-amz-version-id");
}

/** Deletes a file; with `ifMatch` only if it still has the content of that ETag. */
export async function deleteFile(
  client: Client,
  address: Address,
  { ifMatch }: { ifMatch?: string } = {},
): Promise<string | null> {
  const headers = ifMatch === undefined ? {} : { "if-match": `"${ifMatch}"` };
  const answer = await client.send({ method: "DELETE", path: objectPath(address), headers });
  await answer.body.dump();
  return header(answer, "x-amz-version-id");
}

/** An answer's ETag without its quotes: `<digest>-<size>`. */
export function etagOf(answer: Answer): string {
  return (header(answer, "etag") ?? "").replaceAll('"', "");
}

function header(answer: Answer, name: string): string | null {
  const value = answer.headers[name];
  return typeof value === "string" ? value : null;
}

/** The path of a file in S3's API. */
export function objectPath({ bucket, path }: Address): string {
  return `/${bucket}/${encodePath(path)}`;
}

function version(commit: string | undefined): Record<string, string> {
  return commit === undefined ? {} : { versionId: commit };
}
