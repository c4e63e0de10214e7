import { uploadFailure } from "../failures.ts";
import { findOpenUpload } from "../multipart/find-upload.ts";
import type { Operation, UploadRequest } from "../operation.ts";

/** Ends an upload that will not be completed; its parts go. */
export const abortMultipartUpload: Operation<UploadRequest> = {
  permission: "write",
  query: ["uploadId"],

  async handle(request) {
    await findOpenUpload(request);
    const aborted = await request.branch.abortMultipart({ upload: request.uploadId });
    if (!aborted.ok) throw uploadFailure(aborted);
    return new Response(null, { status: 204 });
  },
};
