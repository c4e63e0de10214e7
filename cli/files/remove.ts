import type { BucketAddress } from "../../protocol/names.ts";
import type { SaidOfCommit } from "../../protocol/notes.ts";
import type { ListedFile } from "../gateway/answers.ts";
import type { Client } from "../gateway/client.ts";
import { asOneCommit, commitUpload } from "../gateway/open-commits.ts";
import type { EntryPage } from "./entry-pages.ts";

export interface Removed {
  readonly files: number;
  /** The one commit that removed them; null if that was staged in an open commit. */
  readonly commit: string | null;
}

export interface Removal {
  /** A branch, or one of its open commits. */
  readonly from: BucketAddress;
  readonly first: EntryPage<ListedFile>;
  /** The pages behind the first. */
  readonly rest: AsyncIterable<EntryPage<ListedFile>>;
  /** Of the commit; not in an open commit. */
  readonly said?: SaidOfCommit;
}

/** Removes files as one commit, however many they are. In an open commit the removals are staged. */
export async function removeAsCommit(client: Client, { from, first, rest, said }: Removal): Promise<Removed> {
  let files = 0;
  const remove = (
    place: BucketAddress,
    { entries, said }: Pick<EntryPage<ListedFile>, "entries"> & { said?: SaidOfCommit | undefined },
  ): Promise<string | null> => {
    files += entries.length;
    return commitUpload(client, {
      to: place,
      said,
      fill: async () => entries.map(({ path }) => ({ delete: path })),
    });
  };
  const removeAll = async (place: BucketAddress): Promise<void> => {
    await remove(place, first);
    for await (const page of rest) await remove(place, page);
  };
  if (from.view !== undefined) {
    await removeAll(from);
    return { files, commit: null };
  }
  const commit = first.isLast
    ? await remove(from, { ...first, said })
    : await asOneCommit(client, { to: from, said, fill: removeAll });
  return { files, commit };
}
