import { type Address, showAddress } from "../../gateway/address.ts";
import type { ListedFile } from "../../gateway/answers.ts";
import { type Client, unlessRefused } from "../../gateway/client.ts";
import { directoryPrefix, headFile, listFiles } from "../../gateway/objects.ts";
import { CliError } from "../../output/failure.ts";
import { hasWildcard, literalPrefix, wildcard } from "./wildcard.ts";

/** A file or an empty directory of a bucket that a command line named, by itself or by what is above it. */
export interface RemoteFile {
  readonly from: Address;
  readonly size: number;
  readonly etag: string;
  /** Its path below the folder that it is copied to. */
  readonly name: string;
}

/** What a command line names in buckets. */
export interface RemoteSources {
  readonly sources: readonly Address[];
  readonly recursive: boolean;
}

/** Whether it is more than one file by its looks: then it goes to a folder, each file under its own name. */
export function isSeveral({ sources }: RemoteSources): boolean {
  return sources.length > 1 || sources.some(({ path }) => hasWildcard(path));
}

/**
 * Every file that is named. A source that is a folder gives what is in it, if it is the only one, and comes with its own name
 * if there are others. Throws a CliError for a source that names nothing.
 */
export async function* remoteFiles(client: Client, named: RemoteSources): AsyncGenerator<RemoteFile> {
  const several = isSeveral(named);
  for (const source of named.sources) {
    let found = 0;
    for await (const file of filesOf(client, { source, recursive: named.recursive, several })) {
      found++;
      yield file;
    }
    if (found === 0) throw nothingAt(source, named.recursive ? "" : "; a folder is named with -r");
  }
}

interface Source {
  readonly source: Address;
  readonly recursive: boolean;
  readonly several: boolean;
}

async function* filesOf(client: Client, { source, recursive, several }: Source): AsyncGenerator<RemoteFile> {
  const { path } = source;
  const isFolder = path === "" || path.endsWith("/");
  // A path may have the characters of patterns: it is looked for as it stands first.
  const exact = isFolder || (recursive && !hasWildcard(path)) ? undefined : await found(client, source);
  if (exact) yield exact;
  else if (hasWildcard(path)) yield* matching(client, { source, recursive });
  else if (recursive) {
    const prefix = directoryPrefix(path);
    const into = several ? directoryPrefix(lastName(path)) : "";
    let any = false;
    for await (const file of listFiles(client, { bucket: source.bucket, prefix })) {
      any = true;
      yield remoteFile(source, { file, name: into + file.path.slice(prefix.length) });
    }
    const file = any || isFolder ? undefined : await found(client, source);
    if (file) yield file;
  }
}

async function* matching(
  client: Client,
  { source, recursive }: Omit<Source, "several">,
): AsyncGenerator<RemoteFile> {
  const pattern = wildcard(source.path.replace(/\/$/, ""));
  const prefix = literalPrefix(source.path);
  for await (const file of listFiles(client, { bucket: source.bucket, prefix })) {
    const names = file.path.replace(/\/$/, "").split("/");
    // The file itself, or with -r the first folder above it that matches.
    for (let depth = recursive ? 1 : names.length; depth <= names.length; depth++) {
      if (!pattern.test(names.slice(0, depth).join("/"))) continue;
      if (depth === names.length && file.path.endsWith("/") && !recursive) continue;
      yield remoteFile(source, {
        file,
        name: file.path
          .split("/")
          .slice(depth - 1)
          .join("/"),
      });
      break;
    }
  }
}

async function found(client: Client, source: Address): Promise<RemoteFile | undefined> {
  // What is not there has no words in the answer to HEAD: a bucket that is not there is told by the listing.
  const info = await unlessRefused(headFile(client, source), 404);
  return info && { from: source, size: info.size, etag: info.etag, name: lastName(source.path) };
}

function remoteFile(
  source: Address,
  { file: { path, size, etag }, name }: { file: ListedFile; name: string },
): RemoteFile {
  return { from: { ...source, path }, size, etag, name };
}

/** That an address names nothing, and what may be meant. */
export function nothingAt(source: Address, hint = ""): CliError {
  const message = `there is nothing at ${showAddress(source, source.path)}${hint}`;
  return new CliError(message, { code: "NoSuchKey" });
}

function lastName(path: string): string {
  return path.replace(/\/$/, "").split("/").at(-1) ?? "";
}
