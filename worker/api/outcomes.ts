import { INLINE_LIMIT_BYTES } from "../../protocol/content.ts";
import { type BranchAddress, bucketName, parseUploadId } from "../../protocol/names.ts";
import type { Outcome, Output } from "../../protocol/runner.ts";
import type { Content } from "../blobs/content.ts";
import type { BranchApi } from "../branch/contract.ts";
import { ApiError } from "./errors.ts";
import { branchFailure } from "./failures.ts";
import { inlineContent } from "./uploads.ts";

/** What became of a datum, and the small contents that came with the message, verified. */
export interface ReadOutcome {
  readonly outcome: Outcome;
  readonly contents: readonly Content[];
}

/** Takes the contents out of the outcomes of a pipeline whose output is `output`. */
export function readOutcomes(outcomes: readonly Outcome[], output: BranchAddress): ReadOutcome[] {
  return outcomes.map((outcome, index) => {
    if (outcome.state !== "success") return { outcome, contents: [] };
    const path = `outcomes[${index}]`;
    if (outcome.upload !== undefined) checkUpload(outcome.upload, { path: `${path}.upload`, output });
    return {
      outcome: { ...outcome, outputs: outcome.outputs.map(({ bytes: _, ...named }) => named) },
      contents: outcome.outputs.flatMap((each, at) => contentOf(each, `${path}.outputs[${at}]`)),
    };
  });
}

/**
 * Adds the contents to the output branch, one call an upload: to the upload that an outcome names, and what comes
 * without one together to the upload of the first such lease. Answers the outcomes, each with the upload that now
 * keeps its contents.
 */
export async function keepContents(branch: BranchApi, read: readonly ReadOutcome[]): Promise<Outcome[]> {
  const homeless = read.find(
    ({ outcome, contents }) => contents.length > 0 && uploadOf(outcome) === undefined,
  );
  const shared = homeless && (await openFor(branch, homeless.outcome.lease));
  const byUpload = new Map<string, Content[]>();
  const outcomes = read.map(({ outcome, contents }) => {
    if (outcome.state !== "success" || contents.length === 0) return outcome;
    const upload = outcome.upload ?? shared;
    if (upload === undefined) return outcome;
    const together = byUpload.get(upload) ?? [];
    byUpload.set(upload, together);
    together.push(...contents);
    return { ...outcome, upload };
  });
  for (const [upload, contents] of byUpload) {
    const added = await branch.addContents({ upload, contents });
    if (!added.ok) throw branchFailure(added);
  }
  return outcomes;
}

async function openFor(branch: BranchApi, lease: string): Promise<string> {
  const opened = await branch.openUpload({ lease });
  if (!opened.ok) throw branchFailure(opened);
  return opened.upload;
}

function uploadOf(outcome: Outcome): string | undefined {
  return outcome.state === "success" ? outcome.upload : undefined;
}

function checkUpload(upload: string, { path, output }: { path: string; output: BranchAddress }): void {
  const address = parseUploadId(upload);
  if (address && bucketName(address) === bucketName(output)) return;
  throw invalid(path, `must be an upload to the pipeline's output, the branch '${bucketName(output)}'`);
}

/** An empty directory has no content. */
function contentOf({ path, digest, size, bytes }: Output, at: string): Content[] {
  if (bytes === undefined || path.endsWith("/")) return [];
  if (size <= INLINE_LIMIT_BYTES) return [inlineContent({ digest, size, bytes }, at)];
  throw invalid(`${at}.bytes`, `at most ${INLINE_LIMIT_BYTES} bytes travel here: upload larger contents`);
}

function invalid(path: string, message: string): ApiError {
  return new ApiError("InvalidRequest", "The request has a problem.", { issues: [{ path, message }] });
}
