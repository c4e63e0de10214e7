import { parseBlobName } from "../../blobs/blob-name.ts";
import type { Removed, UnwantedBlob } from "../../blobs/port.ts";
import type { NamedLoop, Next } from "../../objects/loop.ts";
import type { DueBlob } from "../contents/pending-deletion-store.ts";
import type { BranchContext } from "../context.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { BranchLoop } from "../store.ts";

/** Most blobs that one alarm deletes: one call to R2, if no manifest is among them. */
const BLOBS = 1000;

interface BlobReaperOptions extends Pick<BranchContext, "ledger" | "now"> {
  /** Deletes blobs. */
  readonly remove: (unwanted: readonly UnwantedBlob[]) => Promise<Removed>;
  /** Whether caches near readers may have copies. */
  readonly hasCopies: () => boolean;
}

/**
 * Deletes blobs pending deletion that are due, from the alarm. First the blobs, then the rows that say so: a crash in between
 * deletes them once more, which does no harm, because no name is ever used again. What one alarm leaves stays due, so
 * that the alarm is set again, until no deletion is pending any more and the object rests.
 *
 * A blob is due after 10 seconds if neither a file nor an open commit ever had its content, and otherwise after the 120 seconds
 * that readers have. Every 30 seconds, a read that lasts longer puts off what it has still to read (blobs/read/read-hold.ts).
 * What comes to be deleted: the parts of an upload that was aborted or ran out, parts that came again or that the completion
 * leaves out, what was uploaded under a lease that is lost, what an open commit had staged, what no kept commit has. The
 * transaction that ends an upload releases 200 contents at most; the rest goes in slices after it.
 *
 * If a blob can't be deleted, it is tried again after 10 seconds, and then after twice as long each time, at most an hour.
 * A blob that can't be deleted holds up no other: it is tried again later and later, and never given up. So is a manifest
 * that can't be read. What it lists goes with it then, or with a sweep (work/orphan-scan.ts), which finds that nothing names it.
 *
 * Of copies in caches near readers, those of erased contents and of deleted branches are to be forgotten (cache-purger.ts).
 * Nothing names the others any more, and they go by themselves.
 */
export function blobReaper({ ledger, now, remove, hasCopies }: BlobReaperOptions): NamedLoop {
  async function step(): Promise<Next> {
    const due = ledger.transaction(() => ledger.pendingDeletions.due(now(), BLOBS));
    if (due.length === 0) return false;
    const { gone, held } = await remove(due).catch((error) => noneGone(due, error));
    const waits = ledger.transaction(() => {
      ledger.pendingDeletions.forget(gone);
      if (hasCopies()) ledger.cachePurges.add(tagsToPurge(ledger, { due, gone }), now());
      return held.map(({ blobs }) => ledger.pendingDeletions.postpone(blobs, now()));
    });
    for (const [index, { blobs, error }] of held.entries()) {
      const what = blobs.length === 1 ? `blob ${blobs[0]}` : `${blobs.length} blobs, such as ${blobs[0]},`;
      const seconds = Math.ceil((waits[index] ?? 0) / 1000);
      console.warn(
        `${what} could not be deleted; nothing is forgotten, and it is tried again in ${seconds} s: ${error}`,
      );
    }
    return "next alarm";
  }
  return {
    name: "blob reaper" satisfies BranchLoop,
    due: () => ledger.pendingDeletions.nextDue(),
    step,
  };
}

/** What copies of blobs that are gone are purged by: all of a branch's at once if it is deleted, else those of a write. */
function tagsToPurge(
  { generations }: Pick<Ledger, "generations">,
  { due, gone }: { due: readonly DueBlob[]; gone: readonly string[] },
): string[] {
  const erased = new Set(due.flatMap((each) => (each.erased ? [each.blob] : [])));
  const tags = new Set<string>();
  const isDeleted = new Map<string, boolean>();
  for (const blob of gone) {
    const { uid, write } = parseBlobName(blob) ?? {};
    if (uid === undefined || write === undefined) continue;
    if (!isDeleted.has(uid)) isDeleted.set(uid, (generations.byUid(uid)?.deletedAt ?? null) !== null);
    if (isDeleted.get(uid)) tags.add(uid);
    else if (erased.has(blob)) tags.add(write);
  }
  return [...tags];
}

/** No blob was so much as tried. */
function noneGone(due: readonly UnwantedBlob[], error: unknown): Removed {
  return { gone: [], held: [{ blobs: due.map(({ blob }) => blob), error }] };
}
