import type { FileList, VersionEntry, VersionList, VersionMark } from "../../branch/contract/files.ts";
import { s3Error } from "../answer/errors.ts";
import { accepted } from "../answer/failures.ts";
import { etag, isoDate, OWNER, STORAGE_CLASS } from "../answer/fields.ts";
import { type XmlTags, xmlAnswer } from "../answer/xml.ts";
import { existing } from "../bucket-tree.ts";
import { MAX_KEYS } from "../limits.ts";
import type { BucketRequest, Operation } from "../operation.ts";
import { decodeToken, encodeToken, wholeNumber } from "../request/query-values.ts";
import { encodeUriPath } from "../request/target.ts";

/** Version 1 of a listing. NextMarker is set without a delimiter, too; S3 leaves it out then. */
export const listObjects: Operation<BucketRequest> = {
  permission: "list",
  unsigned: true,

  async handle(request) {
    const { bucket, query } = request;
    const asked = listingParameters(request);
    const marker = query.get("marker") ?? "";
    const page = await listPage(request, { ...asked, after: marker });
    const { encoding } = asked;
    return xmlAnswer("ListBucketResult", {
      Name: bucket,
      Prefix: encoding.key(asked.prefix),
      Marker: encoding.key(marker),
      NextMarker: page.next === null ? undefined : encoding.key(page.next),
      MaxKeys: asked.maxKeys,
      Delimiter: asked.delimiter,
      EncodingType: encoding.type,
      IsTruncated: page.truncated,
      ...entryTags(page, { encoding, owner: "with-owner" }),
    });
  },
};

/** Version 2 of a listing: the one that today's clients ask for. */
export const listObjectsV2: Operation<BucketRequest> = {
  permission: "list",
  unsigned: true,

  async handle(request) {
    const { bucket, query } = request;
    const asked = listingParameters(request);
    const token = query.get("continuation-token");
    const startAfter = query.get("start-after");
    // An empty token is a first page, as on S3: clients that have none send it empty.
    const after = token ? decodeToken(token) : startAfter;
    const page = await listPage(request, { ...asked, after });
    const { encoding } = asked;
    return xmlAnswer("ListBucketResult", {
      Name: bucket,
      Prefix: encoding.key(asked.prefix),
      StartAfter: startAfter === undefined ? undefined : encoding.key(startAfter),
      ContinuationToken: token,
      NextContinuationToken: page.next === null ? undefined : encodeToken(page.next),
      KeyCount: page.entries.length,
      MaxKeys: asked.maxKeys,
      Delimiter: asked.delimiter,
      EncodingType: encoding.type,
      IsTruncated: page.truncated,
      ...entryTags(page, {
        encoding,
        owner: query.get("fetch-owner") === "true" ? "with-owner" : "without-owner",
      }),
    });
  },
};

/** Every version of every key, a deletion being one too, the newest of a key first. The id of a version is its commit's. */
export const listObjectVersions: Operation<BucketRequest> = {
  permission: "list",
  notOnView:
    "The bucket of an open commit, a commit or a tag has no versions: list those of the branch's own bucket.",

  async handle(request) {
    const { bucket, query } = request;
    const asked = listingParameters(request);
    const after = markOf(query);
    const page = await listVersions(request, { ...asked, after });
    const { encoding } = asked;
    const head = {
      Name: bucket,
      Prefix: encoding.key(asked.prefix),
      KeyMarker: encoding.key(after?.path ?? ""),
      VersionIdMarker: after?.version ?? "",
      NextKeyMarker: page.next === null ? undefined : encoding.key(page.next.path),
      NextVersionIdMarker: page.next?.version,
      MaxKeys: asked.maxKeys,
      Delimiter: asked.delimiter,
      EncodingType: encoding.type,
      IsTruncated: page.truncated,
    };
    const versions = page.entries
      .filter((entry) => entry.kind !== "prefix")
      .map((entry) => versionTags(entry, encoding));
    const prefixes = { CommonPrefixes: prefixTags(page.entries, encoding) };
    return xmlAnswer("ListVersionsResult", [head, ...versions, prefixes]);
  },
};

/** An empty marker counts as absent: older clients begin with both of them empty. */
function markOf(query: ReadonlyMap<string, string>): VersionMark | undefined {
  const path = query.get("key-marker");
  const version = query.get("version-id-marker");
  if (path) return version ? { path, version } : { path };
  if (!version) return undefined;
  throw s3Error.InvalidArgument(
    `version-id-marker is '${version}', but key-marker is missing: give both as the page before had them.`,
  );
}

async function listVersions(
  { tree, branch, context }: Pick<BucketRequest, "tree" | "branch" | "context">,
  { prefix, delimiter, maxKeys, after }: ListingParameters & { readonly after: VersionMark | undefined },
): Promise<VersionList> {
  if (maxKeys === 0) {
    await existing(tree);
    return { ok: true, entries: [], truncated: false, next: null };
  }
  const asked = { prefix, limit: maxKeys, ...(delimiter && { delimiter }), ...(after && { after }) };
  const shared = tree.shared?.page({ of: "versions", ...asked });
  context.event.read = shared ? "memory" : "call";
  return shared ?? accepted(await branch.files.versions(asked));
}

function versionTags(entry: Exclude<VersionEntry, { kind: "prefix" }>, encoding: KeyEncoding): XmlTags {
  const said = {
    Key: encoding.key(entry.path),
    VersionId: entry.version,
    IsLatest: entry.latest,
    LastModified: isoDate(entry.modifiedAt),
  };
  if (entry.kind === "deletion") return { DeleteMarker: { ...said, Owner: OWNER } };
  return {
    Version: {
      ...said,
      ETag: etag(entry),
      ChecksumAlgorithm: entry.checksum?.algorithm,
      ChecksumType: entry.checksum?.type,
      Size: entry.size,
      StorageClass: STORAGE_CLASS,
      Owner: OWNER,
    },
  };
}

/** What every listing asks for. No key begins with `/`: `prefix=/` finds nothing; `marker=/` is one like any other. */
interface ListingParameters {
  readonly prefix: string;
  readonly delimiter: "/" | undefined;
  readonly maxKeys: number;
  readonly encoding: KeyEncoding;
}

/** Reads them. Throws InvalidArgument. */
function listingParameters({ query, headers }: Pick<BucketRequest, "query" | "headers">): ListingParameters {
  checkOptionalAttributes(headers.get("x-amz-optional-object-attributes"));
  return {
    prefix: query.get("prefix") ?? "",
    delimiter: delimiterOf(query.get("delimiter")),
    maxKeys: wholeNumber(query, "max-keys", { min: 0, max: MAX_KEYS }),
    encoding: keyEncoding(query),
  };
}

/** One page after `after`. A page of no keys (`max-keys=0`) is never truncated, as on S3. */
async function listPage(
  { tree, context }: Pick<BucketRequest, "tree" | "context">,
  { prefix, delimiter, maxKeys, after }: ListingParameters & { readonly after: string | undefined },
): Promise<FileList> {
  if (maxKeys === 0) {
    const { modifiedAt } = await existing(tree);
    return { ok: true, entries: [], truncated: false, next: null, modifiedAt };
  }
  const modified = context.config.lastModified;
  const asked = {
    ...{ prefix, limit: maxKeys, modified },
    ...(delimiter && { delimiter }),
    ...(after && { after }),
  };
  const shared = tree.shared?.page({ of: "files", ...asked });
  context.event.read = shared ? "memory" : "call";
  return shared ?? accepted(await tree.list(asked));
}

/** The tags that hold a page's entries. */
function entryTags(
  { entries, modifiedAt }: FileList,
  { encoding, owner }: { encoding: KeyEncoding; owner: "with-owner" | "without-owner" },
): XmlTags {
  const branchTime = isoDate(modifiedAt);
  return {
    Contents: entries
      .filter((entry) => entry.kind !== "prefix")
      .map((entry) => ({
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
function prefixTags(
  entries: readonly { readonly kind: string; readonly path: string }[],
  encoding: KeyEncoding,
): XmlTags[] {
  return entries.filter(({ kind }) => kind === "prefix").map(({ path }) => ({ Prefix: encoding.key(path) }));
}

/** Throws InvalidArgument for anything but `/` or nothing. */
export function delimiterOf(text: string | undefined): "/" | undefined {
  if (text === undefined || text === "") return undefined;
  if (text === "/") return text;
  throw s3Error.InvalidArgument(`delimiter is '${text}': only '/' delimits here.`);
}

/** It asks whether archived objects are being restored. None ever is, so that the answer is complete without it. */
function checkOptionalAttributes(text: string | undefined): void {
  if (text === undefined || text === "RestoreStatus") return;
  throw s3Error.InvalidArgument(
    `x-amz-optional-object-attributes is '${text}': it must be RestoreStatus, or absent.`,
  );
}

/** How keys go into an answer in XML. */
interface KeyEncoding {
  /** `EncodingType` of the answer. */
  readonly type: "url" | undefined;
  readonly key: (key: string) => string;
}

/** What `encoding-type` asks for: keys as they are, or percent-encoded. Throws InvalidArgument. */
export function keyEncoding(query: ReadonlyMap<string, string>): KeyEncoding {
  const type = query.get("encoding-type");
  if (type === undefined) return { type, key: (key) => key };
  if (type === "url") return { type, key: encodeUriPath };
  throw s3Error.InvalidArgument(`encoding-type is '${type}': it must be 'url', or absent.`);
}
