import { MAX_COMMIT_OPERATIONS } from "../../../protocol/files.ts";
import type { BranchApi, CommitRefused, Committed, Refused } from "../../branch/contract.ts";
import type { JobContext, PipelineContext } from "../context.ts";
import { endJob, endNow, tellOfEnd } from "../jobs/end.ts";
import { endStep } from "../ledger/guards.ts";
import { type NotDone, refusalText } from "./reasons.ts";
import { redoContent } from "./redo.ts";

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

/** Rows moved in one transaction. */
const SLICE = 500;

/**
 * One slice of what follows from the commit: what is published, and what the external store lacks by it. The next job
 * builds upon that, so only then can this one end. `commit`: the commit was made just now.
 */
export function publishSlice(parts: PipelineContext, context: JobContext & { commit?: string | null }): void {
  const { ledger, wakes } = parts;
  const { job, definition, commit } = context;
  const { egress } = definition.spec;
  const left = endStep(ledger, context, () => {
    if (commit !== undefined) {
      ledger.jobs.setCommitted(job.n, commit);
      ledger.ending.set(job.n, { step: "publish" });
    }
    if (publishSome() || addPushes()) return "more";
    ledger.pipeline.setCommitted(job.n);
    if (ledger.egress.hasMoved || (egress && ledger.egress.isPending())) {
      ledger.jobs.setEgressing(job.n);
      ledger.ending.set(job.n, { step: "push" });
      return "pushes";
    }
    ledger.ending.remove();
    endNow(parts, { job, end: { state: "success", reason: null } });
    return "nothing";
  });
  if (left === "nothing") tellOfEnd(parts, job.id);
  else wakes.outbox();

  /** Answers whether there is more. */
  function publishSome(): boolean {
    const rows = ledger.changed.take(SLICE);
    for (const row of rows) {
      if (row.id === null) ledger.published.remove(row);
      else ledger.published.add(row);
    }
    return rows.length === SLICE;
  }

  /** Answers whether there is more. Where results go elsewhere by now, everything is pushed there anyway. */
  function addPushes(): boolean {
    const rows = ledger.operations.take(SLICE);
    for (const { operation } of rows) {
      if (!egress || !operation || ledger.egress.hasMoved) continue;
      if ("delete" in operation) ledger.egress.add({ path: operation.delete, content: null });
      else ledger.egress.add({ path: operation.put, content: operation });
    }
    return rows.length === SLICE;
  }
}

/** As whom an output branch is written to. */
interface Writer {
  readonly uid: string;
  readonly epoch: number;
  /** The job's id. */
  readonly origin: string;
}

/**
 * Asks the output branch for something under our epoch. Who lost the claim takes it again: the output is this
 * pipeline's while it lives. Throws where a peer can't be reached.
 */
async function asWriter<Good extends { readonly ok: true }>(
  { ledger, peers }: PipelineContext,
  { definition, job }: JobContext,
  ask: (branch: BranchApi, writer: Writer) => Promise<Good | CommitRefused | Refused<"applying">>,
): Promise<Good | NotDone> {
  const { uid, name, output } = definition;
  const branch = peers.branch(output);
  const epoch = ledger.pipeline.row()?.epoch ?? 0;
  const answer = await ask(branch, { uid, epoch, origin: job.id });
  if (answer.ok || (answer.reason !== "lost-claim" && answer.reason !== "no-such-branch")) return answer;
  const claim = await branch.claim({ pipeline: name, uid });
  if (!claim.ok) {
    if (claim.reason === "catalogue-unavailable") throw new Error("the catalogue can't be reached");
    return { ok: false, reason: "claim-refused", why: claim.reason };
  }
  ledger.endingStep(definition, () => ledger.pipeline.setEpoch(claim.epoch));
  return { ok: false, reason: "reclaimed" };
}
