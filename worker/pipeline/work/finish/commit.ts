import { MAX_COMMIT_OPERATIONS } from "../../../../protocol/files.ts";
import type { Committed } from "../../../branch/contract.ts";
import type { JobContext, PipelineContext } from "../../context.ts";
import { lineageOf } from "../../jobs/lineage.ts";
import { leftOutText, type NotDone, refusalText } from "../../output/reasons.ts";
import { endStep } from "../guards.ts";
import { endOldest, failOldest } from "../jobs/end.ts";
import { asWriter } from "./as-writer.ts";
import { redoContent } from "./redo.ts";

/** Operations sent in one call, of those that are more than a commit takes at once. */
const STAGE_PAGE = 2000;
/** How long until a branch that is busy with a large commit is asked again. */
const ASK_AGAIN_MS = 100;
/** Rows of a commit recorded in one transaction. */
const RECORD = 500;

/** Sends one page of a large commit. What is sent again after a crash changes nothing. */
export async function stagePage(context: PipelineContext, oldest: JobContext, after: string): Promise<void> {
  const { ledger } = context;
  const { n } = oldest.job;
  const page = ledger.operations.page({ after, limit: STAGE_PAGE });
  const last = page.at(-1);
  if (!last) {
    endStep(ledger, oldest, () => ledger.ending.set(n, { step: "commit", staged: true }));
    return;
  }
  const operations = page.map(({ operation }) => operation);
  const answer = await asWriter(context, oldest, {
    to: "output",
    ask: (branch, writer) => branch.stageOutput({ ...writer, operations, anew: after === "" }),
  });
  if (answer.ok) endStep(ledger, oldest, () => ledger.ending.set(n, { step: "stage", after: last.path }));
  else await refused(context, oldest, answer);
}

/**
 * The output commit. The branch knows it by the job's id, so a crash between its commit and our row only asks again.
 * Throws if a peer can't be reached: tried again later.
 */
export async function commitOutput(
  context: PipelineContext,
  oldest: JobContext,
  staged: boolean,
): Promise<void> {
  const page = staged ? [] : context.ledger.operations.page({ after: "", limit: MAX_COMMIT_OPERATIONS });
  const operations = page.map(({ operation }) => operation);
  const lineage = lineageOf(oldest.definition, oldest.job);
  const answer = await asWriter<Committed>(context, oldest, {
    to: "output",
    ask: (branch, writer) =>
      branch.commitOutput({ ...writer, operations, lineage, ...(staged && { staged }) }),
  });
  if (answer.ok) recordCommit(context, oldest, answer.commit);
  else await refused(context, oldest, answer);
}

/**
 * One slice of recording what the commit changed, and what the external store lacks by it. The next job builds upon
 * that, so only then can this one end. `commit`: it was made just now.
 */
export function recordCommit(context: PipelineContext, oldest: JobContext, commit?: string | null): void {
  const { ledger, wakes } = context;
  const { job, definition } = oldest;
  const { egress } = definition.spec;
  endStep(ledger, oldest, (tx) => {
    if (commit !== undefined) {
      ledger.jobs.setCommitted(job.n, commit);
      ledger.ending.set(job.n, { step: "publish" });
    }
    if (recordWritten() || addPending()) return;
    ledger.pipeline.setCommitted(job.n);
    if (ledger.egress.hasMoved || (egress && ledger.egress.isPending())) {
      ledger.jobs.setEgressing(job.n);
      ledger.ending.set(job.n, { step: "push" });
    } else {
      ledger.ending.remove();
      endOldest(tx, context, { job, state: "success", reason: leftOutText(definition, job) });
    }
  });
  wakes.outbox();

  /** Returns whether there is more. */
  function recordWritten(): boolean {
    const rows = ledger.changed.take(RECORD);
    for (const row of rows) {
      if (row.id === null) ledger.published.remove(row);
      else ledger.published.add(row);
    }
    return rows.length === RECORD;
  }

  /** Returns whether there is more. If results go elsewhere by now, all of the output goes there anyway. */
  function addPending(): boolean {
    const rows = ledger.operations.take(RECORD);
    for (const { operation } of rows) {
      if (!egress || !operation || ledger.egress.hasMoved) continue;
      if ("delete" in operation) ledger.egress.add({ path: operation.delete, content: null });
      else ledger.egress.add({ path: operation.put, content: operation });
    }
    return rows.length === RECORD;
  }
}

/** The branch did not do it, for now or for good. */
async function refused(context: PipelineContext, oldest: JobContext, answer: NotDone): Promise<void> {
  const { ledger } = context;
  const { job, definition } = oldest;
  switch (answer.reason) {
    case "applying":
    case "busy":
      await scheduler.wait(ASK_AGAIN_MS);
      return;
    case "reclaimed":
    case "no-such-open-commit":
      endStep(ledger, oldest, restage);
      return;
    case "no-such-content":
      if (!redoContent(context, oldest, answer.path)) fail("the content of an output is gone");
      return;
    case "claim-refused":
      return fail(`the output branch can't be claimed: ${answer.why}`);
    default:
      fail(refusalText(ledger.changed, { definition, refused: answer }));
  }

  /** What was staged under the claim before may be gone. */
  function restage(): void {
    const at = ledger.ending.get()?.at;
    if (at?.step === "stage" || (at?.step === "commit" && at.staged)) {
      ledger.ending.set(job.n, { step: "stage", after: "" });
    }
  }

  function fail(reason: string): void {
    failOldest(context, oldest, reason);
  }
}
