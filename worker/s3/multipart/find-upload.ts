import { parseUploadId } from "../../../protocol/names.ts";
import type { MultipartStatus } from "../../branch/contract.ts";
import { S3Error } from "../answer/errors.ts";
import { uploadFailure } from "../answer/failures.ts";
import { MAX_PART_NUMBER } from "../limits.ts";
import type { UploadRequest } from "../operation.ts";

const ULID = /\.[0-9A-HJKMNP-TV-Z]{26}$/;

/**
 * The multipart upload that a request names, also one that was completed lately. Throws NoSuchUpload for what is no
 * upload of the bucket, and where the path has another key than the upload.
 */
export async function findUpload(request: UploadRequest): Promise<MultipartStatus> {
  const upload = uploadIdOf(request);
  const status = await request.branch.multipart({ upload });
  if (!status.ok) throw uploadFailure(status);
  const isHere = status.completed !== null || status.openCommit === request.address.session;
  if (!isHere) throw new S3Error("NoSuchUpload");
  checkKey(request, status);
  return status;
}

/** The same, where it is still in progress. */
export async function findOpenUpload(request: UploadRequest): Promise<MultipartStatus> {
  const status = await findUpload(request);
  if (status.completed !== null) throw new S3Error("NoSuchUpload");
  return status;
}

/** The upload's id, once it is known to be one of the bucket. Throws NoSuchUpload. */
export function uploadIdOf({ query, uploadId, address }: UploadRequest): string {
  if (!query.has("uploadId")) {
    throw new S3Error("InvalidArgument", {
      message: "uploadId is missing: give the id that CreateMultipartUpload answered, beside partNumber.",
    });
  }
  const named = ULID.test(uploadId) ? parseUploadId(uploadId) : undefined;
  if (named?.repo !== address.repo || named.branch !== address.branch) throw new S3Error("NoSuchUpload");
  return uploadId;
}

/** Throws NoSuchUpload where the path has a key that is not the upload's. */
function checkKey({ key }: UploadRequest, upload: { readonly path: string }): void {
  if (key !== undefined && key !== upload.path) {
    throw new S3Error("NoSuchUpload", {
      message: `The multipart upload is none of the key '${key}': give the key that it was begun with, or none.`,
    });
  }
}

/** The part that a request names. Throws InvalidArgument, also where it names none. */
export function partNumberOf({ query }: Pick<UploadRequest, "query">): number {
  const text = query.get("partNumber");
  const number = text !== undefined && /^[0-9]{1,5}$/.test(text) ? Number(text) : 0;
  if (number >= 1 && number <= MAX_PART_NUMBER) return number;
  const said = text === undefined ? "partNumber is missing" : `partNumber is '${text}'`;
  throw new S3Error("InvalidArgument", {
    message: `${said}: part numbers are whole numbers from 1 to ${MAX_PART_NUMBER}, inclusive.`,
  });
}
