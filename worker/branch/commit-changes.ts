import { type Application, applyCommit } from "./apply.ts";
import type { CommitRefused, CommitRequest, Committed, OutputCommit, PutFile } from "./contract.ts";
import type { Live } from "./generations.ts";
import type { Ledger } from "./ledger.ts";
import { type PlannedChange, planCommit, reduceOperations } from "./plan.ts";

type Answer = Committed | CommitRefused;

/** Where a commit's time and id come from. */
interface Stamps {
  readonly now: number;
  /** An id that sorts after all earlier ones, for a commit of this time. */
  readonly id: (createdAt: number) => string;
}

/** Writes one file as a commit of its own. To be called in a transaction. */
export function putFile(ledger: Ledger, { put, stamps }: { put: PutFile; stamps: Stamps }): Answer {
  const { path, content, attributes, upload } = put;
  const { digest, size } = content;
  const reduced = reduceOperations([{ put: path, digest, size, attributes }]);
  if (!reduced.ok) return reduced;
  const live = writable(ledger);
  if (!live.ok) return live;
  const { gen } = live.live;
  if (upload !== undefined && !ledger.uploads.find(upload, gen))
    return { ok: false, reason: "no-such-upload" };
  const planned = planCommit(ledger, { gen, state: reduced.state, contentComes: "with-it" });
  if (!planned.ok) return planned;
  const { changes } = planned;
  const { now } = stamps;
  if (changes.length === 0) ledger.contents.spurn(content, now);
  return conclude(ledger, {
    ...live,
    changes,
    upload,
    stamps,
    keep: () => ledger.contents.bring(content, { gen, now }),
  });
}

/** Many operations as one commit. To be called in a transaction. */
export function commitChanges(
  ledger: Ledger,
  { request, stamps }: { request: CommitRequest; stamps: Stamps },
): Answer {
  const reduced = reduceOperations(request.operations);
  if (!reduced.ok) return reduced;
  const live = writable(ledger);
  if (!live.ok) return live;
  const { gen } = live.live;
  const { upload } = request;
  if (upload !== undefined && !ledger.uploads.find(upload, gen))
    return { ok: false, reason: "no-such-upload" };
  const planned = planCommit(ledger, { gen, state: reduced.state, contentComes: "before" });
  if (!planned.ok) return planned;
  return conclude(ledger, { ...live, changes: planned.changes, upload, stamps, keep: keeper(ledger) });
}

/** The commit of a job, once. To be called in a transaction. */
export function commitOutput(
  ledger: Ledger,
  { request, stamps }: { request: OutputCommit; stamps: Stamps },
): Answer {
  const live = ledger.generations.live();
  if (!live) return { ok: false, reason: "no-such-branch" };
  // The epoch is the fence: whoever claimed since then is the only writer.
  const writer = ledger.writer.get();
  const holds = writer?.uid === request.uid && writer.epoch === request.epoch;
  if (!holds) return { ok: false, reason: "lost-claim" };
  const made = ledger.commits.byOrigin(live.gen, request.origin);
  if (made) return { ok: true, commit: made.id, modifiedAt: made.createdAt };
  const reduced = reduceOperations(request.operations);
  if (!reduced.ok) return reduced;
  if (ledger.full) return { ok: false, reason: "branch-full" };
  const planned = planCommit(ledger, { gen: live.gen, state: reduced.state, contentComes: "before" });
  if (!planned.ok) return planned;
  const { origin } = request;
  return apply(ledger, { live, changes: planned.changes, stamps, origin, keep: keeper(ledger) });
}

/** The live branch, where everybody may write to it. */
function writable(ledger: Ledger): { ok: true; live: Live } | CommitRefused {
  const live = ledger.generations.live();
  if (!live) return { ok: false, reason: "no-such-branch" };
  if (ledger.writer.get()) return { ok: false, reason: "pipeline-output" };
  if (ledger.full) return { ok: false, reason: "branch-full" };
  return { ok: true, live };
}

interface Conclusion {
  readonly live: Live;
  readonly changes: readonly PlannedChange[];
  readonly upload: string | undefined;
  readonly stamps: Stamps;
  readonly keep: Application["keep"];
}

/** For contents that are in the branch. */
function keeper(ledger: Ledger): Application["keep"] {
  return (content) => ledger.contents.keep(content);
}

/** Commits what changes, if anything does, and closes the upload: only now, when files keep what it kept. */
function conclude(ledger: Ledger, { live, changes, upload, stamps, keep }: Conclusion): Answer {
  const { modifiedAt } = live.head;
  const answer: Answer =
    changes.length === 0
      ? { ok: true, commit: null, modifiedAt }
      : apply(ledger, { live, changes, stamps, keep });
  if (upload !== undefined) ledger.uploads.close(upload, stamps.now);
  return answer;
}

function apply(
  ledger: Ledger,
  { live, changes, stamps, keep, origin }: Omit<Conclusion, "upload"> & { origin?: string },
): Committed {
  const createdAt = ledger.clock.next(stamps.now);
  const id = stamps.id(createdAt);
  const stamp = { id, createdAt, ...(origin !== undefined && { origin }) };
  const { modifiedAt } = applyCommit(ledger, { live, changes, stamp, keep });
  return { ok: true, commit: id, modifiedAt };
}
