import type { Refused } from "../contract.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { endOutputs } from "../open-commits/job-output.ts";
import type { Live } from "../tree/generation-store.ts";

/** A new id and the time, of a creation or a deletion. */
export interface Moment {
  readonly now: number;
  /** An id that sorts after all earlier ones, for something of this time. */
  readonly id: (createdAt: number) => string;
}

/** Begins a generation. The catalogue is to be told. To be called in a transaction, where none lives. */
export function beginGeneration(ledger: Ledger, { now, id }: Moment): void {
  const createdAt = ledger.clock.next(now);
  const uid = id(createdAt);
  ledger.generations.begin({ uid, createdAt });
  ledger.outbox.tellCatalogue({ event: uid, now });
}

/** Deletes the live generation: a tombstone, and an event for those who follow. To be called in a transaction. */
export function endGeneration(ledger: Ledger, { live, moment }: { live: Live; moment: Moment }): void {
  const { gen, head } = live;
  const { now } = moment;
  const createdAt = ledger.clock.next(now);
  const id = moment.id(createdAt);
  const { births, deaths } = head;
  ledger.commits.insert({ gen, seq: head.seq + 1, id, kind: "deletion", createdAt, births, deaths });
  ledger.generations.end(gen, createdAt);
  ledger.uploads.expireMultiparts(gen, now);
  ledger.openCommits.endGeneration(gen, now);
  ledger.outbox.tellCatalogue({ event: id, now });
  ledger.outbox.ring(ledger.subscribers.all(), { event: id, now });
}

/** Takes the branch for a pipeline, and makes it if need be. To be called in a transaction. */
export function claimBranch(
  ledger: Ledger,
  { pipeline, uid, moment }: { pipeline: string; uid: string; moment: Moment },
): { ok: true; epoch: number } | Refused<"already-claimed" | "already-exists"> {
  const live = ledger.generations.live();
  const writer = ledger.writer.get();
  if (live && !writer) return { ok: false, reason: "already-exists" };
  if (writer && writer.uid !== uid) return { ok: false, reason: "already-claimed" };
  if (live) endOutputs(ledger, { gen: live.gen, now: moment.now });
  else beginGeneration(ledger, moment);
  return { ok: true, epoch: ledger.writer.claim({ pipeline, uid }) };
}

/** The pipeline gives its output up. To be called in a transaction. */
export function releaseBranch(ledger: Ledger, { now }: Moment): void {
  const live = ledger.generations.live();
  if (live) endOutputs(ledger, { gen: live.gen, now });
  ledger.writer.release();
  ledger.uploads.forgetLeases(now);
}
