import { BroughtBlobs } from "../../blobs/brought-blobs.ts";
import type { Content } from "../../blobs/content.ts";
import type { Checksum } from "../../core/checksums.ts";
import { s3Error } from "../answer/errors.ts";
import { accepted } from "../answer/failures.ts";
import { checksumHeader, etag, versionHeader } from "../answer/fields.ts";
import { type OpenBody, openBody } from "../body/open-body.ts";
import { storeBody } from "../body/read-body.ts";
import { UploadLease } from "../body/upload-lease.ts";
import type { ObjectRequest, Operation } from "../operation.ts";
import { readAnnotation } from "../request/annotation.ts";
import { askedAlgorithm } from "../request/checksum-kind.ts";
import { writeCondition } from "../request/conditions.ts";
import { checkEncryption } from "../request/encryption.ts";
import { checkAcl, readAttributes } from "./attributes.ts";

/**
 * Bytes first, name second: a crash in between leaves blobs of an upload that never commits, and never a name that
 * points at nothing. The PUT is one commit. Its conditions are checked when it commits, so that no other write can come
 * in between.
 */
export const putObject: Operation<ObjectRequest> = {
  permission: "write",
  tellsEncryption: true,

  async handle(request) {
    return new Response(null, { headers: await writeObject(request, { openBody: () => openBody(request) }) });
  },
};

interface ObjectToWrite {
  /** Called once the headers are read. */
  readonly openBody: () => OpenBody;
  /** Called when the bytes are there, and before they get a name: throws if they must not. */
  readonly check?: (content: Content) => void;
}

/** Makes an object out of a request's headers and a body. Returns the headers of the answer. */
export async function writeObject(
  request: ObjectRequest,
  { openBody, check }: ObjectToWrite,
): Promise<Record<string, string>> {
  const { headers, tree, key, now } = request;
  const attributes = readAttributes(headers, key);
  const condition = writeCondition(headers);
  const annotation = readAnnotation(request);
  checkEncryption(request);
  await checkAcl(request);
  const body = openBody();
  const algorithm = body.checksum ?? askedAlgorithm(headers);
  checkSize(key, body);
  const lease = new UploadLease(request);
  const blobs = new BroughtBlobs(request.context.blobs);
  try {
    const written = await storeBody(body, {
      store: blobs,
      ...lease.callbacks,
      ...(algorithm && { checksum: algorithm }),
      now,
    });
    const { content, upload, checksum: value } = written;
    const has = algorithm !== undefined && value !== null;
    const checksum: Checksum | undefined = has ? { algorithm, type: "FULL_OBJECT", value } : undefined;
    refuseDirectoryBytes(key, content);
    check?.(content);
    const file = {
      path: key,
      content,
      attributes: checksum ? { ...attributes, checksum } : attributes,
      ...(upload !== null && { upload }),
      ...(condition && { condition }),
      annotation,
    };
    const put = accepted(await blobs.handOver(() => tree.put(file)));
    const version = await versionHeader(request, { path: key, content, commit: put.commit });
    return { ...contentHeaders(content, checksum), ...version };
  } catch (error) {
    await lease.abort({ leaves: !(await blobs.discard()) });
    throw error;
  }
}

function contentHeaders(content: Content, checksum: Checksum | undefined): Record<string, string> {
  const headers: Record<string, string> = { etag: etag(content) };
  if (checksum) {
    headers[checksumHeader(checksum.algorithm)] = checksum.value;
    headers["x-amz-checksum-type"] = checksum.type;
  }
  return headers;
}

/** A body has a length, or comes in chunks until it ends. Throws MissingContentLength if it has neither. */
function checkSize(key: string, { declaredSize, source }: OpenBody): void {
  if (declaredSize !== undefined) refuseDirectoryBytes(key, { size: declaredSize });
  else if (source === null) throw s3Error.MissingContentLength();
}

function refuseDirectoryBytes(key: string, { size }: { readonly size: number }): void {
  if (key.endsWith("/") && size > 0) {
    throw s3Error.InvalidArgument(
      `The key '${key}' ends in '/', which makes an empty directory: send no body, or drop the slash.`,
    );
  }
}
