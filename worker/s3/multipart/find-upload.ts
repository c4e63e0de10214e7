import { parseUploadId } from "../../../protocol/names.ts";
import type { MultipartStatus } from "../../branch/contract/multipart.ts";
import { UPLOAD_LEASE_MS } from "../../branch/contract/uploads.ts";
import { S3Error } from "../answer/errors.ts";
import { acceptedOfUpload } from "../answer/failures.ts";
import type { UploadRequest } from "../operation.ts";

const ULID = /\.[0-9A-HJKMNP-TV-Z]{26}$/;

/**
 * The multipart upload that a request names, also one that was completed lately. Throws NoSuchUpload if the bucket has no
 * such upload, or if the path has another key than the upload.
 */
export async function findUpload(request: UploadRequest): Promise<MultipartStatus> {
  const upload = uploadIdOf(request);
  const status = acceptedOfUpload(await request.branch.multipart.status({ upload }));
  const isHere = status.completed !== null || status.openCommit === request.address.view;
  if (!isHere) throw new S3Error("NoSuchUpload");
  checkKey(request.key, status.path);
  return status;
}

/** The same, but throws NoSuchUpload also if the upload is no longer in progress. */
export async function findOpenUpload(request: UploadRequest): Promise<MultipartStatus> {
  const status = await findUpload(request);
  if (status.completed !== null) throw new S3Error("NoSuchUpload");
  return status;
}

/** The upload's id. Throws NoSuchUpload if it is not an upload of the bucket's branch. */
export function uploadIdOf({
  query,
  uploadId,
  address,
}: Pick<UploadRequest, "query" | "uploadId" | "address">): string {
  if (!query.has("uploadId")) {
    throw new S3Error("InvalidArgument", {
      message: "uploadId is missing: give the id that CreateMultipartUpload answered, beside partNumber.",
    });
  }
  const named = ULID.test(uploadId) ? parseUploadId(uploadId) : undefined;
  if (named?.repo !== address.repo || named.branch !== address.branch) throw new S3Error("NoSuchUpload");
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
    throw new S3Error("NoSuchUpload", {
      message: `The multipart upload is none of the key '${key}': give the key that it was begun with, or none.`,
    });
  }
}
