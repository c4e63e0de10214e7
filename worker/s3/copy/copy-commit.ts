import { BroughtBlobs } from "../../blobs/brought-blobs.ts";
import type { Content } from "../../blobs/content.ts";
import type { Annotation } from "../../branch/contract/answers.ts";
import type { Committed, StoredAttributes, WriteCondition } from "../../branch/contract/files.ts";
import { accepted } from "../answer/failures.ts";
import { UploadLease } from "../body/upload-lease.ts";
import type { ObjectRequest } from "../operation.ts";
import { copyBytes } from "./copy-bytes.ts";
import type { CopySource } from "./copy-source.ts";

/** An object to be made of another. */
export interface Copy {
  readonly source: CopySource;
  readonly attributes: StoredAttributes;
  readonly condition?: WriteCondition;
  readonly annotation: Annotation;
}

/** Makes the copy at the request's key: one commit, or one change of the open commit. If the branch refuses, it throws and leaves nothing behind. */
export async function commitCopy(request: ObjectRequest, copy: Copy): Promise<Committed> {
  await request.context.blobs.admit?.();
  return await (copy.source.place === "same-branch" ? refer(request, copy) : bring(request, copy));
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
