import type { Content } from "../../../blobs/content.ts";
import type { Refused } from "../../../branch/contract/answers.ts";
import type { BranchApi } from "../../../branch/contract/api.ts";
import type { CommitRefused, Committed, Operation } from "../../../branch/contract/files.ts";
import type { JobContext, PipelineContext } from "../../context.ts";
import { lineageOf } from "../../jobs/lineage.ts";
import { errorsOf } from "../../lifecycle/definition.ts";
import type { NotDone } from "../../output/reasons.ts";
import { endStep } from "../guards.ts";

/** A commit that the end of a job makes: of its output, or of what is told of its bad datums. */
export interface JobCommit {
  readonly to: "output" | "errors";
  /** The steps of the end that send its pages, and that make it. */
  readonly steps:
    | { readonly stage: "stage"; readonly commit: "commit" }
    | { readonly stage: "errors-stage"; readonly commit: "errors-commit" };
  /** Operations sent in one call: while a large commit is staged, and with the call that makes one. */
  readonly most: { readonly staged: number; readonly committed: number };
  page(after: string, limit: number): Page;
  /** The branch has it. Null: there was nothing to change. */
  made(commit: string | null): void;
  /** The branch refused it for good. */
  failed(answer: NotDone): void;
}

interface Page {
  readonly operations: readonly Operation[];
  /** Small contents that come along. */
  readonly contents?: readonly Content[];
  /** Where the next page begins; undefined: nothing was left. */
  readonly last: string | undefined;
}

/** How long until a branch that is busy with a large commit is asked again. */
const ASK_AGAIN_MS = 100;

/** Sends one page of a large commit. What is sent again after a crash changes nothing. */
export async function stageCommit(
  context: PipelineContext,
  oldest: JobContext,
  { commit, after }: { commit: JobCommit; after: string },
): Promise<void> {
  const { ledger } = context;
  const { n } = oldest.job;
  const { last, ...page } = commit.page(after, commit.most.staged);
  if (last === undefined) {
    endStep(ledger, oldest, () => ledger.ending.set(n, { step: commit.steps.commit, staged: true }));
    return;
  }
  const answer = await asWriter(context, oldest, {
    to: commit.to,
    ask: (branch, writer) => branch.output.stage({ ...writer, ...page, anew: after === "" }),
  });
  if (!answer.ok) return await refused(context, oldest, { commit, answer });
  endStep(ledger, oldest, () => ledger.ending.set(n, { step: commit.steps.stage, after: last }));
}

/**
 * Makes the commit. The branch knows it by the job's id, so a crash between its commit and our row only asks again. Throws
 * if a peer can't be reached: tried again later.
 */
export async function makeCommit(
  context: PipelineContext,
  oldest: JobContext,
  { commit, staged }: { commit: JobCommit; staged: boolean },
): Promise<void> {
  const { last: _, ...page } = staged
    ? { operations: [], last: undefined }
    : commit.page("", commit.most.committed);
  const lineage = lineageOf(oldest.definition, oldest.job);
  const answer = await asWriter<Committed>(context, oldest, {
    to: commit.to,
    ask: (branch, writer) => branch.output.commit({ ...writer, ...page, lineage, ...(staged && { staged }) }),
  });
  if (answer.ok) commit.made(answer.commit);
  else await refused(context, oldest, { commit, answer });
}

/** The branch did not do it, for now or for good. */
async function refused(
  { ledger }: PipelineContext,
  oldest: JobContext,
  { commit, answer }: { commit: JobCommit; answer: NotDone },
): Promise<void> {
  const { stage, commit: make } = commit.steps;
  switch (answer.reason) {
    case "applying":
    case "busy":
      await scheduler.wait(ASK_AGAIN_MS);
      return;
    case "reclaimed":
    case "no-such-open-commit":
      // What was staged under the claim before may be gone.
      endStep(ledger, oldest, () => {
        const at = ledger.ending.get()?.at;
        if (at?.step === stage || (at?.step === make && at.staged)) {
          ledger.ending.set(oldest.job.n, { step: stage, after: "" });
        }
      });
      return;
    default:
      commit.failed(answer);
  }
}

/** As whom a branch of the pipeline is written to. */
interface Writer {
  readonly uid: string;
  readonly epoch: number;
  /** The job's id. */
  readonly origin: string;
}

/** What is asked, and of which of the pipeline's branches. */
interface Asked<Good> {
  readonly to: "output" | "errors";
  readonly ask: (branch: BranchApi, writer: Writer) => Promise<Good | CommitRefused | Refused<"applying">>;
}

/**
 * Asks a branch of the pipeline for something under our epoch. If the claim is lost, claims the branch again: it is this
 * pipeline's while it lives. Throws if a peer can't be reached.
 */
async function asWriter<Good extends { readonly ok: true }>(
  { ledger, peers }: PipelineContext,
  { definition, job }: JobContext,
  { to, ask }: Asked<Good>,
): Promise<Good | NotDone> {
  const { uid, name, output } = definition;
  const isOutput = to === "output";
  const branch = peers.branch(isOutput ? output : errorsOf(definition));
  const epoch = (isOutput ? ledger.pipeline.row()?.epoch : ledger.errorsClaim.get(uid)?.epoch) ?? 0;
  const answer = await ask(branch, { uid, epoch, origin: job.id });
  if (answer.ok || (answer.reason !== "lost-claim" && answer.reason !== "no-such-branch")) return answer;
  const claim = await branch.output.claim({ pipeline: name, uid });
  if (!claim.ok) {
    if (claim.reason === "catalogue-unavailable") throw new Error("the catalogue can't be reached");
    return { ok: false, reason: "claim-refused", why: claim.reason };
  }
  ledger.endingStep(definition, () => {
    if (isOutput) ledger.pipeline.setEpoch(claim.epoch);
    else {
      ledger.errorsClaim.take(uid, claim.epoch);
      ledger.errorsClaim.settle(uid);
    }
  });
  return { ok: false, reason: "reclaimed" };
}
