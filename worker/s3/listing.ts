import type { FileList, ListEntry } from "../branch/contract.ts";
import { S3Error } from "./errors.ts";
import { branchFailure } from "./failures.ts";
import { OWNER, STORAGE_CLASS } from "./filler.ts";
import { MAX_KEYS } from "./limits.ts";
import type { BucketRequest } from "./operation.ts";
import { wholeNumber } from "./query-values.ts";
import { etag } from "./select-object.ts";
import { encodeUriPath } from "./uri.ts";
import type { XmlTags } from "./xml.ts";

/** Query parameters of both versions of a listing. */
export const LISTING_QUERY = ["delimiter", "encoding-type", "max-keys", "prefix"];

/** What both versions of a listing ask for. */
export interface ListingParameters {
  readonly prefix: string;
  readonly delimiter: "/" | undefined;
  readonly maxKeys: number;
  readonly encodingType: "url" | undefined;
}

/** Reads them. Throws InvalidArgument. */
export function listingParameters(query: ReadonlyMap<string, string>): ListingParameters {
  return {
    prefix: query.get("prefix") ?? "",
    delimiter: delimiterOf(query.get("delimiter")),
    maxKeys: wholeNumber(query, "max-keys", { min: 0, max: MAX_KEYS, absent: MAX_KEYS }),
    encodingType: encodingTypeOf(query.get("encoding-type")),
  };
}

/** One page after `after`. Nobody is told of more after a page of no keys: S3 does the same. */
export async function listPage(
  branch: BucketRequest["branch"],
  { prefix, delimiter, maxKeys, after }: ListingParameters & { readonly after: string | undefined },
): Promise<FileList> {
  if (maxKeys === 0) {
    const status = await branch.status();
    if (!status.ok) throw branchFailure(status);
    return { ok: true, entries: [], truncated: false, next: null, modifiedAt: status.modifiedAt };
  }
  const page = await branch.list({
    prefix,
    limit: maxKeys,
    ...(delimiter && { delimiter }),
    ...(after && { after }),
  });
  if (!page.ok) throw branchFailure(page);
  return page;
}

/** How keys go into the answer: as they are, or percent-encoded. */
export function keyEncoder({ encodingType }: ListingParameters): (key: string) => string {
  return encodingType === "url" ? encodeUriPath : (key) => key;
}

/** The tags that hold a page's entries. */
export function entryTags(
  { entries, modifiedAt }: FileList,
  { encode, owner }: { encode: (key: string) => string; owner: "with-owner" | "without-owner" },
): XmlTags {
  const lastModified = new Date(modifiedAt).toISOString();
  return {
    Contents: entries.filter(isFile).map((entry) => ({
      Key: encode(entry.path),
      LastModified: lastModified,
      ETag: etag(entry),
      Size: entry.size,
      StorageClass: STORAGE_CLASS,
      Owner: owner === "with-owner" ? OWNER : undefined,
    })),
    CommonPrefixes: entries
      .filter((entry) => entry.kind === "prefix")
      .map((entry) => ({ Prefix: encode(entry.path) })),
  };
}

function isFile(entry: ListEntry): entry is Exclude<ListEntry, { kind: "prefix" }> {
  return entry.kind !== "prefix";
}

function delimiterOf(text: string | undefined): "/" | undefined {
  if (text === undefined || text === "") return undefined;
  if (text === "/") return text;
  throw new S3Error("InvalidArgument", { message: `delimiter is '${text}': only '/' delimits here.` });
}

function encodingTypeOf(text: string | undefined): "url" | undefined {
  if (text === undefined || text === "url") return text;
  throw new S3Error("InvalidArgument", {
    message: `encoding-type is '${text}': it must be 'url', or absent.`,
  });
}
