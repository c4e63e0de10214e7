import { guessContentType } from "../../../protocol/content-types.ts";
import { byteSource } from "../../blobs/body-reader.ts";
import { BroughtBlobs } from "../../blobs/brought-blobs.ts";
import type { Content } from "../../blobs/content.ts";
import { createChecksum } from "../../blobs/hash/checksum-hasher.ts";
import type { BlobStore } from "../../blobs/port.ts";
import { type ContentToRead, readContent } from "../../blobs/read/read-content.ts";
import type { Annotation } from "../../branch/contract/answers.ts";
import type { Committed, StoredAttributes, WriteCondition } from "../../branch/contract/files.ts";
import { encodeBase64 } from "../../core/base64.ts";
import type { Checksum, ChecksumAlgorithm } from "../../core/checksums.ts";
import { type S3Error, s3Error } from "../answer/errors.ts";
import { accepted } from "../answer/failures.ts";
import { checksumTags, etag, isoDate, versionHeader } from "../answer/fields.ts";
import { xmlAnswer } from "../answer/xml.ts";
import { UploadLease } from "../body/upload-lease.ts";
import { checkAcl, readAttributes } from "../objects/attributes.ts";
import { readTags } from "../objects/tag-set.ts";
import type { ObjectRequest, Operation } from "../operation.ts";
import { readAnnotation } from "../request/annotation.ts";
import { askedAlgorithm } from "../request/checksum-kind.ts";
import { writeCondition } from "../request/conditions.ts";
import { checkEncryption, ENCRYPTION } from "../request/encryption.ts";
import { type CopySource, copyBytes, openSource, sourceVersion } from "./copy-source.ts";

/**
 * One commit. Inside a branch no byte is read, unless another checksum is asked for. From another branch bytes are
 * copied, unless this branch has them already. A copy keeps the layout of the parts that its source was made of, and its
 * tags, unless the request has others.
 */
export const copyObject: Operation<ObjectRequest> = {
  permission: "write",
  tellsEncryption: true,
  mayTakeLong: true,

  async handle(request) {
    const { headers } = request;
    const directive = directiveOf(headers, "x-amz-metadata-directive");
    const tagging = directiveOf(headers, "x-amz-tagging-directive");
    const tags = readTags(headers);
    if (tags && tagging === "COPY") throw unusedTags();
    const algorithm = askedAlgorithm(headers);
    const condition = writeCondition(headers);
    const annotation = readAnnotation(request);
    checkEncryption(request);
    await checkAcl(request);
    const source = await openSource(request);
    if (directive === "COPY" && tagging === "COPY" && algorithm === undefined)
      refuseNoChange(request, source);
    const copied = await copiedAttributes(request, { source, directive, algorithm });
    const attributes = { ...copied, tags: tagging === "REPLACE" ? tags : source.file.attributes.tags };
    const copy = { source, attributes, ...(condition && { condition }), annotation };
    await request.context.blobs.admit?.();
    const done = await (source.place === "same-branch" ? refer(request, copy) : bring(request, copy));
    return await answer(request, { ...copy, done });
  },
};

type Directive = "COPY" | "REPLACE";

function directiveOf(headers: ReadonlyMap<string, string>, name: string): Directive {
  const directive = headers.get(name) ?? "COPY";
  if (directive === "COPY" || directive === "REPLACE") return directive;
  throw s3Error.InvalidArgument(`${name} is '${directive}': it must be COPY or REPLACE.`);
}

/** S3 passes over them. They would be lost in silence. */
function unusedTags(): S3Error {
  return s3Error.InvalidRequest(
    "x-amz-tagging names tags, but the copy is to have those of its source: send x-amz-tagging-directive: REPLACE as well, or leave the tags out.",
  );
}

/** A copy of a key onto itself must say what it changes, as on S3. */
function refuseNoChange({ key, headers, address }: ObjectRequest, source: CopySource): void {
  const isItself =
    source.place === "same-branch" &&
    source.address.view === address.view &&
    source.key === key &&
    source.commit === undefined;
  if (!isItself || headers.has("x-amz-storage-class") || headers.has(ENCRYPTION)) return;
  throw s3Error.InvalidRequest(
    `The copy of '${key}' onto itself changes nothing: send x-amz-metadata-directive: REPLACE with the new metadata, or x-amz-tagging-directive: REPLACE with the new tags.`,
  );
}

async function copiedAttributes(
  { headers, key, context }: Pick<ObjectRequest, "headers" | "key" | "context">,
  {
    source,
    directive,
    algorithm,
  }: { source: CopySource; directive: Directive; algorithm: ChecksumAlgorithm | undefined },
): Promise<StoredAttributes> {
  const { file, address } = source;
  const { checksum, parts, ...own } = file.attributes;
  const attributes =
    directive === "REPLACE" ? readAttributes(headers, key) : { ...typeToKeep(source, key), ...own };
  if (algorithm === undefined || algorithm === checksum?.algorithm) {
    return { ...attributes, ...(checksum && { checksum }), ...(parts && { parts }) };
  }
  const { body, size } = file;
  const computed = await computeChecksum(context.blobs, {
    body,
    size,
    hold: context.hold(address),
    algorithm,
  });
  // The parts' checksums are of the old algorithm, and so are dropped.
  return { ...attributes, checksum: computed, ...(parts && { parts: { sizes: parts.sizes } }) };
}

/** The type that a source without one of its own has by its key. It is kept if the copy's key would say another. */
function typeToKeep({ key: from }: CopySource, key: string): StoredAttributes {
  const contentType = guessContentType(from);
  return contentType === guessContentType(key) ? {} : { contentType };
}

async function answer(
  request: ObjectRequest,
  { source, attributes: { checksum }, done }: Copy & { readonly done: Committed },
): Promise<Response> {
  const { file } = source;
  const sums = checksum && checksumTags(checksum);
  const tags = { ETag: etag(file), LastModified: isoDate(done.modifiedAt), ...sums };
  const version = await versionHeader(request, { path: request.key, content: file, commit: done.commit });
  const headers = { ...sourceVersion(source), ...version };
  return xmlAnswer("CopyObjectResult", tags, { headers });
}

const READ_BYTES = 1024 * 1024;

/** The checksum over all bytes of a content. Reads it from end to end. */
async function computeChecksum(
  store: BlobStore,
  { algorithm, ...content }: ContentToRead & { readonly algorithm: ChecksumAlgorithm },
): Promise<Checksum> {
  const checksum = createChecksum(algorithm);
  const bytes = await readContent(store, content);
  if (bytes instanceof Uint8Array) checksum.update(bytes);
  else {
    const source = byteSource(bytes);
    let piece = await source.read(new Uint8Array(READ_BYTES), READ_BYTES);
    while (piece.length > 0) {
      checksum.update(piece);
      // Reading transferred the buffer: this one is the same memory.
      piece = await source.read(new Uint8Array(piece.buffer), READ_BYTES);
    }
  }
  return { algorithm, type: "FULL_OBJECT", value: encodeBase64(checksum.digest()) };
}

/** An object to be made of another. */
interface Copy {
  readonly source: CopySource;
  readonly attributes: StoredAttributes;
  readonly condition?: WriteCondition;
  readonly annotation: Annotation;
}

/** Commits a reference to a content that the branch has. `upload` keeps the content alive if no file has it. */
async function refer(
  { tree, key }: Pick<ObjectRequest, "tree" | "key">,
  { source, attributes, condition, annotation, upload }: Copy & { readonly upload?: string },
): Promise<Committed> {
  const { digest, size } = source.file;
  const operation = { put: key, digest, size, attributes, ...(condition && { condition }) };
  const done = await tree.commit({
    operations: [operation],
    annotation,
    ...(upload !== undefined && { upload }),
  });
  return accepted(done);
}

async function bring(request: ObjectRequest, copy: Copy): Promise<Committed> {
  const { digest, size, body } = copy.source.file;
  if (body.kind === "inline") return await putCopy(request, { ...copy, content: { digest, size, body } });
  const lease = new UploadLease(request);
  const blobs = new BroughtBlobs(request.context.blobs);
  try {
    const { upload, uid } = await lease.callbacks.openUpload();
    const reserved = accepted(await request.branch.uploads.reserve({ upload, contents: [{ digest, size }] }));
    if (reserved.missing.length === 0) return await refer(request, { ...copy, upload });
    const { content } = await copyBytes({
      file: copy.source.file,
      hold: request.context.hold(copy.source.address),
      store: blobs,
      ...lease.callbacks,
      openUpload: async () => ({ upload, uid }),
      now: request.now,
    });
    return await putCopy(request, { ...copy, content, brought: { upload, blobs } });
  } catch (error) {
    await lease.abort({ leaves: !(await blobs.discard()) });
    throw error;
  }
}

interface BroughtCopy extends Copy {
  readonly content: Content;
  /** Set if its blobs came by an upload. */
  readonly brought?: { readonly upload: string; readonly blobs: BroughtBlobs };
}

async function putCopy(
  { tree, key }: Pick<ObjectRequest, "tree" | "key">,
  { content, attributes, condition, annotation, brought }: BroughtCopy,
): Promise<Committed> {
  const file = {
    path: key,
    content,
    attributes,
    annotation,
    ...(condition && { condition }),
    ...(brought && { upload: brought.upload }),
  };
  const put = () => tree.put(file);
  return accepted(await (brought ? brought.blobs.handOver(put) : put()));
}
