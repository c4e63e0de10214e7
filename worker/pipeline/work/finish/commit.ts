import { MAX_COMMIT_OPERATIONS } from "../../../../protocol/files.ts";
import type { Content } from "../../../blobs/content.ts";
import type { Refused } from "../../../branch/contract/answers.ts";
import type { BranchApi } from "../../../branch/contract/api.ts";
import type { CommitRefused, Committed, Operation } from "../../../branch/contract/files.ts";
import type { JobWork } from "../../context.ts";
import { errorsOf } from "../../lifecycle/definition.ts";
import type { Changed } from "../../output/draft-store.ts";
import { leftOutText, type NotDone, refusalText } from "../../output/reasons.ts";
import { endStep } from "../guards.ts";
import { endOldest, failOldest, lineageOf } from "../jobs.ts";

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
export async function stageCommit(oldest: JobWork, commit: JobCommit, after: string): Promise<void> {
  const { ending } = oldest.ledger;
  const { n } = oldest.job;
  const { last, ...page } = commit.page(after, commit.most.staged);
  if (last === undefined) {
    endStep(oldest, () => ending.set(n, { step: commit.steps.commit, staged: true }));
    return;
  }
  const answer = await asWriter(oldest, commit.to, (branch, writer) =>
    branch.output.stage({ ...writer, ...page, anew: after === "" }),
  );
  if (!answer.ok) return await refused(oldest, commit, answer);
  endStep(oldest, () => ending.set(n, { step: commit.steps.stage, after: last }));
}

/**
 * Makes the commit. The branch knows it by the job's id, so a crash between its commit and our row only asks again. Throws
 * if a peer can't be reached: tried again later.
 */
export async function makeCommit(
  oldest: JobWork,
  commit: JobCommit,
  { staged }: { staged: boolean },
): Promise<void> {
  const { last: _, ...page } = staged
    ? { operations: [], last: undefined }
    : commit.page("", commit.most.committed);
  const lineage = lineageOf(oldest.definition, oldest.job);
  const answer = await asWriter<Committed>(oldest, commit.to, (branch, writer) =>
    branch.output.commit({ ...writer, ...page, lineage, ...(staged && { staged }) }),
  );
  if (answer.ok) commit.made(answer.commit);
  else await refused(oldest, commit, answer);
}

/** The branch did not do it, for now or for good. */
async function refused(oldest: JobWork, commit: JobCommit, answer: NotDone): Promise<void> {
  const { ending } = oldest.ledger;
  const { stage, commit: make } = commit.steps;
  switch (answer.reason) {
    case "applying":
    case "busy":
      await scheduler.wait(ASK_AGAIN_MS);
      return;
    case "reclaimed":
    case "no-such-open-commit":
      // What was staged under the claim before may be gone.
      endStep(oldest, () => {
        const at = ending.get()?.at;
        if (at?.step === stage || (at?.step === make && at.staged))
          ending.set(oldest.job.n, { step: stage, after: "" });
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

/**
 * Asks a branch of the pipeline for something under our epoch. If the claim is lost, claims the branch again: it is this
 * pipeline's while it lives. Throws if a peer can't be reached.
 */
async function asWriter<Good extends { readonly ok: true }>(
  { ledger, peers, definition, job }: JobWork,
  to: JobCommit["to"],
  ask: (branch: BranchApi, writer: Writer) => Promise<Good | CommitRefused | Refused<"applying">>,
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
    if (isOutput) ledger.pipeline.set({ epoch: claim.epoch });
    else {
      ledger.errorsClaim.take(uid, claim.epoch);
      ledger.errorsClaim.settle(uid);
    }
  });
  return { ok: false, reason: "reclaimed" };
}

/** Operations sent in one call, of those that are more than a commit takes at once. */
const STAGE_PAGE = 2000;
/** Rows of a commit recorded in one transaction. */
const RECORD = 500;

/** The commit of what the job's datums wrote. */
export function outputCommit(oldest: JobWork): JobCommit {
  const { ledger, definition } = oldest;
  return {
    to: "output",
    steps: { stage: "stage", commit: "commit" },
    most: { staged: STAGE_PAGE, committed: MAX_COMMIT_OPERATIONS },
    page(after, limit) {
      const rows = ledger.operations.page({ after, limit });
      return { operations: rows.map(({ operation }) => operation), last: rows.at(-1)?.path };
    },
    made: (commit) => recordCommit(oldest, commit),
    failed(answer) {
      if (answer.reason !== "no-such-content") {
        failOldest(oldest, refusalText(ledger.changed, { definition, refused: answer }));
      } else if (!redoContent(oldest, answer.path)) failOldest(oldest, "the content of an output is gone");
    },
  };
}

/**
 * One slice of recording what the commit changed, and what the external store lacks by it. The next job builds upon
 * that, so only then can this one end. `commit`: it was made just now.
 */
export function recordCommit(oldest: JobWork, commit?: string | null): void {
  const { ledger, job, definition } = oldest;
  const { egress } = definition.spec;
  endStep(oldest, (tx) => {
    if (commit !== undefined) {
      ledger.jobs.setCommitted(job.n, commit);
      ledger.ending.set(job.n, { step: "publish" });
    }
    if (recordWritten() || ledger.operations.clear(RECORD)) return;
    ledger.pipeline.setCommitted(job.n);
    if (ledger.egress.hasMoved || (egress && ledger.egress.isPending())) {
      ledger.jobs.setEgressing(job.n);
      ledger.ending.set(job.n, { step: "push" });
    } else {
      ledger.ending.remove();
      endOldest(tx, oldest, { job, state: "success", reason: leftOutText(definition, job) });
    }
  });

  /** Returns whether there is more. */
  function recordWritten(): boolean {
    const rows = ledger.changed.take(RECORD);
    for (const row of rows) {
      if (row.id === null) ledger.published.remove(row);
      else ledger.published.add(row);
      // If results go elsewhere by now, all of the output goes there anyway.
      if (egress && !ledger.egress.hasMoved) addPending(row);
    }
    return rows.length === RECORD;
  }

  function addPending(row: Changed): void {
    const { path } = row;
    const planned = ledger.operations.at(path);
    if (planned === undefined && row.id !== null) ledger.egress.add({ path, content: row });
    else if (planned) ledger.egress.add({ path, content: "delete" in planned ? null : planned });
  }
}

/** Runs a datum again: its result was dropped since it was counted as done, or its content is gone. */
export function redoDatum(oldest: JobWork, datum: { readonly id: string; readonly key: string }): void {
  const { ledger, memory } = oldest;
  const { n } = oldest.job;
  endStep(oldest, () => {
    if (!ledger.jobs.setCommitting(n, null)) return;
    ledger.results.drop(datum.id);
    ledger.datums.replace(datum.key, n);
    ledger.attempts.redo(n, datum);
    ledger.ending.set(n, { step: "clear" });
  });
  memory.queued.wakeOne();
}

/**
 * The content that the commit puts to a path is gone: does again what made it, a merge or a datum. Returns false if
 * that is not known.
 */
function redoContent(oldest: JobWork, path: string): boolean {
  const { ledger } = oldest;
  const merge = ledger.operations.mergeOf(path);
  if (merge !== null) {
    redoMerge(oldest, { path, merge });
    return true;
  }
  const [part = ledger.changed.firstPart(path)] = ledger.changed.parts(path, { after: null, limit: 1 });
  const datum = part && ledger.datums.at(part.key, oldest.job.n);
  if (datum) redoDatum(oldest, datum);
  return datum !== undefined;
}

function redoMerge(oldest: JobWork, { path, merge }: { path: string; merge: string }): void {
  const { ledger } = oldest;
  const { n } = oldest.job;
  endStep(oldest, () => {
    if (!ledger.jobs.setCommitting(n, null)) return;
    ledger.merges.drop(merge);
    ledger.operations.set(path, { state: "waits" });
    ledger.ending.set(n, { step: "plan" });
  });
}
