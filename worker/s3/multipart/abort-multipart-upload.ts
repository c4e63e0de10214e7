import { acceptedOfUpload } from "../answer/failures.ts";
import type { Operation, UploadRequest } from "../operation.ts";
import { findOpenUpload } from "./find-upload.ts";

/** Ends an upload that will not be completed, and drops its parts. */
export const abortMultipartUpload: Operation<UploadRequest> = {
  permission: "write",

  async handle(request) {
    await findOpenUpload(request);
    acceptedOfUpload(await request.branch.multipart.abort({ upload: request.uploadId }));
    return new Response(null, { status: 204 });
  },
};
