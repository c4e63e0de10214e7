import { MAX_COMMIT_OPERATIONS } from "../../../../protocol/files.ts";
import type { JobContext, PipelineContext } from "../../context.ts";
import { leftOutText, refusalText } from "../../output/reasons.ts";
import { endStep } from "../guards.ts";
import { endOldest, failOldest } from "../jobs/end.ts";
import type { JobCommit } from "./job-commit.ts";
import { redoContent } from "./redo.ts";

/** Operations sent in one call, of those that are more than a commit takes at once. */
const STAGE_PAGE = 2000;
/** Rows of a commit recorded in one transaction. */
const RECORD = 500;

/** The commit of what the job's datums wrote. */
export function outputCommit(context: PipelineContext, oldest: JobContext): JobCommit {
  const { ledger } = context;
  const fail = (reason: string): void => failOldest(context, oldest, reason);
  return {
    to: "output",
    steps: { stage: "stage", commit: "commit" },
    most: { staged: STAGE_PAGE, committed: MAX_COMMIT_OPERATIONS },
    page(after, limit) {
      const rows = ledger.operations.page({ after, limit });
      return { operations: rows.map(({ operation }) => operation), last: rows.at(-1)?.path };
    },
    made: (commit) => recordCommit(context, oldest, commit),
    failed(answer) {
      if (answer.reason !== "no-such-content") {
        fail(refusalText(ledger.changed, { definition: oldest.definition, refused: answer }));
      } else if (!redoContent(context, oldest, answer.path)) fail("the content of an output is gone");
    },
  };
}

/**
 * One slice of recording what the commit changed, and what the external store lacks by it. The next job builds upon
 * that, so only then can this one end. `commit`: it was made just now.
 */
export function recordCommit(context: PipelineContext, oldest: JobContext, commit?: string | null): void {
  const { ledger } = context;
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
