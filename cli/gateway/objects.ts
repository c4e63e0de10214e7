import type { Address } from "./address.ts";
import { type Listed, type ListedBucket, type ListedFile, parseBuckets, parseListing } from "./answers.ts";
import { type Answer, type Client, encodePath } from "./client.ts";

/** The S3 requests of the CLI. */

export interface ListRequest {
  readonly bucket: string;
  readonly prefix: string;
  /** "/" folds what lies deeper. */
  readonly delimiter?: "/";
}

/** Every page of a listing, as it comes. */
export async function* listPages(
  client: Client,
  { bucket, prefix, delimiter }: ListRequest,
): AsyncGenerator<Listed> {
  let token: string | undefined;
  do {
    const answer = await client.send({
      method: "GET",
      path: `/${bucket}`,
      query: { "list-type": "2", prefix, delimiter, "continuation-token": token },
    });
    const page = parseListing(await answer.body.text());
    yield page;
    token = page.next;
  } while (token !== undefined);
}

/** Every file and empty directory under a prefix; those in between have no entries of their own. */
export async function* listFiles(
  client: Client,
  request: Omit<ListRequest, "delimiter">,
): AsyncGenerator<ListedFile> {
  for await (const page of listPages(client, request)) yield* page.files;
}

/** The prefix of everything below a directory: "" is the root. */
export function directoryPrefix(path: string): string {
  return path === "" || path.endsWith("/") ? path : `${path}/`;
}

export async function listBuckets(client: Client): Promise<ListedBucket[]> {
  const answer = await client.send({ method: "GET", path: "/" });
  return parseBuckets(await answer.body.text());
}

export async function createBucket(client: Client, bucket: string): Promise<void> {
  const answer = await client.send({ method: "PUT", path: `/${bucket}` });
  await answer.body.dump();
}

export async function deleteBucket(client: Client, bucket: string): Promise<void> {
  const answer = await client.send({ method: "DELETE", path: `/${bucket}` });
  await answer.body.dump();
}

/** A file's bytes to come, at HEAD or at a commit. */
export function getFile(client: Client, address: Address, commit?: string): Promise<Answer> {
  return client.send({ method: "GET", path: objectPath(address), query: version(commit) });
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
  return {
    size: Number(header(answer, "content-length") ?? 0),
    etag: etagOf(answer),
    contentType: header(answer, "content-type"),
    modifiedAt: header(answer, "last-modified"),
    commit: header(answer, "x-amz-version-id"),
  };
}

export async function deleteFile(client: Client, address: Address): Promise<string | null> {
  const answer = await client.send({ method: "DELETE", path: objectPath(address) });
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

function objectPath({ bucket, path }: Address): string {
  return `/${bucket}/${encodePath(path)}`;
}

function version(commit: string | undefined): Record<string, string> {
  return commit === undefined ? {} : { versionId: commit };
}
