import { contentName } from "../../../protocol/content.ts";
import { composeContent, type Slice } from "../../blobs/compose/compose-content.ts";
import type { Content, KeptContent } from "../../blobs/content.ts";
import type { BlobStore } from "../../blobs/port.ts";
import type { PartLayout } from "../../branch/contract/files.ts";
import type { MultipartStatus, Part, PartBody } from "../../branch/contract/multipart.ts";
import type { Checksum, ChecksumAlgorithm } from "../../core/checksums.ts";
import { acceptedOfUpload, uploadFailure } from "../answer/failures.ts";
import type { BesideTree } from "../bucket-tree.ts";
import type { UploadRequest } from "../operation.ts";

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

/**
 * The content that parts make together, and its checksum in base64 if one was asked for. A single part is the content
 * itself, and owns its blobs.
 */
export async function composeParts(
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
export function layoutOf(parts: readonly Part[], checksum: Checksum | undefined): PartLayout {
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
