import type { Tx } from "../../objects/transaction.ts";
import type { Moment } from "../context.ts";
import type { Refused } from "../contract/answers.ts";
import type { Fork } from "../forks/fork-store.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { forgetErasures } from "../outbox/erasure-store.ts";
import { newCommitId } from "../tree/commit-id.ts";
import type { Live } from "../tree/generation-store.ts";
import { endOutputs } from "./job-output.ts";

/** Begins a generation, while none lives. The catalogue is to be told. */
export function beginGeneration(_: Tx, { clock, generations, outbox }: Ledger, { now, id }: Moment): void {
  const createdAt = clock.next(now);
  const uid = id(createdAt);
  generations.begin({ uid, createdAt });
  outbox.tellCatalogue({ event: uid, now });
}

/** Deletes the live generation: a tombstone in the history, which subscribers hear of like of a commit. */
export function endGeneration(_: Tx, ledger: Ledger, { live, moment }: { live: Live; moment: Moment }): void {
  const { gen, head } = live;
  const { now } = moment;
  const createdAt = ledger.clock.next(now);
  const position = { gen, seq: head.seq + 1 };
  const id = newCommitId(position, createdAt);
  const { births, deaths } = head;
  ledger.commits.insert({ ...position, id, kind: "deletion", createdAt, births, deaths });
  ledger.generations.end(gen, createdAt);
  ledger.forks.purgeEnded();
  ledger.uploads.expireMultiparts(gen, now);
  ledger.openCommits.endGeneration(gen, now);
  ledger.tags.endGeneration();
  ledger.lifecycleScans.endGeneration(gen);
  ledger.outbox.tellCatalogue({ event: id, now });
  if (ledger.settings.of(gen).revision > 0) ledger.outbox.mark("settings", { event: id, due: now });
  ledger.outbox.ring(ledger.subscribers.all(), { event: id, now });
}

/** Deletes a fork whose rows are still on their way. Nobody has read any of it, so the history has nothing to say. */
export function endFork(
  _: Tx,
  { clock, generations, forks, outbox }: Ledger,
  { fork: { uid, gen }, moment: { now, id } }: { fork: Fork; moment: Moment },
): void {
  const deletedAt = clock.next(now);
  if (gen !== null) generations.end(gen, deletedAt);
  forks.purge(uid);
  outbox.tellCatalogue({ event: id(deletedAt), now });
}

/** Takes the branch for a pipeline, and makes it if need be. */
export function claimBranch(
  tx: Tx,
  ledger: Ledger,
  { pipeline, uid, moment }: { pipeline: string; uid: string; moment: Moment },
): { ok: true; epoch: number } | Refused<"already-claimed" | "already-exists"> {
  const live = ledger.generations.live();
  const claim = ledger.claim.get();
  if ((live && !claim) || (!live && ledger.forks.present())) return { ok: false, reason: "already-exists" };
  if (claim && claim.uid !== uid) return { ok: false, reason: "already-claimed" };
  if (live) endOutputs(tx, ledger, { gen: live.gen, now: moment.now });
  else beginGeneration(tx, ledger, moment);
  return { ok: true, epoch: ledger.claim.take({ pipeline, uid }) };
}

/** The pipeline gives its output up. */
export function releaseBranch(tx: Tx, ledger: Ledger, { now }: Moment): void {
  const live = ledger.generations.live();
  if (live) endOutputs(tx, ledger, { gen: live.gen, now });
  ledger.claim.release();
  forgetErasures(tx, ledger, now);
  ledger.uploads.forgetLeases(now);
}
