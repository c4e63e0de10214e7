import { createHash } from "node:crypto";
import { type ContentId, contentName } from "../../../../protocol/content.ts";
import { MAX_COMMIT_OPERATIONS } from "../../../../protocol/files.ts";
import { MAX_MERGE_PARTS } from "../../../../protocol/runner.ts";
import type { Tx } from "../../../objects/transaction.ts";
import { yieldToOthers } from "../../../objects/turns.ts";
import type { JobWork } from "../../context.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import type { EndingStep, PlannedOperation } from "../../output/draft-store.ts";
import { endStep } from "../guards.ts";
import { stepAfterMark } from "./bad-datums.ts";

/** Finds the path to plan after one; from the first for null. */
type NextPath = (after: string | null) => string | undefined;

/** Paths planned in one transaction. */
const SLICE = 200;

/**
 * Plans what becomes of some of the changed paths; when that is known of all, the commit begins. Returns false if
 * nothing can go on before runners have merged something.
 */
export async function planOutput(oldest: JobWork): Promise<boolean> {
  const { changed, ending, tasks } = oldest.ledger;
  const next: NextPath = (after) => changed.nextPath(after);
  const at = ending.get()?.at;
  const rest = await planSome(oldest, {
    next,
    after: (at?.step === "plan" && at.after) || null,
    isNoted: true,
  });
  if (rest !== null) return true;
  if (!tasks.has(oldest.job.n)) await planWaiting(oldest);
  const waits = beginCommit(oldest);
  if (waits) oldest.memory.queued.wakeOne();
  return !waits;
}

/** Paths that waited for merges which are done. */
async function planWaiting(oldest: JobWork): Promise<void> {
  const next: NextPath = (after) => oldest.ledger.operations.nextWaiting(after);
  let after: string | null = null;
  do {
    after = await planSome(oldest, { next, after, isNoted: false });
    if (after !== null) await yieldToOthers();
  } while (after !== null);
}

interface Slice {
  readonly next: NextPath;
  readonly after: string | null;
  /** Whether it is written down how far the plan came. */
  readonly isNoted: boolean;
}

/** One slice of planning; returns the path after which there are more. */
async function planSome(oldest: JobWork, { next, after: from, isNoted }: Slice): Promise<string | null> {
  const { ledger, job } = oldest;
  let after = from;
  let large: string | undefined;
  const more = endStep(oldest, (tx) => {
    const more = planSlice(tx);
    // The end goes on at once with what was planned here, unless it waits.
    const goesOn = !more && !ledger.tasks.has(job.n);
    if (isNoted && !goesOn && after !== null && after !== from && large === undefined)
      ledger.ending.set(job.n, { step: "plan", after });
    return more;
  });
  if (large !== undefined) await planLargePath(oldest, { path: large, isNoted });
  return more ? after : null;

  /** Returns whether there may be more. */
  function planSlice(tx: Tx): boolean {
    for (let count = 0; count < SLICE && large === undefined; count++) {
      const path = next(after);
      if (path === undefined) return false;
      if (!planPath(tx, ledger, { path, job: job.n })) large = path;
      after = path;
    }
    return true;
  }
}

/** From here on the commit alone ends the job. Returns true, and does nothing, if the job waits for merges. */
function beginCommit(oldest: JobWork): boolean | undefined {
  const { ledger, peers, job } = oldest;
  return endStep(oldest, () => {
    if (ledger.tasks.has(job.n)) return true;
    ledger.ending.set(job.n, stepAfterMark(ledger, { job, output: outputStep(ledger) }));
    ledger.jobs.setCommitting(job.n, peers.now());
    return false;
  });
}

/** How the commit of the output begins: a large one is sent in pages first. */
export function outputStep({ operations }: Ledger): EndingStep {
  const isLarge = operations.count(MAX_COMMIT_OPERATIONS + 1) > MAX_COMMIT_OPERATIONS;
  return isLarge ? { step: "stage", after: "" } : { step: "commit", staged: false };
}

interface PathOfJob {
  readonly path: string;
  /** The job's number. */
  readonly job: number;
}

/** A content that several may have come together to; `merge`: the last merge that made it. */
type Merged = { readonly content: ContentId; readonly merge: string | null };

/**
 * Plans what becomes of a changed path: what its datums write there, put together in order of their keys if they are
 * several. What was merged before is there; for the rest the path waits. Returns false if more datums write it than
 * one merge takes (planLargePath).
 */
function planPath(tx: Tx, ledger: Ledger, { path, job }: PathOfJob): boolean {
  if (ledger.changed.isPlain(path)) return true;
  const parts = ledger.changed.parts(path, { after: null, limit: MAX_MERGE_PARTS });
  if (parts.length === MAX_MERGE_PARTS) return false;
  ledger.operations.set(path, operationOf());
  return true;

  function operationOf(): PlannedOperation {
    if (parts.length > 0 && isSame(parts, ledger.published.contents(path, MAX_MERGE_PARTS))) {
      // What was committed there is made of the same: the commit need not say so again.
      return { state: "same" };
    }
    if (parts.length > 0) return putOf(merged(tx, ledger, { path, job, contents: parts }));
    // All that write it, if any does, write nothing into it: it is an empty file or directory.
    const empty = ledger.changed.firstPart(path);
    return empty ? { state: "put", content: empty, merge: null } : { state: "delete" };
  }
}

/** The same for a path that many datums write: runs of them are merged, then what came of those. */
async function planLargePath(
  oldest: JobWork,
  { path, isNoted }: { path: string; isNoted: boolean },
): Promise<void> {
  const { ledger } = oldest;
  const job = oldest.job.n;
  let level: (Merged | undefined)[] = [];
  for (let after: string | null = null; ; ) {
    const run = ledger.changed.parts(path, { after, limit: MAX_MERGE_PARTS });
    if (run.length > 0) level.push(mergedNow(run));
    after = run.at(-1)?.key ?? null;
    if (run.length < MAX_MERGE_PARTS) break;
    await yieldToOthers();
  }
  while (level.length > 1 && !level.includes(undefined)) {
    level = runsOf(level.flatMap((each) => (each ? [each.content] : []))).map(mergedNow);
  }
  const [one] = level;
  const operation = putOf(level.length === 1 ? one : undefined);
  endStep(oldest, () => {
    ledger.operations.set(path, operation);
    if (isNoted) ledger.ending.set(job, { step: "plan", after: path });
  });

  function mergedNow(contents: readonly ContentId[]): Merged | undefined {
    return endStep(oldest, (tx) => merged(tx, ledger, { path, job, contents }));
  }
}

/** Contents put together, at most MAX_MERGE_PARTS; undefined if a runner has yet to do it: then a task is there. */
function merged(
  _: Tx,
  { merges, tasks }: Ledger,
  { path, job, contents }: PathOfJob & { contents: readonly ContentId[] },
): Merged | undefined {
  const [only] = contents;
  if (contents.length === 1 && only) return { content: only, merge: null };
  const id = mergeId(contents);
  const content = merges.use(id, job);
  if (content) return { content, merge: id };
  tasks.addMerge(contents, { id, job, path });
  return undefined;
}

function putOf(one: Merged | undefined): PlannedOperation {
  return one ? { state: "put", ...one } : { state: "waits" };
}

/** What makes two merges the same. */
function mergeId(parts: readonly ContentId[]): string {
  const names = new TextEncoder().encode(parts.map(contentName).join("\n"));
  return createHash("sha256").update(names).digest("hex");
}

function isSame(now: readonly ContentId[], before: readonly ContentId[]): boolean {
  return (
    now.length === before.length &&
    now.every(({ digest, size }, index) => digest === before[index]?.digest && size === before[index]?.size)
  );
}

function runsOf(contents: readonly ContentId[]): ContentId[][] {
  const runs: ContentId[][] = [];
  for (let start = 0; start < contents.length; start += MAX_MERGE_PARTS) {
    runs.push(contents.slice(start, start + MAX_MERGE_PARTS));
  }
  return runs;
}
