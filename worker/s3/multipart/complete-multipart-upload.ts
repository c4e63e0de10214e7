import { BroughtBlobs } from "../../blobs/brought-blobs.ts";
import type { Annotation } from "../../branch/contract/answers.ts";
import type { WriteCondition } from "../../branch/contract/files.ts";
import type { Completed, MultipartStatus, Part } from "../../branch/contract/multipart.ts";
import type { Checksum, ChecksumAlgorithm } from "../../core/checksums.ts";
import { S3Error } from "../answer/errors.ts";
import { acceptedOfUpload } from "../answer/failures.ts";
import { checksumTags, etag } from "../answer/fields.ts";
import { versionHeader } from "../answer/version.ts";
import { xmlAnswer } from "../answer/xml.ts";
import { readTextBody } from "../body/read-body.ts";
import { MAX_COMPLETE_XML_BYTES } from "../limits.ts";
import type { Operation, UploadRequest } from "../operation.ts";
import { readAnnotation } from "../request/annotation.ts";
import { writeCondition } from "../request/conditions.ts";
import { encodeUriPath } from "../request/target.ts";
import { composeParts, layoutOf } from "./compose-parts.ts";
import { findUpload } from "./find-upload.ts";
import { matchParts, parseCompletion } from "./named-parts.ts";
import {
  bodyHeaders,
  type ClaimedChecksum,
  checkClaim,
  checksumOfParts,
  claimedChecksum,
} from "./object-checksum.ts";

const MP_OBJECT_SIZE = "x-amz-mp-object-size";

/**
 * Makes one object out of parts, in one commit. No byte is copied: the object's chunks are those of its parts. Bytes are
 * read again, to be hashed, only if parts do not end on leaves of the whole. A client that asks again because the answer
 * got lost gets the same answer.
 */
export const completeMultipartUpload: Operation<UploadRequest> = {
  permission: "write",
  tellsEncryption: true,
  mayTakeLong: true,

  async handle(request) {
    const { headers } = request;
    const condition = writeCondition(headers);
    const annotation = readAnnotation(request);
    const size = expectedSize(headers);
    const named = parseCompletion(
      await readTextBody({ ...request, headers: bodyHeaders(headers) }, MAX_COMPLETE_XML_BYTES),
    );
    const status = await findUpload(request);
    const claim = claimedChecksum(headers, status);
    if (status.completed) return await answer(request, status.completed);
    const parts = await matchParts(request.branch, {
      upload: request.uploadId,
      algorithm: status.checksum?.algorithm,
      named,
    });
    checkSize(parts, size);
    return await answer(request, await makeObject(request, { status, parts, claim, condition, annotation }));
  },
};

interface ObjectInParts {
  readonly status: MultipartStatus;
  readonly parts: readonly Part[];
  readonly claim: ClaimedChecksum | undefined;
  readonly condition: WriteCondition | undefined;
  readonly annotation: Annotation;
}

async function makeObject(
  request: Pick<UploadRequest, "branch" | "uploadId" | "context">,
  { status, parts, claim, condition, annotation }: ObjectInParts,
): Promise<Completed> {
  const { branch, uploadId } = request;
  const ofParts = checksumOfParts(status, parts);
  checkClaim(claim, ofParts);
  // If the parts have no checksum, a claimed one is computed, which reads every byte.
  const algorithm = ofParts === undefined ? claim?.algorithm : undefined;
  const blobs = new BroughtBlobs(request.context.blobs);
  try {
    const { content, checksum: value } = await composeParts(request, { status, parts, blobs, algorithm });
    const checksum = ofParts ?? fullChecksum(algorithm, value);
    checkClaim(claim, checksum);
    const object = {
      upload: uploadId,
      parts: parts.map(({ number, digest, size }) => ({ number, digest, size })),
      content,
      attributes: { ...(checksum && { checksum }), parts: layoutOf(parts, checksum) },
      ...(condition && { condition }),
      annotation,
    };
    return acceptedOfUpload(await blobs.handOver(() => branch.multipart.complete(object)));
  } catch (error) {
    await blobs.discard();
    throw error;
  }
}

function fullChecksum(algorithm: ChecksumAlgorithm | undefined, value: string | null): Checksum | undefined {
  return algorithm === undefined || value === null ? undefined : { algorithm, type: "FULL_OBJECT", value };
}

function expectedSize(headers: ReadonlyMap<string, string>): number | undefined {
  const text = headers.get(MP_OBJECT_SIZE)?.trim();
  if (text === undefined) return undefined;
  if (/^[0-9]{1,15}$/.test(text)) return Number(text);
  throw new S3Error("InvalidRequest", {
    message: `${MP_OBJECT_SIZE} is '${text}': it must be the number of bytes of the object.`,
  });
}

function checkSize(parts: readonly Part[], expected: number | undefined): void {
  if (expected === undefined) return;
  const size = parts.reduce((sum, part) => sum + part.size, 0);
  if (size === expected) return;
  throw new S3Error("InvalidRequest", {
    message: `${MP_OBJECT_SIZE} is ${expected}, but the parts named have ${size} bytes together: list the parts.`,
  });
}

async function answer(request: UploadRequest, completed: Completed) {
  const { bucket, key, resource } = request;
  const { path, checksum, commit } = completed;
  const tags = {
    Location: key === undefined ? `${resource.replace(/\/$/, "")}/${encodeUriPath(path)}` : resource,
    Bucket: bucket,
    Key: path,
    ETag: etag(completed),
    ...(checksum && checksumTags(checksum)),
  };
  const version = await versionHeader(request, { path, content: completed, commit });
  return xmlAnswer("CompleteMultipartUploadResult", tags, { headers: version });
}
