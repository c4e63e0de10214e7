import type { NamedLoop, Next } from "../../objects/loop.ts";
import type { BranchContext } from "../context.ts";
import type { WakeUpCalls } from "../contract/pipelines.ts";
import type { BranchLoop } from "../store.ts";

/** Uploads that the pipeline is asked about in one call. */
const UPLOADS = 50;

interface AskContext extends Pick<BranchContext, "ledger" | "now"> {
  /** A pipeline. Its calls reject if it can't be reached. */
  readonly pipeline: (name: string) => { readonly wakeUps: WakeUpCalls };
}

/**
 * What several outcomes bring together is kept by an upload that the gateway opens before it has the pipeline record them
 * (worker/api/runner.ts). A gateway that dies in between leaves an upload that no result names, and no pipeline knows of. The
 * runner reports again, under another name.
 *
 * So the branch asks the pipeline that holds it, once, when no such call can be under way any more: of what results name the
 * pipeline gives up what is left when they go (worker/pipeline/work/trim/uploads.ts), and the others end. If a result came to name one all
 * the same, its content would be missing when the job commits, and its datum would run again.
 */
export function sharedUploads(context: AskContext): NamedLoop {
  return {
    name: "shared uploads" satisfies BranchLoop,
    due: () => context.ledger.uploads.nextAsk(),
    step: () => askOwner(context),
  };
}

async function askOwner({ ledger, now, pipeline }: AskContext): Promise<Next> {
  const uploads = ledger.uploads.unasked(now(), UPLOADS);
  if (uploads.length === 0) return undefined;
  const owner = ledger.claim.get();
  const answer = owner && (await pipeline(owner.pipeline).wakeUps.named({ uid: owner.uid, uploads }));
  const named = new Set(answer?.named);
  ledger.transaction(() => {
    for (const upload of uploads) {
      if (named.has(upload)) ledger.uploads.setNamed(upload);
      else ledger.uploads.retire(upload, now());
    }
    ledger.contents.removeReleased(now());
  });
  return true;
}
