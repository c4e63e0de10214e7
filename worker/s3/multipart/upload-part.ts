import { BroughtBlobs } from "../../blobs/brought-blobs.ts";
import type { MultipartStatus } from "../../branch/contract/multipart.ts";
import { S3Error } from "../answer/errors.ts";
import { acceptedOfUpload } from "../answer/failures.ts";
import { checksumHeader, etag } from "../answer/fields.ts";
import { type OpenBody, openBody } from "../body/open-body.ts";
import { storeBody } from "../body/read-body.ts";
import type { Operation, UploadRequest } from "../operation.ts";
import { partNumberOf } from "../request/query-values.ts";
import { findOpenUpload, openedUpload } from "./find-upload.ts";

/** Takes in one part. Bytes first, row second, as with PutObject. If it fails, the earlier part of its number stays. */
export const uploadPart: Operation<UploadRequest> = {
  permission: "write",
  tellsEncryption: true,

  async handle(request) {
    const number = partNumberOf(request.query);
    const body = openBody(request);
    if (body.source === null && body.declaredSize === undefined) throw new S3Error("MissingContentLength");
    const upload = await findOpenUpload(request);
    checkAlgorithm(body, upload);
    const blobs = new BroughtBlobs(request.context.blobs);
    try {
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
    } catch (error) {
      await blobs.discard();
      throw error;
    }
  },
};

/** An upload without an algorithm takes parts with any: their checksums are checked, and not kept. */
function checkAlgorithm({ checksum }: OpenBody, upload: MultipartStatus): void {
  const algorithm = upload.checksum?.algorithm;
  if (checksum === undefined || algorithm === undefined || checksum === algorithm) return;
  throw new S3Error("InvalidRequest", {
    message: `The part comes with a ${checksum}, but the upload was begun for ${algorithm}: send ${checksumHeader(algorithm)}, or none.`,
  });
}
