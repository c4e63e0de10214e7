import { MAX_PATH_BYTES } from "../../../protocol/paths.ts";
import type { ListMultiparts, MultipartList } from "../../branch/contract/multipart.ts";
import { accepted } from "../answer/failures.ts";
import { isoDate, OWNER, STORAGE_CLASS } from "../answer/fields.ts";
import { xmlAnswer } from "../answer/xml.ts";
import { existing } from "../bucket-tree.ts";
import { delimiterOf, keyEncoding } from "../buckets/list-objects.ts";
import { MAX_PAGE_ENTRIES } from "../limits.ts";
import type { BucketRequest, Operation } from "../operation.ts";
import { wholeNumber } from "../request/query-values.ts";

type Upload = MultipartList["uploads"][number];

/** Uploads in progress, by key and then by age, page by page; with a delimiter those of a directory as one CommonPrefix. */
export const listMultipartUploads: Operation<BucketRequest> = {
  permission: "list",
  ofWrites: true,

  async handle({ tree, bucket, query }) {
    const delimiter = delimiterOf(query.get("delimiter"));
    const limit = wholeNumber(query, "max-uploads", { min: 0, max: MAX_PAGE_ENTRIES });
    const prefix = query.get("prefix") ?? "";
    const after = markerOf(query);
    const encode = keyEncoding(query);
    const page = await pageOf(tree, { prefix, limit, delimiter, ...(after && { after }) });
    const { next } = page;
    return xmlAnswer("ListMultipartUploadsResult", {
      Bucket: bucket,
      KeyMarker: encode.key(after?.path ?? ""),
      UploadIdMarker: after?.upload ?? "",
      NextKeyMarker: next && encode.key(next.path),
      NextUploadIdMarker: next?.upload,
      Prefix: encode.key(prefix),
      Delimiter: delimiter,
      EncodingType: encode.type,
      MaxUploads: limit,
      IsTruncated: next !== undefined,
      Upload: page.uploads.map((upload) => describeUpload(upload, encode.key)),
      CommonPrefixes: page.prefixes.map((path) => ({ Prefix: encode.key(path) })),
    });
  },
};

/** An upload-id-marker says nothing without a key-marker (S3's ListMultipartUploads). */
function markerOf(query: ReadonlyMap<string, string>): ListMultiparts["after"] {
  const path = query.get("key-marker");
  const upload = query.get("upload-id-marker");
  if (!path) return undefined;
  return upload ? { path, upload } : { path };
}

interface Page {
  readonly uploads: readonly Upload[];
  /** Of keys that go on behind the delimiter. */
  readonly prefixes: readonly string[];
  /** What the next page begins after; undefined if this is the last one. */
  readonly next: After | undefined;
}

type After = NonNullable<ListMultiparts["after"]>;

/** Calls of one page to the branch: each skips a directory, of which a page could have as many as entries. */
const MAX_CALLS = 50;
/** No key of a directory comes after its name with this behind it. */
const HIGHEST = "\u{10ffff}".repeat(MAX_PATH_BYTES / 4);

type Asked = ListMultiparts & { readonly delimiter: string | undefined };

/** A page of no uploads is never truncated, as with listings of keys. */
async function pageOf(tree: BucketRequest["tree"], asked: Asked): Promise<Page> {
  if (asked.limit > 0) return await fullPage(tree, asked);
  await existing(tree);
  return { uploads: [], prefixes: [], next: undefined };
}

async function fullPage(tree: BucketRequest["tree"], asked: Asked): Promise<Page> {
  const { prefix, limit, after } = asked;
  const page = { uploads: [] as Upload[], prefixes: [] as string[], next: after };
  // The name of a directory as a marker was given for all of it.
  let at = after && directoryOf(after.path, asked) === after.path ? behind(after, asked) : after;
  for (let call = 0; call < MAX_CALLS; call++) {
    const room = limit - page.uploads.length - page.prefixes.length;
    // When the page is full, one more tells whether there are more.
    const found = accepted(
      await tree.listMultiparts({ prefix, limit: Math.max(room, 1), ...(at && { after: at }) }),
    );
    const last = found.uploads.at(-1);
    if (last === undefined) return { ...page, next: undefined };
    if (room === 0) break;
    for (const upload of found.uploads) page.next = entered(upload, page, directoryOf(upload.path, asked));
    if (!found.truncated) return { ...page, next: undefined };
    at = behind({ path: last.path, upload: last.upload }, asked);
  }
  return page;
}

/** Adds an upload, or its directory once. Returns the marker of what the page then ends with. */
function entered(upload: Upload, page: { uploads: Upload[]; prefixes: string[] }, directory?: string): After {
  if (directory === undefined) {
    page.uploads.push(upload);
    return { path: upload.path, upload: upload.upload };
  }
  if (directory !== page.prefixes.at(-1)) page.prefixes.push(directory);
  return { path: directory };
}

/** The part of a key up to the delimiter behind the prefix; undefined if there is none. */
function directoryOf(
  path: string,
  { prefix, delimiter }: Pick<Asked, "prefix" | "delimiter">,
): string | undefined {
  if (delimiter === undefined || !path.startsWith(prefix)) return undefined;
  const end = path.indexOf(delimiter, prefix.length);
  return end === -1 ? undefined : path.slice(0, end + 1);
}

/** What comes next after an upload: after all of its directory, if it is in one. */
function behind(place: After, asked: Asked): After {
  const directory = directoryOf(place.path, asked);
  return directory === undefined ? place : { path: `${directory}${HIGHEST}` };
}

function describeUpload({ upload, path, initiatedAt, checksum }: Upload, encode: (key: string) => string) {
  return {
    Key: encode(path),
    UploadId: upload,
    Initiator: OWNER,
    Owner: OWNER,
    StorageClass: STORAGE_CLASS,
    Initiated: isoDate(initiatedAt),
    ChecksumAlgorithm: checksum?.algorithm,
    ChecksumType: checksum?.type,
  };
}
