import type { PipelineContext } from "../../context.ts";
import type { Source } from "../../inputs/source-store.ts";
import type { Definition } from "../../lifecycle/definition.ts";
import type { StoredState } from "../../lifecycle/pipeline-store.ts";
import { whileIn } from "../guards.ts";
import { startsOf } from "../inputs/low-water.ts";
import { holdsFile, lastStart } from "../inputs/starts.ts";

/**
 * Events come from the branch's HEAD on; what lies there already is read as it was at exactly that position, so that no
 * commit is missed or counted twice. A job is due if the branch has moved since it was last read.
 */
export async function subscribe(
  { ledger, peers }: PipelineContext,
  { definition, state, source }: { definition: Definition; state: StoredState; source: Source },
): Promise<void> {
  const { uid, name } = definition;
  const branch = peers.branch(source);
  const starts = startsOf(definition, source.source);
  const { cursor } = await branch.feed.subscribe({ uid, pipeline: name, starts });
  const before = { generation: cursor.generation, seq: cursor.seq - 1 };
  const events = cursor.seq > 0 ? (await branch.feed.read({ cursor: before, limit: 1 })).events : [];
  const commit = events[0]?.kind === "commit" ? events[0].id : null;
  const lineage = events[0]?.lineage;
  const start = lastStart(definition, source.source);
  const hasData = commit !== null && (await holdsFile(branch, { at: cursor, start }));
  whileIn(ledger, { uid, state, work });

  function work(): void {
    const moved = cursor.generation !== source.generation || cursor.seq !== source.seq;
    if (moved) ledger.pipeline.setWholeJobDue(1);
    ledger.sources.subscribed(source.source, { ...cursor, commit, hasData, ...(lineage && { lineage }) });
  }
}
