import { contentName } from "../../../protocol/content.ts";
import { BroughtBlobs } from "../../blobs/brought-blobs.ts";
import { composeContent, type Slice } from "../../blobs/compose/compose-content.ts";
import type { Content, KeptContent } from "../../blobs/content.ts";
import { createChecksum } from "../../blobs/hash/checksum-hasher.ts";
import type { BlobStore } from "../../blobs/port.ts";
import type { Annotation } from "../../branch/contract/answers.ts";
import type { PartLayout, WriteCondition } from "../../branch/contract/files.ts";
import type { Completed, MultipartStatus, Part, PartBody } from "../../branch/contract/multipart.ts";
import {
  CHECKSUM_ALGORITHMS,
  type Checksum,
  type ChecksumAlgorithm,
  type ChecksumType,
  combineChecksums,
  compositeOf,
  isCrc,
  parseChecksum,
} from "../../core/checksums.ts";
import { s3Error } from "../answer/errors.ts";
import { acceptedOfUpload, uploadFailure } from "../answer/failures.ts";
import { checksumHeader, checksumTags, etag, versionHeader } from "../answer/fields.ts";
import { xmlAnswer } from "../answer/xml.ts";
import { readTextBody } from "../body/read-body.ts";
import type { BesideTree } from "../bucket-tree.ts";
import { MAX_COMPLETE_XML_BYTES } from "../limits.ts";
import type { Operation, UploadRequest } from "../operation.ts";
import { readAnnotation } from "../request/annotation.ts";
import { askedType } from "../request/checksum-kind.ts";
import { writeCondition } from "../request/conditions.ts";
import { encodeUriPath } from "../request/target.ts";
import { matchParts, parseCompletion } from "./named-parts.ts";
import { findUpload } from "./upload.ts";

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
  return await BroughtBlobs.during(request.context.blobs, async (blobs) => {
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
  });
}

function fullChecksum(algorithm: ChecksumAlgorithm | undefined, value: string | null): Checksum | undefined {
  return algorithm === undefined || value === null ? undefined : { algorithm, type: "FULL_OBJECT", value };
}

function expectedSize(headers: ReadonlyMap<string, string>): number | undefined {
  const text = headers.get(MP_OBJECT_SIZE)?.trim();
  if (text === undefined) return undefined;
  if (/^[0-9]{1,15}$/.test(text)) return Number(text);
  throw s3Error.InvalidRequest(
    `${MP_OBJECT_SIZE} is '${text}': it must be the number of bytes of the object.`,
  );
}

function checkSize(parts: readonly Part[], expected: number | undefined): void {
  if (expected === undefined) return;
  const size = parts.reduce((sum, part) => sum + part.size, 0);
  if (size === expected) return;
  throw s3Error.InvalidRequest(
    `${MP_OBJECT_SIZE} is ${expected}, but the parts named have ${size} bytes together: list the parts.`,
  );
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

/** Most parts whose bodies are asked for at once. */
const PARTS_PER_CALL = 500;

interface Composition {
  readonly status: MultipartStatus;
  /** In order. */
  readonly parts: readonly Part[];
  /** Takes the blobs that this makes. */
  readonly blobs: BlobStore;
  /** Set if a checksum over all bytes is wanted that the parts do not give. */
  readonly algorithm: ChecksumAlgorithm | undefined;
}

/** The content of the parts, and its checksum in base64 if asked for. A single part is the content itself. */
async function composeParts(
  { branch, uploadId: upload }: Pick<UploadRequest, "branch" | "uploadId">,
  { status, parts, blobs, algorithm }: Composition,
): Promise<{ content: Content; checksum: string | null }> {
  const bodies = partBodies(branch, { upload, parts });
  if (parts.length === 1 && algorithm === undefined) {
    const { value } = await bodies.next();
    if (!value) throw uploadFailure({ reason: "part-changed" });
    const { digest, size, body, life } = value;
    return { content: { digest, size, body, keeps: [{ digest, size, life }] }, checksum: null };
  }
  const keeps = new Map<string, KeptContent>();
  const { content, checksum } = await composeContent(noting(bodies, keeps), {
    store: blobs,
    owner: { uid: status.uid, upload },
    ...(algorithm && { checksum: algorithm }),
    progress: { load: () => status.progress, save: (progress) => saveProgress(branch, { upload, progress }) },
  });
  return { content: { ...content, keeps: [...keeps.values()] }, checksum };
}

/** The same, and what they are noted down. Throws InvalidPart if a content went and came again between two parts of it. */
async function* noting<T extends PartBody>(
  bodies: AsyncIterable<T>,
  noted: Map<string, KeptContent>,
): AsyncGenerator<T> {
  for await (const part of bodies) {
    const { digest, size, life } = part;
    const before = noted.get(contentName(part));
    if (before && before.life !== life) throw uploadFailure({ reason: "part-changed" });
    noted.set(contentName(part), { digest, size, life });
    yield part;
  }
}

/** The layout of an object's parts, as it is kept with the object. */
function layoutOf(parts: readonly Part[], checksum: Checksum | undefined): PartLayout {
  const sizes: [size: number, count: number][] = [];
  for (const { size } of parts) {
    const last = sizes.at(-1);
    if (last?.[0] === size) last[1] += 1;
    else sizes.push([size, 1]);
  }
  const checksums = parts.flatMap((part) => part.checksum ?? []);
  const isWhole = checksum !== undefined && checksums.length === parts.length;
  return { sizes, ...(isWhole && { checksums }) };
}

/** The bodies of the parts, asked for a few hundred at a time. Throws InvalidPart if a part is not the same any more. */
async function* partBodies(
  branch: BesideTree,
  { upload, parts }: { upload: string; parts: readonly Part[] },
): AsyncGenerator<Slice & PartBody, undefined> {
  let next = 0;
  while (next < parts.length) {
    const numbers = parts.slice(next, next + PARTS_PER_CALL).map(({ number }) => number);
    const page = acceptedOfUpload(await branch.multipart.bodies({ upload, numbers }));
    if (page.parts.length === 0) throw uploadFailure({ reason: "part-changed" });
    for (const body of page.parts) {
      const part = parts[next++];
      const isSame = part?.number === body.number && part.digest === body.digest && part.size === body.size;
      if (!isSame) throw uploadFailure({ reason: "part-changed" });
      yield body;
    }
  }
}

async function saveProgress(
  branch: BesideTree,
  { upload, progress }: { upload: string; progress: string },
): Promise<void> {
  acceptedOfUpload(await branch.multipart.saveProgress({ upload, progress }));
}

type Headers = ReadonlyMap<string, string>;

/** The whole object's checksum, as a completion claims it. */
interface ClaimedChecksum {
  readonly algorithm: ChecksumAlgorithm;
  readonly value: string;
}

/**
 * The checksum in the headers of CompleteMultipartUpload, which is the object's and not the body's; undefined if there
 * is none. Throws InvalidRequest if it is malformed, or of another kind than the upload was begun for.
 */
function claimedChecksum(
  headers: Headers,
  { checksum: begun }: Pick<MultipartStatus, "checksum">,
): ClaimedChecksum | undefined {
  checkType(askedType(headers), begun);
  const claimed = CHECKSUM_ALGORITHMS.flatMap((algorithm) => {
    const value = headers.get(checksumHeader(algorithm))?.trim();
    return value === undefined ? [] : [{ algorithm, value }];
  });
  const [claim] = claimed;
  if (claim === undefined) return undefined;
  const { algorithm, value } = claim;
  if (claimed.length > 1)
    throw s3Error.InvalidRequest("There is more than one x-amz-checksum-* header: send one.");
  if (begun && begun.algorithm !== algorithm) {
    throw s3Error.InvalidRequest(
      `The upload was begun for ${begun.algorithm}, and the object's checksum is in ${checksumHeader(algorithm)}: send ${checksumHeader(begun.algorithm)}, or none.`,
    );
  }
  if (parseChecksum(algorithm, value.replace(/-[0-9]+$/, "")) === null) {
    throw s3Error.InvalidRequest(
      `${checksumHeader(algorithm)} is '${value}': it must be the base64 of a ${algorithm}.`,
    );
  }
  return claim;
}

function checkType(type: ChecksumType | undefined, begun: MultipartStatus["checksum"]): void {
  // If the upload was begun without an algorithm, a completion can claim only a checksum over the whole object.
  const expected = begun?.type ?? "FULL_OBJECT";
  if (type === undefined || type === expected) return;
  throw s3Error.InvalidRequest(
    `x-amz-checksum-type is ${type}, but the upload's is ${expected}: send that, or leave it out.`,
  );
}

/** The headers without the checksums of the object, so that none is taken for the body's. */
function bodyHeaders(headers: Headers): Headers {
  const left = new Map(headers);
  for (const algorithm of CHECKSUM_ALGORITHMS) left.delete(checksumHeader(algorithm));
  return left;
}

/** The object's checksum, made from those of its parts: no byte is read again. Returns undefined if the upload has none. */
function checksumOfParts(
  { checksum }: Pick<MultipartStatus, "checksum">,
  parts: readonly Part[],
): Checksum | undefined {
  if (checksum === null) return undefined;
  const { algorithm, type } = checksum;
  const sums = parts.map(({ number, checksum: value, size }) => {
    if (value !== null) return { value, size };
    throw s3Error.InvalidPart(`Part ${number} has no ${algorithm}: upload it again.`);
  });
  const value =
    type === "FULL_OBJECT" && isCrc(algorithm)
      ? combineChecksums({ algorithm, parts: sums })
      : compositeOf({ algorithm, values: sums.map((sum) => sum.value), hash: hashWith(algorithm) });
  return { algorithm, type, value };
}

/** Throws BadDigest if the object's checksum is not the claimed one. A claim of a composite may leave the number of parts out. */
function checkClaim(claim: ClaimedChecksum | undefined, found: Checksum | undefined): void {
  if (claim === undefined || found === undefined) return;
  const { value } = found;
  if (claim.value === value || (found.type === "COMPOSITE" && value.startsWith(`${claim.value}-`))) return;
  throw s3Error.BadDigest(
    `The object's ${found.algorithm} is '${value}', not '${claim.value}' as ${checksumHeader(found.algorithm)} says: list the parts, and upload again what is wrong.`,
  );
}

function hashWith(algorithm: ChecksumAlgorithm): (bytes: Uint8Array) => Uint8Array {
  return (bytes) => {
    const hasher = createChecksum(algorithm);
    hasher.update(bytes);
    return hasher.digest();
  };
}
