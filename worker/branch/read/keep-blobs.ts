import { parseBlobName } from "../../blobs/blob-name.ts";
import type { RequestOf } from "../contract/answers.ts";
import type { BlobsKept, FileCalls } from "../contract/files.ts";
import type { Ledger } from "../ledger/ledger.ts";

/** Puts off the deletion of blobs that somebody still reads. Nothing is written if none of them is to go. */
export function keepBlobs(
  ledger: Ledger,
  { blobs, now }: RequestOf<FileCalls["keepBlobs"]> & { now: number },
): BlobsKept {
  if (!ledger.exists) return { ok: true, borrowed: false, parents: [] };
  const { pendingDeletions, generations, forks } = ledger;
  const { borrowed } = ledger.transaction(() => pendingDeletions.keepForReaders(blobs, now));
  const uids = new Set(blobs.map((blob) => parseBlobName(blob)?.uid));
  const hasOnLoan = [...uids].some((uid) => uid !== undefined && !generations.has(uid));
  // Also of a fork that is gone: its readers may ask for the first time then.
  const parents = hasOnLoan ? new Set([...forks.parents(), ...generations.parents()]) : [];
  return { ok: true, borrowed, parents: [...parents] };
}
