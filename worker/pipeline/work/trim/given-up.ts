import { type ContentId, contentName } from "../../../../protocol/content.ts";
import { yieldToOthers } from "../../../objects/turns.ts";
import type { PipelineContext } from "../../context.ts";
import type { Ledger } from "../../ledger/ledger.ts";

/** Uploads that the branch is told of in one call, and the most contents of them that are still named. */
const UPLOADS = 50;
const CONTENTS = 20_000;

/**
 * Tells the output branch what is left of uploads of which results or merges went: it lets go of everything else that they
 * hold, so that the bytes go which no file has. An upload may have brought the contents of several results, since small
 * ones that are reported together share one.
 *
 * What is named is looked up in the same turn in which the call is made, and nothing names an upload later: a result comes
 * with the outcome of a lease, in the one call that its upload was filled for (worker/api/runner/outcomes.ts). If it did all
 * the same, its content would be missing when the job commits, and its datum would run again (work/finish/redo.ts): what is kept
 * is decided by the branch's own counts, never here.
 */
export async function endGivenUp({ ledger, peers }: PipelineContext): Promise<void> {
  for (;;) {
    const definition = ledger.exists ? ledger.pipeline.definition() : undefined;
    const given = definition ? ledger.givenUp.some(UPLOADS) : [];
    if (!definition || given.length === 0) return;
    const settled: typeof given = [];
    const uploads: { upload: string; keep: string[] }[] = [];
    let room = CONTENTS;
    for (const each of given) {
      const named = namedOf(ledger, each.upload);
      if (named.length > room && settled.length > 0) break;
      settled.push(each);
      room -= named.length;
      // Too much to be told: all of it stays.
      if (named.length > CONTENTS) continue;
      uploads.push({ upload: each.upload, keep: [...new Set(named.map(contentName))] });
    }
    if (uploads.length > 0) await peers.branch(definition.output).uploads.trim({ uploads });
    ledger.transaction(() => ledger.givenUp.settle(settled));
    await yieldToOthers();
  }
}

/** What results and merges still name of an upload. */
function namedOf({ results, merges }: Ledger, upload: string): ContentId[] {
  return [...results.contentsOf(upload, CONTENTS + 1), ...merges.contentsOf(upload)];
}
