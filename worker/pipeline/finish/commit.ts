import { MAX_COMMIT_OPERATIONS } from "../../../protocol/files.ts";
import type { Committed } from "../../branch/contract.ts";
import type { JobContext, PipelineContext } from "../context.ts";
import { endJob } from "../jobs/end.ts";
import { endStep } from "../ledger/job-steps.ts";
import { asWriter, type NotDone } from "./claimed-output.ts";
import { publishSlice } from "./publish.ts";
import { redoContent } from "./redo.ts";
import { refusalText } from "./refusal-text.ts";

/** Operations sent in one call, of those that are more than a commit takes at once. */
const STAGE_PAGE = 2000;
/** How long until a branch that is busy with a large commit is asked again. */
const ASK_AGAIN_MS = 100;

/** Sends one page of a large commit. What is sent again after a crash changes nothing. */
export async function stagePage(
  parts: PipelineContext,
  context: JobContext & { after: string },
): Promise<void> {
  const { ledger } = parts;
  const { job, after } = context;
  const page = ledger.operations.page({ after, limit: STAGE_PAGE });
  const last = page.at(-1);
  if (!last) {
    endStep(ledger, context, () => ledger.ending.set(job.n, { step: "commit", staged: true }));
    return;
  }
  const operations = page.map(({ operation }) => operation);
  const answer = await asWriter(parts, context, (branch, writer) =>
    branch.stageOutput({ ...writer, operations, anew: after === "" }),
  );
  if (answer.ok)
    endStep(ledger, context, () => ledger.ending.set(job.n, { step: "stage", after: last.path }));
  else await refused(parts, { ...context, answer });
}

/**
 * The output commit. The branch knows it by the job's id, so a crash between its commit and our row only asks again.
 * From the moment that we ask, the job can end by the answer alone: whoever wants to stop it before that comes first
 * or too late. Throws where a peer can't be reached: tried again later.
 */
export async function commitOutput(
  parts: PipelineContext,
  context: JobContext & { staged: boolean },
): Promise<void> {
  const { ledger } = parts;
  const { staged } = context;
  const page = staged ? [] : ledger.operations.page({ after: "", limit: MAX_COMMIT_OPERATIONS });
  const operations = page.map(({ operation }) => operation);
  const answer = await asWriter<Committed>(parts, context, (branch, writer) =>
    branch.commitOutput({ ...writer, operations, ...(staged && { staged }) }),
  );
  if (answer.ok) publishSlice(parts, { ...context, commit: answer.commit });
  else await refused(parts, { ...context, answer });
}

/** The branch did not do it, for now or for good. */
async function refused(parts: PipelineContext, context: JobContext & { answer: NotDone }): Promise<void> {
  const { ledger } = parts;
  const { job, definition, answer } = context;
  switch (answer.reason) {
    case "applying":
    case "busy":
      await scheduler.wait(ASK_AGAIN_MS);
      return;
    case "reclaimed":
    case "no-such-open-commit":
      endStep(ledger, context, restage);
      return;
    case "no-such-content":
      if (!redoContent(parts, { ...context, path: answer.path })) fail("the content of an output is gone");
      return;
    case "claim-refused":
      return fail(`the output branch can't be claimed: ${answer.why}`);
    default:
      fail(refusalText(ledger, { definition, refused: answer }));
  }

  /** What was staged under the claim before may be gone. */
  function restage(): void {
    const at = ledger.ending.get()?.at;
    if (at?.step === "stage" || (at?.step === "commit" && at.staged)) {
      ledger.ending.set(job.n, { step: "stage", after: "" });
    }
  }

  function fail(reason: string): void {
    endJob(parts, { ...context, end: { state: "failure", reason } });
  }
}
