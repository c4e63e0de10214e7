import { INLINE_LIMIT_BYTES } from "../../../protocol/content.ts";
import { MAX_CONTENTS_PER_CALL } from "../../../protocol/files.ts";
import { TreeHash } from "../../../runner/lib/tree-hash.ts";
import type { Control } from "../control.ts";

/** Puts many files into `master` of a repo as one commit; answers its id. */
export async function commitFiles(
  control: Control,
  { repo, files }: { repo: string; files: ReadonlyMap<string, Buffer> },
): Promise<string | null> {
  const upload = await control.openUpload(repo);
  const entries = [...files].map(([put, bytes]) => ({ put, bytes, ...contentOf(bytes) }));
  const isSmall = ({ size }: { size: number }): boolean => size <= INLINE_LIMIT_BYTES;
  const small = entries.filter(isSmall);
  for (let start = 0; start < small.length; start += MAX_CONTENTS_PER_CALL) {
    const some = small.slice(start, start + MAX_CONTENTS_PER_CALL);
    const contents = some.map(({ digest, size, bytes }) => ({
      digest,
      size,
      bytes: bytes.toString("base64"),
    }));
    await control.addInlineContents(upload, contents);
  }
  for (const { bytes, digest, size } of entries.filter((entry) => !isSmall(entry))) {
    await control.addContent(upload, bytes, { digest, size });
  }
  const operations = entries.map(({ put, digest, size }) => ({ put, digest, size }));
  return control.commit(repo, upload, operations);
}

function contentOf(bytes: Buffer): { digest: string; size: number } {
  const hash = new TreeHash();
  hash.update(bytes);
  return hash.finish();
}
