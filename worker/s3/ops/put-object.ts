import type { Content } from "../../blobs/content.ts";
import { writeContent } from "../../blobs/write-content.ts";
import { readAttributes } from "../attributes.ts";
import { contentMd5, declaredSize } from "../body-headers.ts";
import { S3Error } from "../errors.ts";
import { branchFailure, writeFailure } from "../failures.ts";
import { BODY_IDLE_MS } from "../limits.ts";
import type { ObjectRequest, Operation } from "../operation.ts";
import { etag } from "../select-object.ts";
import { UploadLease } from "../upload-lease.ts";

/**
 * Bytes first, name second: a crash in between leaves blobs of an upload that never commits, and never a name
 * that points at nothing. The PUT is one commit.
 */
export const putObject: Operation<ObjectRequest> = {
  permission: "write",
  takes: ["x-amz-meta-*", "x-amz-acl", "x-amz-storage-class"],
  refuses: [
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "expires",
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
  ],

  async handle(request) {
    const { headers, body, branch, key, caller, context, now } = request;
    const attributes = readAttributes(headers);
    const md5 = contentMd5(headers);
    const size = announcedSize(request);
    const sha256 = caller.bodySha256;
    const lease = new UploadLease(branch);
    try {
      const written = await writeContent(body, {
        store: context.blobs,
        ...lease.callbacks,
        ...(size === undefined ? {} : { declaredSize: size }),
        expect: { ...(md5 && { md5 }), ...(sha256 !== null && { sha256 }) },
        now,
        idleMs: BODY_IDLE_MS,
      });
      if (!written.ok) throw writeFailure(written.reason);
      const { content, upload } = written;
      refuseDirectoryBytes(key, content);
      const put = await branch.put({ path: key, content, attributes, ...(upload !== null && { upload }) });
      if (!put.ok) throw branchFailure(put);
      return new Response(null, { headers: answerHeaders(content, put.commit) });
    } catch (error) {
      await lease.abort();
      throw error;
    }
  },
};

/** Null where nothing changed: then there is no version of this PUT. */
function answerHeaders(content: Content, commit: string | null): Record<string, string> {
  return commit === null ? { etag: etag(content) } : { etag: etag(content), "x-amz-version-id": commit };
}

/** Content-Length; undefined for a chunked body. Throws where there is neither. */
function announcedSize({ headers, body, key }: ObjectRequest): number | undefined {
  const size = declaredSize(headers);
  if (size === undefined && body === null) throw new S3Error("MissingContentLength");
  if (size !== undefined) refuseDirectoryBytes(key, { size });
  return size;
}

function refuseDirectoryBytes(key: string, { size }: { readonly size: number }): void {
  if (key.endsWith("/") && size > 0) {
    throw new S3Error("InvalidArgument", {
      message: `The key '${key}' ends in '/', which makes an empty directory: send no body, or drop the slash.`,
    });
  }
}
