import { BroughtBlobs } from "../../blobs/brought-blobs.ts";
import { composeContent } from "../../blobs/compose/compose-content.ts";
import type { ByteRange } from "../../blobs/port.ts";
import type { MultipartCalls, MultipartStatus } from "../../branch/contract/multipart.ts";
import { acceptedOfUpload, uploadFailure } from "../answer/failures.ts";
import { checksumTag, etag, isoDate } from "../answer/fields.ts";
import { xmlAnswer } from "../answer/xml.ts";
import { mustTakeWrites } from "../bucket-tree.ts";
import {
  type CopiedBytes,
  type CopySource,
  copyBytes,
  openSource,
  type SourceName,
  sourceOf,
  sourceVersion,
} from "../copy/copy-source.ts";
import type { Operation, UploadRequest } from "../operation.ts";
import { partNumberOf } from "../request/query-values.ts";
import { parseCopyRange } from "../request/range.ts";
import { findOpenUpload, openedUpload } from "./upload.ts";

interface PartCopy {
  readonly number: number;
  readonly source: CopySource;
  readonly range: ByteRange | undefined;
  readonly upload: MultipartStatus;
}

/**
 * Makes (a range of) an object a part of an upload. Inside a branch the bytes stay where they are. They are read, to be
 * hashed, only if the range does not lie on leaves or the upload wants a checksum.
 */
export const uploadPartCopy: Operation<UploadRequest> = {
  permission: "write",
  tellsEncryption: true,
  mayTakeLong: true,

  async handle(request) {
    const { headers, now } = request;
    const number = partNumberOf(request.query);
    const name = await namedSource(request);
    const upload = await findOpenUpload(request);
    const source = await openSource(request, name);
    const range = parseCopyRange(headers.get("x-amz-copy-source-range"), source.file.size);
    const copy = { number, source, range, upload };
    const { content, checksum } = await addCopy(request, copy);
    const tags = {
      LastModified: isoDate(now()),
      ETag: etag(content),
      ...(upload.checksum && { [checksumTag(upload.checksum.algorithm)]: checksum ?? undefined }),
    };
    return xmlAnswer("CopyPartResult", tags, { headers: sourceVersion(source) });
  },
};

/** What is wrong with the name of the source is told before the upload is looked for, but not of a bucket that is not there. */
async function namedSource(request: UploadRequest): Promise<SourceName> {
  try {
    return sourceOf(request);
  } catch (error) {
    await mustTakeWrites(request);
    throw error;
  }
}

async function addCopy(request: UploadRequest, copy: PartCopy): Promise<CopiedBytes> {
  return await BroughtBlobs.during(request.context.blobs, async (blobs) => {
    await blobs.admit();
    return (await addReference(request, { ...copy, blobs })) ?? (await addBytes(request, { ...copy, blobs }));
  });
}

/** The request as far as it says which upload the part goes to. */
type PartTarget = Pick<UploadRequest, "branch" | "uploadId" | "now" | "context">;
type PartBringing = PartCopy & { readonly blobs: BroughtBlobs };

/** Returns undefined if the bytes must be copied: inline content has no blobs to refer to, and another's may just have gone. */
async function addReference(request: PartTarget, copy: PartBringing): Promise<CopiedBytes | undefined> {
  const { source, range, upload } = copy;
  const { digest, size, body, life } = source.file;
  if (source.place === "other-branch" || body.kind === "inline") return undefined;
  const compose = () =>
    composeContent(only({ body, size, ...(range && { range }) }), {
      store: copy.blobs,
      owner: { uid: upload.uid, upload: request.uploadId },
      ...(upload.checksum && { checksum: upload.checksum.algorithm }),
    });
  const hold = request.context.hold(source.address);
  const { content, checksum } = await hold.during(copy.blobs, body, compose);
  const part = { content: { ...content, keeps: [{ digest, size, life }] }, checksum };
  const added = await addPart(request, { ...copy, part });
  if (added.ok) return part;
  if (added.reason === "no-such-content") return undefined;
  throw uploadFailure(added);
}

async function addBytes(request: PartTarget, copy: PartBringing): Promise<CopiedBytes> {
  const { source, range, upload, blobs } = copy;
  const part = await copyBytes({
    store: blobs,
    file: source.file,
    hold: request.context.hold(source.address),
    ...(range && { range }),
    ...(upload.checksum && { checksum: upload.checksum.algorithm }),
    inline: "never",
    ...openedUpload(request, upload),
    now: request.now,
  });
  acceptedOfUpload(await addPart(request, { ...copy, part }));
  return part;
}

function addPart(
  { branch, uploadId }: PartTarget,
  { number, blobs, part }: PartBringing & { readonly part: CopiedBytes },
): ReturnType<MultipartCalls["addPart"]> {
  const { content, checksum } = part;
  const request = { upload: uploadId, number, content, ...(checksum !== null && { checksum }) };
  return blobs.handOver(() => branch.multipart.addPart(request));
}

async function* only<T>(item: T): AsyncGenerator<T> {
  yield item;
}
