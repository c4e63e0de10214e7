import type { ContentId } from "../../protocol/content.ts";
import type { BranchApi } from "../branch/contract.ts";

/** What a write did. */
interface Write {
  readonly path: string;
  readonly content: ContentId;
  /** Null where the same was there already, and so no commit was made. */
  readonly commit: string | null;
}

/**
 * `x-amz-version-id` of a write: its commit, or where it changed nothing the commit that had written what it found.
 * That one is looked up only then; where something else was written since, it is left out.
 */
export async function versionHeader(
  branch: BranchApi,
  { path, content, commit }: Write,
): Promise<Record<string, string>> {
  const version = commit ?? (await versionThere(branch, { path, content }));
  return version === undefined ? {} : { "x-amz-version-id": version };
}

async function versionThere(
  branch: BranchApi,
  { path, content }: Omit<Write, "commit">,
): Promise<string | undefined> {
  const file = await branch.read({ path });
  const same = file.ok && file.digest === content.digest && file.size === content.size;
  return same ? file.commit : undefined;
}
