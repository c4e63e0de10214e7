import type { ContentId } from "../../../protocol/content.ts";
import type { BucketAddress } from "../../../protocol/names.ts";
import type { FileCalls, FileRead } from "../../branch/contract/files.ts";

/** What a write did. */
interface Write {
  readonly path: string;
  readonly content: ContentId;
  /** Null if the same was there already, so that no commit was made. */
  readonly commit: string | null;
}

/**
 * `x-amz-version-id` of a write: its commit. If the write changed nothing, it is the commit that had written what is
 * there, which is looked up only then. Left out if another write has come in between, and in a view of the branch.
 */
export async function versionHeader(
  { address, tree }: { readonly address: BucketAddress; readonly tree: Pick<FileCalls, "read"> },
  { path, content, commit }: Write,
): Promise<Record<string, string>> {
  if (address.view !== undefined) return {};
  if (commit !== null) return { "x-amz-version-id": commit };
  const file = await tree.read({ path });
  const same = file.ok && file.digest === content.digest && file.size === content.size;
  return same ? { "x-amz-version-id": file.commit } : {};
}

/** `x-amz-version-id` of a file that was read. In the bucket of an open commit, a commit or a tag nothing has a version. */
export function readVersionHeader(
  { address }: { readonly address: BucketAddress },
  { commit }: Pick<FileRead, "commit">,
): Record<string, string> {
  return address.view === undefined ? { "x-amz-version-id": commit } : {};
}
