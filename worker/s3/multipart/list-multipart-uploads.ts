import type { ListMultiparts, MultipartList } from "../../branch/contract.ts";
import { S3Error } from "../answer/errors.ts";
import { branchFailure } from "../answer/failures.ts";
import { isoDate, OWNER, STORAGE_CLASS } from "../answer/fields.ts";
import { xmlAnswer } from "../answer/xml.ts";
import { existing } from "../bucket-tree.ts";
import { MAX_PAGE_ENTRIES } from "../limits.ts";
import { keyEncoding } from "../listings/key-encoding.ts";
import type { BucketRequest, Operation } from "../operation.ts";
import { wholeNumber } from "../request/query-values.ts";

type Upload = MultipartList["uploads"][number];

/** Uploads in progress, by key and then by age, page by page. `delimiter` is not supported. */
export const listMultipartUploads: Operation<BucketRequest> = {
  permission: "list",
  ofWrites: true,

  async handle({ tree, bucket, query }) {
    refuseDelimiter(query.get("delimiter"));
    const limit = wholeNumber(query, "max-uploads", { min: 0, max: MAX_PAGE_ENTRIES });
    const prefix = query.get("prefix") ?? "";
    const after = markerOf(query);
    const encode = keyEncoding(query);
    const page = await pageOf(tree, { prefix, limit, ...(after && { after }) });
    const last = page.truncated ? page.uploads.at(-1) : undefined;
    return xmlAnswer("ListMultipartUploadsResult", {
      Bucket: bucket,
      KeyMarker: encode.key(after?.path ?? ""),
      UploadIdMarker: after?.upload ?? "",
      NextKeyMarker: last && encode.key(last.path),
      NextUploadIdMarker: last?.upload,
      Prefix: encode.key(prefix),
      EncodingType: encode.type,
      MaxUploads: limit,
      IsTruncated: page.truncated,
      Upload: page.uploads.map((upload) => describeUpload(upload, encode.key)),
    });
  },
};

function refuseDelimiter(delimiter: string | undefined): void {
  // Clients that offer the parameter send it empty if it is not set.
  if (delimiter === undefined || delimiter === "") return;
  throw new S3Error("InvalidArgument", {
    message: `delimiter is '${delimiter}': the list of multipart uploads has none, leave it out and give a prefix.`,
  });
}

/** An upload-id-marker says nothing without a key-marker (S3's ListMultipartUploads). */
function markerOf(query: ReadonlyMap<string, string>): ListMultiparts["after"] {
  const path = query.get("key-marker");
  const upload = query.get("upload-id-marker");
  if (!path) return undefined;
  return upload ? { path, upload } : { path };
}

/** A page of no uploads is never truncated, as with listings of keys. */
async function pageOf(tree: BucketRequest["tree"], asked: ListMultiparts): Promise<MultipartList> {
  if (asked.limit === 0) {
    await existing(tree);
    return { ok: true, uploads: [], truncated: false };
  }
  const page = await tree.listMultiparts(asked);
  if (!page.ok) throw branchFailure(page);
  return page;
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
