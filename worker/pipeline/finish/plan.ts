import { createHash } from "node:crypto";
import { type ContentId, contentName } from "../../../protocol/content.ts";
import { MAX_COMMIT_OPERATIONS } from "../../../protocol/files.ts";
import { MAX_MERGE_PARTS } from "../../../protocol/runner.ts";
import { type JobContext, type PipelineContext, yieldToOthers } from "../context.ts";
import { endStep } from "../ledger/guards.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { PlannedOperation } from "./draft-store.ts";

/** Paths planned in one transaction. */
const SLICE = 200;

/**
 * Plans what becomes of some of the changed paths; when that is known of all, the commit begins. False where nothing
 * can go on before runners have merged something.
 */
export async function planOperations(parts: PipelineContext, context: JobContext): Promise<boolean> {
  const { ledger } = parts;
  const { operations, changed } = ledger;
  const more = await planSome(parts, {
    ...context,
    next: (after) => changed.nextPath(after),
    after: operations.lastPath(),
  });
  if (more !== null) {
    await yieldToOthers();
    return true;
  }
  if (!ledger.tasks.has(context.job.n)) await planWaiting(parts, context);
  return beginCommit(parts, context);
}

/** Paths that waited for merges which are done. */
async function planWaiting(parts: PipelineContext, context: JobContext): Promise<void> {
  const { operations } = parts.ledger;
  const next = (after: string | null): string | undefined => operations.nextWaiting(after);
  let after: string | null = null;
  do {
    after = await planSome(parts, { ...context, next, after });
    if (after !== null) await yieldToOthers();
  } while (after !== null);
}

/** One slice of planning; answers the path after which there are more. */
async function planSome(
  parts: PipelineContext,
  context: JobContext & { next: (after: string | null) => string | undefined; after: string | null },
): Promise<string | null> {
  const { ledger } = parts;
  const { job, next } = context;
  let { after } = context;
  let large: string | undefined;
  const more = endStep(ledger, context, () => {
    for (let count = 0; count < SLICE && large === undefined; count++) {
      const path = next(after);
      if (path === undefined) return false;
      if (!planPath(ledger, { path, job: job.n })) large = path;
      after = path;
    }
    return true;
  });
  if (large !== undefined) await planLargePath(parts, { ...context, path: large });
  return more ? after : null;
}

/** From here on the job can end by the commit alone. False where it waits for merges. */
function beginCommit({ ledger, wakes }: PipelineContext, context: JobContext): boolean {
  const { job } = context;
  const waits = endStep(ledger, context, () => {
    if (ledger.tasks.has(job.n)) return true;
    const isLarge = ledger.operations.count(MAX_COMMIT_OPERATIONS + 1) > MAX_COMMIT_OPERATIONS;
    ledger.ending.set(job.n, isLarge ? { step: "stage", after: "" } : { step: "commit", staged: false });
    ledger.jobs.setCommitting(job.n, 1);
    return false;
  });
  if (waits) wakes.queued();
  return !waits;
}

interface PathOfJob {
  readonly path: string;
  /** The job's number. */
  readonly job: number;
}

/** A content that several may have come together to; `merge`: the last merge that made it. */
type Merged = { readonly content: ContentId; readonly merge: string | null };

/**
 * Plans what becomes of a changed path: what its datums write there, put together in order of their keys where they
 * are several. What was merged before is there; the path waits for the rest. False where more datums write it than
 * one merge takes (planLargePath). To be called in a transaction.
 */
function planPath(ledger: Ledger, { path, job }: PathOfJob): boolean {
  const parts = ledger.changed.parts(path, { after: null, limit: MAX_MERGE_PARTS });
  if (parts.length === MAX_MERGE_PARTS) return false;
  ledger.operations.set(path, operationOf());
  return true;

  function operationOf(): PlannedOperation {
    if (parts.length > 0 && isSame(parts, ledger.published.contents(path, MAX_MERGE_PARTS))) {
      // What was published there is made of the same: the commit need not say so again.
      return { state: "same" };
    }
    if (parts.length > 0) return putOf(merged(ledger, { path, job, contents: parts }));
    // All that write it, if any does, write nothing into it: it is an empty file or directory.
    const empty = ledger.changed.firstPart(path);
    return empty ? { state: "put", content: empty, merge: null } : { state: "delete" };
  }
}

/** The same for a path that many datums write: runs of them are merged, then what came of those. */
async function planLargePath(
  { ledger }: PipelineContext,
  context: JobContext & { path: string },
): Promise<void> {
  const { path } = context;
  const job = context.job.n;
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
  endStep(ledger, context, () => ledger.operations.set(path, operation));

  function mergedNow(contents: readonly ContentId[]): Merged | undefined {
    return endStep(ledger, context, () => merged(ledger, { path, job, contents }));
  }
}

/** Contents put together, at most MAX_MERGE_PARTS; undefined where a runner has yet to do it. */
function merged(
  { merges, tasks }: Ledger,
  { path, job, contents }: PathOfJob & { contents: readonly ContentId[] },
): Merged | undefined {
  const [only] = contents;
  if (contents.length === 1 && only) return { content: only, merge: null };
  const id = mergeId(contents);
  const content = merges.use(id, job);
  if (content) return { content, merge: id };
  tasks.addMerge({ id, job, path, parts: contents });
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
