import { MAX_COMMIT_OPERATIONS } from "../../../protocol/files.ts";
import { type JobContext, type PipelineContext, yieldToOthers } from "../context.ts";
import { endStep } from "../ledger/job-steps.ts";
import { planLargePath, planPath } from "./plan-path.ts";

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
