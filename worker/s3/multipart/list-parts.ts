import type { MultipartStatus, PartList } from "../../branch/contract/multipart.ts";
import { acceptedOfUpload } from "../answer/failures.ts";
import { checksumTag, etag, isoDate, OWNER, STORAGE_CLASS } from "../answer/fields.ts";
import { type XmlTags, xmlAnswer } from "../answer/xml.ts";
import { MAX_PAGE_ENTRIES, MAX_PART_NUMBER } from "../limits.ts";
import { keyEncoding } from "../listings/listing.ts";
import type { Operation, UploadRequest } from "../operation.ts";
import { wholeNumber } from "../request/query-values.ts";
import { findOpenUpload, uploadIdOf } from "./find-upload.ts";

/** The parts of an upload in progress, page by page. */
export const listParts: Operation<UploadRequest> = {
  permission: "list",
  ofWrites: true,

  async handle(request) {
    const { query, bucket } = request;
    const upload = uploadIdOf(request);
    const after = wholeNumber(query, "part-number-marker", { min: 0, max: MAX_PART_NUMBER, absent: 0 });
    const limit = wholeNumber(query, "max-parts", { min: 0, max: MAX_PAGE_ENTRIES });
    const encode = keyEncoding(query);
    const begun = await findOpenUpload(request);
    const listed =
      limit === 0 ? emptyPage(begun) : await request.branch.multipart.parts({ upload, after, limit });
    const page = acceptedOfUpload(listed);
    return xmlAnswer("ListPartsResult", {
      Bucket: bucket,
      Key: encode.key(page.path),
      UploadId: upload,
      Initiator: OWNER,
      Owner: OWNER,
      StorageClass: STORAGE_CLASS,
      PartNumberMarker: after,
      NextPartNumberMarker: page.truncated ? page.parts.at(-1)?.number : undefined,
      MaxParts: limit,
      EncodingType: encode.type,
      IsTruncated: page.truncated,
      ChecksumAlgorithm: page.checksum?.algorithm,
      ChecksumType: page.checksum?.type,
      Part: page.parts.map((part) => describePart(part, page)),
    });
  },
};

/** A page of no parts is never truncated, as with listings of keys. */
function emptyPage({ path, initiatedAt, checksum }: MultipartStatus): PartList {
  return { ok: true, path, initiatedAt, checksum, parts: [], truncated: false };
}

function describePart(part: PartList["parts"][number], { checksum }: PartList): XmlTags {
  return {
    PartNumber: part.number,
    LastModified: isoDate(part.modifiedAt),
    ETag: etag(part),
    Size: part.size,
    ...(checksum && { [checksumTag(checksum.algorithm)]: part.checksum ?? undefined }),
  };
}
