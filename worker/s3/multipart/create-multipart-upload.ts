import { S3Error } from "../answer/errors.ts";
import { accepted } from "../answer/failures.ts";
import { xmlAnswer } from "../answer/xml.ts";
import { checkAcl } from "../objects/acl.ts";
import { readAttributes } from "../objects/attributes.ts";
import type { ObjectRequest, Operation } from "../operation.ts";
import { readAnnotation } from "../request/annotation.ts";
import { askedKind } from "../request/checksum-kind.ts";
import { checkEncryption } from "../request/encryption.ts";

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
      throw new S3Error("InvalidArgument", {
        message: `The key '${key}' ends in '/', which makes an empty directory: put it without a body, or drop the slash.`,
      });
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
  throw new S3Error("InvalidArgument", {
    message: `x-amz-metadata-directive is '${directive}': an upload in parts has no source whose metadata could be copied, leave it out.`,
  });
}
