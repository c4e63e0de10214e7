import { MAX_COMMIT_OPERATIONS } from "../../protocol/files.ts";
import { PATH_FAULT_TEXT } from "../../protocol/paths.ts";
import type { CommitRefused, Committed } from "../branch/contract.ts";
import { endJob } from "./end-job.ts";
import { datumText } from "./failure-text.ts";
import { runningStep } from "./job-steps.ts";
import { type OutputChange, outputChange } from "./output-change.ts";
import type { JobContext, Parts } from "./parts.ts";

/**
 * The output commit of the front, all of whose datums have a result. The branch knows the commit by the job's id, so
 * a crash between its commit and our row only asks again. From the moment that we ask, the job can end by the answer
 * alone: whoever wants to stop it before that comes first or too late. Throws where a peer can't be reached: tried
 * again later.
 */
export async function commitJob(parts: Parts, context: JobContext): Promise<void> {
  const { ledger } = parts;
  const { definition, job } = context;
  const committed = ledger.pipeline.row()?.committed ?? 0;
  const built = await outputChange(ledger, { job, committed });
  if (!built.ok && built.reason === "no-result") return redo(built.id);
  if (!built.ok) {
    const reason =
      built.reason === "too-many"
        ? `the output changes more than ${MAX_COMMIT_OPERATIONS} files, which is more than one commit takes for now`
        : `the datums ${named(built.ids[0])} and ${named(built.ids[1])} both wrote '${built.path}': let each datum write paths of its own`;
    return fail(reason);
  }
  const { change } = built;
  if (job.committing === 0 && !beginCommit()) return;
  const answer = await commitOutput(parts, { ...context, change });
  if (typeof answer === "string") return fail(answer);
  if (answer.ok) return succeed(answer.commit);
  if (answer.reason === "no-such-content") return redo(change.putBy.get(answer.path));
  return fail(refusalText(answer));

  /** False where the job was ended meanwhile. */
  function beginCommit(): boolean {
    return runningStep(ledger, context, () => ledger.jobs.setCommitting(job.n, 1)) ?? false;
  }

  function succeed(commit: string | null): void {
    endJob(parts, {
      ...context,
      end: { state: "success", reason: null, outputCommit: commit },
      also: () => {
        for (const { path, ...owner } of change.lost) ledger.published.remove(path, owner);
        for (const { path, ...owner } of change.gained) ledger.published.add(path, owner);
        ledger.pipeline.setCommitted(job.n);
      },
    });
  }

  function fail(reason: string): void {
    endJob(parts, { ...context, end: { state: "failure", reason, outputCommit: null } });
  }

  /** A result without its content is none: the datum runs again. */
  function redo(id: string | undefined): void {
    const key = id === undefined ? undefined : ledger.datums.keyOf(id);
    if (id === undefined || key === undefined) {
      fail("the content of an output is gone");
      return;
    }
    ledger.endingStep(definition, () => {
      if (!ledger.jobs.setCommitting(job.n, 0)) return;
      ledger.results.drop(id);
      ledger.attempts.redo(job.n, { id, key });
    });
    parts.wakes.queued();
  }

  function refusalText(refused: CommitRefused): string {
    if (refused.reason === "path-conflict") return conflictText(refused);
    if (refused.reason === "bad-path")
      return `the output path '${refused.path}' can't be stored: ${PATH_FAULT_TEXT[refused.fault]}`;
    return `the output branch refused the commit: ${refused.reason}`;
  }

  function conflictText({ path, other }: { path: string; other: string }): string {
    const writers = [path, other].map((at) => `'${at}' by ${ownerText(at)}`);
    return `a path can't be a file and a directory at once: ${writers.join(", ")}`;
  }

  function ownerText(path: string): string {
    const plain = path.endsWith("/") ? path.slice(0, -1) : path;
    const at = ledger.published.firstUnder(plain) ?? "";
    const under = [...change.putBy.keys()].find((put) => put.startsWith(`${plain}/`)) ?? "";
    const candidates = [path, plain, under, at];
    const id = candidates
      .flatMap((name) => [change.putBy.get(name), ...ledger.published.owners(name).map((owner) => owner.id)])
      .find((owner) => owner !== undefined && ledger.datums.aliveAt(owner, job.n));
    return id === undefined ? "an unknown datum" : `datum ${named(id)}`;
  }

  function named(id: string): string {
    const key = ledger.datums.keyOf(id);
    return key === undefined ? id : datumText(definition, key);
  }
}

/** Commits under our epoch. Who lost the claim takes it again, once: the output is this pipeline's while it lives. */
async function commitOutput(
  { ledger, peers }: Parts,
  { definition, job, change }: JobContext & { change: OutputChange },
): Promise<Committed | CommitRefused | string> {
  const { uid, name } = definition;
  const branch = peers.branch(definition.output);
  const { operations } = change;
  const epoch = ledger.pipeline.row()?.epoch ?? 0;
  const answer = await branch.commitOutput({ uid, epoch, origin: job.id, operations });
  if (answer.ok || (answer.reason !== "lost-claim" && answer.reason !== "no-such-branch")) return answer;
  const claim = await branch.claim({ pipeline: name, uid });
  if (!claim.ok) {
    if (claim.reason === "catalogue-unavailable") throw new Error("the catalogue can't be reached");
    return `the output branch can't be claimed: ${claim.reason}`;
  }
  ledger.endingStep(definition, () => ledger.pipeline.setEpoch(claim.epoch));
  return branch.commitOutput({ uid, epoch: claim.epoch, origin: job.id, operations });
}
