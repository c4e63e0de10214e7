import type { BranchApi } from "../../../branch/contract/api.ts";
import type { JobWork } from "../../context.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import { leftOutText } from "../../output/reasons.ts";
import { endStep } from "../guards.ts";
import { endOldest } from "../jobs.ts";

/** Rows added or removed in one transaction. */
const SLICE = 1000;

/** The job has ended well if nothing is pending. Returns false while it waits for runners. */
export function awaitEgress(oldest: JobWork): boolean {
  const { ledger, memory, job, definition } = oldest;
  const goesOn = endStep(oldest, (tx) => {
    if (ledger.egress.hasMoved) {
      // A runner that is at a task for the store of before has sent nothing.
      ledger.tasks.callOffEgress();
      ledger.ending.set(job.n, { step: "forget" });
      return true;
    }
    if (definition.spec.egress && ledger.egress.isPending()) return false;
    ledger.ending.remove();
    const reason = ledger.jobs.get(job.n)?.reason ?? leftOutText(definition, job);
    endOldest(tx, oldest, { job, state: "success", reason });
    return true;
  });
  if (goesOn === false) memory.queued.wakeOne();
  return goesOn !== false;
}

/** One slice of forgetting what was pending for a store to which results do not go any more. */
export function forgetPending(oldest: JobWork): void {
  const { ledger, job, definition } = oldest;
  endStep(oldest, () => {
    if (ledger.egress.forget(SLICE)) return;
    if (definition.spec.egress) ledger.ending.set(job.n, { step: "list", after: "" });
    else arrive(ledger, job.n);
  });
}

/** One page of the output branch, all of which a new external store lacks. Throws if the branch can't be reached. */
export async function listOutput(oldest: JobWork, after: string): Promise<void> {
  const { ledger, peers, job, definition } = oldest;
  const page = await pageOf(peers.branch(definition.output), { commit: job.outputCommit, after });
  endStep(oldest, () => {
    for (const { path, digest, size } of page.files) ledger.egress.add({ path, content: { digest, size } });
    if (page.next === null) arrive(ledger, job.n);
    else ledger.ending.set(job.n, { step: "list", after: page.next });
  });
}

/** What is pending is all that the store lacks. */
function arrive({ egress, ending }: Ledger, job: number): void {
  egress.arrive();
  ending.set(job, { step: "push" });
}

interface Page {
  readonly files: readonly { readonly path: string; readonly digest: string; readonly size: number }[];
  readonly next: string | null;
}

/** Some files as they were at a commit; none if the branch is gone. */
async function pageOf(
  branch: BranchApi,
  { commit, after }: { commit: string | null; after: string },
): Promise<Page> {
  if (commit === null) return { files: [], next: null };
  const listed = await branch.files.list({ prefix: "", after, limit: SLICE, commit, anyGeneration: true });
  if (!listed.ok) return { files: [], next: null };
  return {
    files: listed.entries.flatMap((entry) => (entry.kind === "file" ? [entry] : [])),
    next: listed.next,
  };
}
