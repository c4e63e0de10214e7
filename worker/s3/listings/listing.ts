import type { FileList, ListEntry } from "../../branch/contract/files.ts";
import { S3Error } from "../answer/errors.ts";
import { accepted } from "../answer/failures.ts";
import { etag, isoDate, OWNER, STORAGE_CLASS } from "../answer/fields.ts";
import type { XmlTags } from "../answer/xml.ts";
import { existing } from "../bucket-tree.ts";
import { MAX_KEYS } from "../limits.ts";
import type { BucketRequest } from "../operation.ts";
import { wholeNumber } from "../request/query-values.ts";
import { encodeUriPath } from "../request/target.ts";

/**
 * What every listing asks for. No key begins with `/`, so that `prefix=/` finds nothing; `marker=/` is a marker like any
 * other and starts behind that byte.
 */
export interface ListingParameters {
  readonly prefix: string;
  readonly delimiter: "/" | undefined;
  readonly maxKeys: number;
  readonly encoding: KeyEncoding;
}

/** Reads them. Throws InvalidArgument. */
export function listingParameters({
  query,
  headers,
}: Pick<BucketRequest, "query" | "headers">): ListingParameters {
  checkOptionalAttributes(headers.get("x-amz-optional-object-attributes"));
  return {
    prefix: query.get("prefix") ?? "",
    delimiter: delimiterOf(query.get("delimiter")),
    maxKeys: wholeNumber(query, "max-keys", { min: 0, max: MAX_KEYS }),
    encoding: keyEncoding(query),
  };
}

/** One page after `after`. A page of no keys (`max-keys=0`) is never truncated, as on S3. */
export async function listPage(
  { tree, context }: Pick<BucketRequest, "tree" | "context">,
  { prefix, delimiter, maxKeys, after }: ListingParameters & { readonly after: string | undefined },
): Promise<FileList> {
  if (maxKeys === 0) {
    const { modifiedAt } = await existing(tree);
    return { ok: true, entries: [], truncated: false, next: null, modifiedAt };
  }
  const page = await tree.list({
    prefix,
    limit: maxKeys,
    modified: context.config.lastModified,
    ...(delimiter && { delimiter }),
    ...(after && { after }),
  });
  return accepted(page);
}

/** The tags that hold a page's entries. */
export function entryTags(
  { entries, modifiedAt }: FileList,
  { encoding, owner }: { encoding: KeyEncoding; owner: "with-owner" | "without-owner" },
): XmlTags {
  const branchTime = isoDate(modifiedAt);
  return {
    Contents: entries.filter(isFile).map((entry) => ({
      Key: encoding.key(entry.path),
      LastModified: entry.modifiedAt === undefined ? branchTime : isoDate(entry.modifiedAt),
      ETag: etag(entry),
      Size: entry.size,
      StorageClass: STORAGE_CLASS,
      Owner: owner === "with-owner" ? OWNER : undefined,
    })),
    CommonPrefixes: prefixTags(entries, encoding),
  };
}

/** The tags that hold a page's common prefixes. */
export function prefixTags(
  entries: readonly { readonly kind: string; readonly path: string }[],
  encoding: KeyEncoding,
): XmlTags[] {
  return entries.filter(({ kind }) => kind === "prefix").map(({ path }) => ({ Prefix: encoding.key(path) }));
}

function isFile(entry: ListEntry): entry is Exclude<ListEntry, { kind: "prefix" }> {
  return entry.kind !== "prefix";
}

/** Throws InvalidArgument for anything but `/` or nothing. */
export function delimiterOf(text: string | undefined): "/" | undefined {
  if (text === undefined || text === "") return undefined;
  if (text === "/") return text;
  throw new S3Error("InvalidArgument", { message: `delimiter is '${text}': only '/' delimits here.` });
}

/** It asks whether archived objects are being restored. None ever is, so that the answer is complete without it. */
function checkOptionalAttributes(text: string | undefined): void {
  if (text === undefined || text === "RestoreStatus") return;
  throw new S3Error("InvalidArgument", {
    message: `x-amz-optional-object-attributes is '${text}': it must be RestoreStatus, or absent.`,
  });
}

/** How keys go into an answer in XML. */
export interface KeyEncoding {
  /** `EncodingType` of the answer. */
  readonly type: "url" | undefined;
  readonly key: (key: string) => string;
}

/** What `encoding-type` asks for: keys as they are, or percent-encoded. Throws InvalidArgument. */
export function keyEncoding(query: ReadonlyMap<string, string>): KeyEncoding {
  const type = query.get("encoding-type");
  if (type === undefined) return { type, key: (key) => key };
  if (type === "url") return { type, key: encodeUriPath };
  throw new S3Error("InvalidArgument", {
    message: `encoding-type is '${type}': it must be 'url', or absent.`,
  });
}
