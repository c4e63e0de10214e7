import type { CommitRefused } from "../contract.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Live } from "../tree/generation-store.ts";

/** Where a commit's time and id come from. */
export interface Stamps {
  readonly now: number;
  /** An id that sorts after all earlier ones, for a commit of this time. */
  readonly id: (createdAt: number) => string;
}

/** The live branch, where everybody may write so many operations to it. */
export function writableBranch(ledger: Ledger, operations: number): { ok: true; live: Live } | CommitRefused {
  const live = ledger.generations.live();
  if (!live) return { ok: false, reason: "no-such-branch" };
  if (ledger.writer.get()) return { ok: false, reason: "pipeline-output" };
  if (ledger.isFull(operations)) return { ok: false, reason: "branch-full" };
  return { ok: true, live };
}

/** The live branch, where this claim is the newest: the epoch is the fence. */
export function claimedBranch(
  ledger: Ledger,
  { uid, epoch }: { uid: string; epoch: number },
): { ok: true; live: Live } | CommitRefused {
  const live = ledger.generations.live();
  if (!live) return { ok: false, reason: "no-such-branch" };
  const writer = ledger.writer.get();
  const holds = writer?.uid === uid && writer.epoch === epoch;
  return holds ? { ok: true, live } : { ok: false, reason: "lost-claim" };
}

/** Also where there is no upload to be open. */
export function isUploadOpen(
  ledger: Ledger,
  { upload, live }: { upload: string | undefined; live: Live },
): boolean {
  return upload === undefined || ledger.uploads.find(upload, live.gen) !== undefined;
}

/** Closes an upload: only when something else keeps what it kept. */
export function closeUpload(
  ledger: Ledger,
  { upload, now }: { upload: string | undefined; now: number },
): void {
  if (upload === undefined) return;
  ledger.uploads.close(upload);
  ledger.contents.buryReleased(now);
}
