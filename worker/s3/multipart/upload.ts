import { parseUploadId } from "../../../protocol/names.ts";
import { BroughtBlobs } from "../../blobs/brought-blobs.ts";
import type { MultipartStatus, PartList } from "../../branch/contract/multipart.ts";
import { UPLOAD_LEASE_MS } from "../../branch/contract/uploads.ts";
import { s3Error } from "../answer/errors.ts";
import { accepted, acceptedOfUpload } from "../answer/failures.ts";
import { checksumHeader, checksumTag, etag, isoDate, OWNER, STORAGE_CLASS } from "../answer/fields.ts";
import { type XmlTags, xmlAnswer } from "../answer/xml.ts";
import { type OpenBody, openBody } from "../body/open-body.ts";
import { storeBody } from "../body/read-body.ts";
import { keyEncoding } from "../buckets/list-objects.ts";
import { MAX_PAGE_ENTRIES, MAX_PART_NUMBER } from "../limits.ts";
import { checkAcl, readAttributes } from "../objects/attributes.ts";
import type { ObjectRequest, Operation, UploadRequest } from "../operation.ts";
import { readAnnotation } from "../request/annotation.ts";
import { askedKind } from "../request/checksum-kind.ts";
import { checkEncryption } from "../request/encryption.ts";
import { partNumberOf, wholeNumber } from "../request/query-values.ts";

/** Begins an upload in parts. The object's attributes, and what is said of its commit, are kept until it is completed. */
export const createMultipartUpload: Operation<ObjectRequest> = {
  permission: "write",
  tellsEncryption: true,

  async handle(request) {
    const { tree, bucket, key, headers, context } = request;
    const attributes = readAttributes(headers, key);
    const checksum = askedKind(headers);
    const annotation = readAnnotation(request);
    checkDirective(headers.get("x-amz-metadata-directive"));
    if (key.endsWith("/")) {
      throw s3Error.InvalidArgument(
        `The key '${key}' ends in '/', which makes an empty directory: put it without a body, or drop the slash.`,
      );
    }
    checkEncryption(request);
    await checkAcl(request);
    const opened = await tree.createMultipart({
      path: key,
      attributes,
      ...(checksum && { checksum }),
      ttlMs: context.config.uploadTtlMs,
      annotation,
    });
    const kind = checksum && {
      "x-amz-checksum-algorithm": checksum.algorithm,
      "x-amz-checksum-type": checksum.type,
    };
    const tags = { Bucket: bucket, Key: key, UploadId: accepted(opened).upload };
    return xmlAnswer("InitiateMultipartUploadResult", tags, { headers: kind });
  },
};

/** s3fs sends REPLACE when it begins a copy in parts. That means the metadata of this request, which counts anyway. */
function checkDirective(directive: string | undefined): void {
  if (directive === undefined || directive === "REPLACE") return;
  throw s3Error.InvalidArgument(
    `x-amz-metadata-directive is '${directive}': an upload in parts has no source whose metadata could be copied, leave it out.`,
  );
}

/** Takes in one part. Bytes first, row second, as with PutObject. If it fails, the earlier part of its number stays. */
export const uploadPart: Operation<UploadRequest> = {
  permission: "write",
  tellsEncryption: true,

  async handle(request) {
    const number = partNumberOf(request.query);
    const body = openBody(request);
    if (body.source === null && body.declaredSize === undefined) throw s3Error.MissingContentLength();
    const upload = await findOpenUpload(request);
    checkAlgorithm(body, upload);
    return await BroughtBlobs.during(request.context.blobs, async (blobs) => {
      const { content, checksum } = await storeBody(body, {
        store: blobs,
        ...openedUpload(request, upload),
        inline: "never",
        ...(upload.checksum && { checksum: upload.checksum.algorithm }),
        now: request.now,
      });
      const part = { upload: request.uploadId, number, content, ...(checksum !== null && { checksum }) };
      acceptedOfUpload(await blobs.handOver(() => request.branch.multipart.addPart(part)));
      const headers: Record<string, string> = { etag: etag(content) };
      // The answer has the checksum only if the upload has one: only then it is kept.
      if (upload.checksum && checksum !== null) headers[checksumHeader(upload.checksum.algorithm)] = checksum;
      return new Response(null, { headers });
    });
  },
};

/** An upload without an algorithm takes parts with any: their checksums are checked, and not kept. */
function checkAlgorithm({ checksum }: OpenBody, upload: MultipartStatus): void {
  const algorithm = upload.checksum?.algorithm;
  if (checksum === undefined || algorithm === undefined || checksum === algorithm) return;
  throw s3Error.InvalidRequest(
    `The part comes with a ${checksum}, but the upload was begun for ${algorithm}: send ${checksumHeader(algorithm)}, or none.`,
  );
}

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
    // A page of no parts is never truncated, as with listings of keys.
    const page: Omit<PartList, "ok"> =
      limit === 0
        ? { ...begun, parts: [], truncated: false }
        : acceptedOfUpload(await request.branch.multipart.parts({ upload, after, limit }));
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

function describePart(part: PartList["parts"][number], { checksum }: Pick<PartList, "checksum">): XmlTags {
  return {
    PartNumber: part.number,
    LastModified: isoDate(part.modifiedAt),
    ETag: etag(part),
    Size: part.size,
    ...(checksum && { [checksumTag(checksum.algorithm)]: part.checksum ?? undefined }),
  };
}

/** Ends an upload that will not be completed, and drops its parts. */
export const abortMultipartUpload: Operation<UploadRequest> = {
  permission: "write",

  async handle(request) {
    await findOpenUpload(request);
    acceptedOfUpload(await request.branch.multipart.abort({ upload: request.uploadId }));
    return new Response(null, { status: 204 });
  },
};

const ULID = /\.[0-9A-HJKMNP-TV-Z]{26}$/;

/**
 * The multipart upload that a request names, also one that was completed lately. Throws NoSuchUpload if the bucket has no
 * such upload, or if the path has another key than the upload.
 */
export async function findUpload(request: UploadRequest): Promise<MultipartStatus> {
  const upload = uploadIdOf(request);
  const status = acceptedOfUpload(await request.branch.multipart.status({ upload }));
  const isHere = status.completed !== null || status.openCommit === request.address.view;
  if (!isHere) throw s3Error.NoSuchUpload();
  checkKey(request.key, status.path);
  return status;
}

/** The same, but throws NoSuchUpload also if the upload is no longer in progress. */
export async function findOpenUpload(request: UploadRequest): Promise<MultipartStatus> {
  const status = await findUpload(request);
  if (status.completed !== null) throw s3Error.NoSuchUpload();
  return status;
}

/** The upload's id. Throws NoSuchUpload if it is not an upload of the bucket's branch. */
function uploadIdOf({
  query,
  uploadId,
  address,
}: Pick<UploadRequest, "query" | "uploadId" | "address">): string {
  if (!query.has("uploadId")) {
    throw s3Error.InvalidArgument(
      "uploadId is missing: give the id that CreateMultipartUpload answered, beside partNumber.",
    );
  }
  const named = ULID.test(uploadId) ? parseUploadId(uploadId) : undefined;
  if (named?.repo !== address.repo || named.branch !== address.branch) throw s3Error.NoSuchUpload();
  return uploadId;
}

/** The upload as `writeContent` asks for one: it is open already, and is renewed while bytes come. */
export function openedUpload(
  { branch, uploadId }: Pick<UploadRequest, "branch" | "uploadId">,
  { uid }: Pick<MultipartStatus, "uid">,
) {
  return {
    openUpload: async () => ({ upload: uploadId, uid }),
    async renewUpload(): Promise<void> {
      acceptedOfUpload(await branch.uploads.renew({ upload: uploadId }));
    },
    uploadLeaseMs: UPLOAD_LEASE_MS,
  };
}

/** Throws NoSuchUpload if the path has a key that is not the upload's. */
function checkKey(key: string | undefined, uploadPath: string): void {
  if (key !== undefined && key !== uploadPath) {
    throw s3Error.NoSuchUpload(
      `The multipart upload is none of the key '${key}': give the key that it was begun with, or none.`,
    );
  }
}
