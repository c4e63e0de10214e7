import type { BranchApi } from "../../branch/contract.ts";
import type { JobContext, PipelineContext } from "../context.ts";
import { endNow, tellOfEnd } from "../jobs/end.ts";
import { endStep } from "../ledger/guards.ts";

/** Rows added or removed in one transaction. */
const SLICE = 1000;

/** The job has ended well where nothing is left to be pushed. False where it waits for runners to push. */
export function pushOutput(parts: PipelineContext, context: JobContext): boolean {
  const { ledger, wakes } = parts;
  const { job, definition } = context;
  const left = endStep(ledger, context, () => {
    if (ledger.egress.hasMoved) {
      // Whoever is pushing to where results went before has pushed nothing.
      ledger.tasks.callOffPushes();
      ledger.ending.set(job.n, { step: "forget" });
      return "more";
    }
    if (definition.spec.egress && ledger.egress.isPending()) return "pushes";
    ledger.ending.remove();
    endNow(parts, { job, end: { state: "success", reason: null } });
    return "nothing";
  });
  if (left === "nothing") tellOfEnd(parts, job.id);
  if (left === "pushes") wakes.queued();
  return left !== "pushes";
}

/** One slice of forgetting what was pending for where results do not go any more. */
export function forgetPushes({ ledger }: PipelineContext, context: JobContext): void {
  const { job, definition } = context;
  endStep(ledger, context, () => {
    if (ledger.egress.forget(SLICE)) return;
    if (definition.spec.egress) ledger.ending.set(job.n, { step: "list", after: "" });
    else arrive(ledger, job.n);
  });
}

/** One page of the output branch, all of which a new external store lacks. Throws where the branch can't be reached. */
export async function listPushes(
  { ledger, peers }: PipelineContext,
  context: JobContext & { after: string },
): Promise<void> {
  const { job, definition, after } = context;
  const page = await pageOf(peers.branch(definition.output), { commit: job.outputCommit, after });
  endStep(ledger, context, () => {
    for (const { path, digest, size } of page.files) ledger.egress.add({ path, content: { digest, size } });
    if (page.next === null) arrive(ledger, job.n);
    else ledger.ending.set(job.n, { step: "list", after: page.next });
  });
}

/** What is pending is all that is to be pushed. */
function arrive({ egress, ending }: PipelineContext["ledger"], job: number): void {
  egress.arrive();
  ending.set(job, { step: "push" });
}

interface Page {
  readonly files: readonly { readonly path: string; readonly digest: string; readonly size: number }[];
  readonly next: string | null;
}

/** Some files as they were at a commit; none where the branch is gone. */
async function pageOf(
  branch: BranchApi,
  { commit, after }: { commit: string | null; after: string },
): Promise<Page> {
  if (commit === null) return { files: [], next: null };
  const listed = await branch.list({ prefix: "", after, limit: SLICE, commit, anyGeneration: true });
  if (!listed.ok) return { files: [], next: null };
  return {
    files: listed.entries.flatMap((entry) => (entry.kind === "file" ? [entry] : [])),
    next: listed.next,
  };
}
