import { type ContentId, INLINE_LIMIT_BYTES } from "../../../protocol/content.ts";
import { type BranchAddress, bucketName, parseUploadId } from "../../../protocol/names.ts";
import type { Outcome } from "../../../protocol/runner.ts";
import type { Content } from "../../blobs/content.ts";
import type { BranchApi } from "../../branch/contract/api.ts";
import { branchError } from "../answer/failures.ts";
import { invalidField } from "../request/issues.ts";
import { inlineContent } from "../uploads.ts";

/** The outcome of a datum or task, and the small contents that came with the message, verified. */
export interface ReadOutcome {
  readonly outcome: Outcome;
  readonly contents: readonly Content[];
}

/** Takes the contents out of the outcomes. `output`: the output branch of the pipeline. */
export function readOutcomes(outcomes: readonly Outcome[], output: BranchAddress): ReadOutcome[] {
  return outcomes.map((outcome, index) => {
    if (outcome.state !== "success" && outcome.state !== "merged") return { outcome, contents: [] };
    const path = `outcomes[${index}]`;
    if (outcome.upload !== undefined) checkUpload(outcome.upload, { path: `${path}.upload`, output });
    if (outcome.state === "merged") {
      const { bytes, ...merged } = outcome;
      return { outcome: merged, contents: contentOf({ ...outcome.content, bytes }, path) };
    }
    return {
      outcome: { ...outcome, outputs: outcome.outputs.map(({ bytes: _, ...named }) => named) },
      // An empty directory has no content.
      contents: outcome.outputs.flatMap((each, at) =>
        each.path.endsWith("/") ? [] : contentOf(each, `${path}.outputs[${at}]`),
      ),
    };
  });
}

/** Outcomes whose contents are kept. */
export interface Kept {
  /** Each with the upload that keeps its contents. */
  readonly outcomes: readonly Outcome[];
  /** Uploads that were opened for these outcomes, and that nothing else can name. */
  readonly shared: readonly string[];
}

/**
 * Adds the contents to the output branch, one call an upload. An outcome may name its upload. Those without one share
 * an upload. Merged contents share one of their own, because it is given up with them, earlier than that of the outputs.
 * If an upload is closed, its lease is lost: the outcome must not take along those that came with it, so it is passed on
 * as a failure, which a lost lease does not record.
 */
export async function keepContents(branch: BranchApi, read: readonly ReadOutcome[]): Promise<Kept> {
  const shared = {
    success: await sharedUpload(branch, firstWithoutUpload(read, "success")),
    merged: await sharedUpload(branch, firstWithoutUpload(read, "merged")),
  };
  const byUpload = new Map<string, Content[]>();
  const outcomes = read.map(({ outcome, contents }) => {
    if ((outcome.state !== "success" && outcome.state !== "merged") || contents.length === 0) return outcome;
    const upload = outcome.upload ?? shared[outcome.state];
    if (upload === undefined) return outcome;
    const together = byUpload.get(upload) ?? [];
    byUpload.set(upload, together);
    together.push(...contents);
    return { ...outcome, upload };
  });
  const closed = new Set<string>();
  for (const [upload, contents] of byUpload) {
    const added = await branch.uploads.add({ upload, contents });
    if (!added.ok) closed.add(upload);
  }
  return {
    outcomes: outcomes.map((outcome) => (closed.has(uploadOf(outcome) ?? "") ? unkept(outcome) : outcome)),
    shared: [shared.success, shared.merged].filter((upload) => upload !== undefined),
  };
}

/** Gives up the shared uploads of which no outcome was recorded. `lost`: the leases whose outcomes were not. */
export async function giveUpUnused(
  branch: BranchApi,
  { kept: { outcomes, shared }, lost }: { kept: Kept; lost: readonly string[] },
): Promise<void> {
  if (shared.length === 0 || lost.length === 0) return;
  const isLost = new Set(lost);
  const used = new Set(outcomes.filter(({ lease }) => !isLost.has(lease)).map(uploadOf));
  for (const upload of shared) if (!used.has(upload)) await branch.uploads.abort({ upload });
}

function uploadOf(outcome: Outcome): string | undefined {
  return outcome.state === "success" || outcome.state === "merged" ? outcome.upload : undefined;
}

function unkept({ lease }: Outcome): Outcome {
  const reason = "its outputs could not be stored: the upload that it names is closed";
  return { lease, state: "failed", blame: "node", exitCode: null, reason, log: "", millis: 0 };
}

/** The first outcome that brings contents and names no upload to keep them. */
function firstWithoutUpload(read: readonly ReadOutcome[], state: "success" | "merged"): Outcome | undefined {
  return read.find(
    ({ outcome, contents }) => outcome.state === state && outcome.upload === undefined && contents.length > 0,
  )?.outcome;
}

async function sharedUpload(branch: BranchApi, first: Outcome | undefined): Promise<string | undefined> {
  if (first === undefined) return undefined;
  // Not the lease's own: if that is lost, what others have in here must stay. And of this call alone: a runner that got
  // no answer sends the same outcomes again, and what one call finds lost the other may have recorded.
  const opened = await branch.uploads.open({ lease: `shared.${first.lease}.${crypto.randomUUID()}` });
  if (!opened.ok) throw branchError(opened);
  return opened.upload;
}

function checkUpload(upload: string, { path, output }: { path: string; output: BranchAddress }): void {
  const address = parseUploadId(upload);
  if (address && bucketName(address) === bucketName(output)) return;
  throw invalidField(path, `must be an upload to the pipeline's output, the branch '${bucketName(output)}'`);
}

function contentOf(
  { digest, size, bytes }: ContentId & { readonly bytes?: string | undefined },
  at: string,
): Content[] {
  if (bytes === undefined) return [];
  if (size <= INLINE_LIMIT_BYTES) return [inlineContent({ digest, size, bytes }, at)];
  throw invalidField(
    `${at}.bytes`,
    `at most ${INLINE_LIMIT_BYTES} bytes travel here: upload larger contents`,
  );
}
