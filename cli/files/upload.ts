import type { SaidOfCommit } from "../../protocol/annotations.ts";
import type { BucketAddress } from "../../protocol/names.ts";
import type { Client } from "../gateway/client.ts";
import { asOneCommit, mustBeOpen } from "../gateway/open-commits.ts";
import type { EntryPage, LocalEntry } from "./local-tree.ts";
import type { Progress } from "./progress.ts";
import { uploadPage } from "./upload-page.ts";

/** A path that is to be removed in the commit that puts others. */
interface Removal {
  readonly target: string;
  readonly size: 0;
}

/** What a commit does at one path. */
export type Change = LocalEntry | Removal;

export interface Uploaded {
  /** The one commit that holds all; null if nothing changed, or if all was staged in an open commit. */
  readonly commit: string | null;
  readonly files: number;
  readonly bytes: number;
  /** Bytes that the branch did not have yet. */
  readonly sentBytes: number;
  /** It was put into an open commit. */
  readonly staged?: true;
}

export interface Upload {
  /** A branch, or one of its open commits. */
  readonly to: BucketAddress;
  readonly first: EntryPage<Change>;
  /** The pages behind the first. */
  readonly rest: AsyncIterable<EntryPage<Change>>;
  readonly progress: Progress;
  /** Of the commit; not in an open commit, which is told when it is finished. */
  readonly said?: SaidOfCommit;
  /** Of all files. By default that of each name. */
  readonly contentType?: string | undefined;
}

function isPut(entry: Change): entry is LocalEntry {
  return "source" in entry;
}

/**
 * Puts entries and removes paths as one commit, however many they are: a single page by itself, more of them through an open commit of
 * their own. Nothing is seen of it before the end. Into a commit that is open they are staged, and it stays open.
 */
export async function uploadAsCommit(client: Client, upload: Upload): Promise<Uploaded> {
  const { to, first, progress, said, contentType } = upload;
  const done = { files: 0, bytes: 0, sentBytes: 0 };
  const put = async (
    place: BucketAddress,
    { entries, said }: Pick<EntryPage<Change>, "entries"> & { said?: SaidOfCommit | undefined },
  ): Promise<string | null> => {
    const [files, removals] = [entries.filter(isPut), entries.filter((entry) => !isPut(entry))];
    const { commit, bytes, sentBytes } = await uploadPage(client, {
      ...{ to: place, entries: files, progress, said, contentType },
      removals: removals.map(({ target }) => target),
    });
    done.files += files.length;
    done.bytes += bytes;
    done.sentBytes += sentBytes;
    return commit;
  };
  const putAll = async (place: BucketAddress): Promise<void> => {
    await put(place, first);
    for await (const page of upload.rest) await put(place, page);
  };
  const { repo, branch, view } = to;
  if (view !== undefined) {
    await mustBeOpen(client, { repo, branch, view });
    await putAll(to);
    return { commit: null, ...done, staged: true };
  }
  const commit = first.isLast
    ? await put(to, { ...first, said })
    : await asOneCommit(client, { to, said, fill: putAll });
  return { commit, ...done };
}
