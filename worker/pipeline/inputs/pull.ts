import type { FeedEvent } from "../../branch/contract.ts";
import { type PipelineContext, yieldToOthers } from "../context.ts";
import type { Definition } from "../definition.ts";
import type { Fill } from "../jobs/job-store.ts";
import { insertJob, insertWholeJob } from "../jobs/make.ts";
import { candidates, readersOf } from "./candidates.ts";
import { merge } from "./merge-feeds.ts";
import { holdsFile, isAfter, lastStart } from "./starts.ts";

/** Changes asked for in one feed page. */
const FEED_LIMIT = 500;
/** Events taken before other calls get their turn. */
const EVENTS_PER_TURN = 50;
/** Longest pause before asking again a branch whose clock is behind another's. */
const MAX_PAUSE_MS = 64;

/**
 * Reads what is new on every input branch, whichever of them rang, and makes one job per event. `rings` counts the
 * doorbells so far: the mark that a pull is due goes only if none came while the last pages were read.
 */
export async function pull(parts: PipelineContext, rings: () => number): Promise<void> {
  const { ledger } = parts;
  let pauseMs = 0;
  for (;;) {
    const definition = ledger.active();
    if (!definition || !ledger.pipeline.row()?.pullDue) return;
    const heard = rings();
    const { taken, rest } = await pullOnce(parts, definition);
    if (rest && taken === 0) {
      pauseMs = Math.min(Math.max(1, pauseMs * 2), MAX_PAUSE_MS);
      await scheduler.wait(pauseMs);
    } else pauseMs = 0;
    if (rest || taken > 0 || rings() !== heard) continue;
    const rested = ledger.step(definition, () => {
      ledger.pipeline.setPullDue(0);
      return true;
    });
    if (rested) return;
  }
}

async function pullOnce(
  parts: PipelineContext,
  definition: Definition,
): Promise<{ taken: number; rest: boolean }> {
  const { ledger, peers, wakes } = parts;
  const pages = await Promise.all(
    ledger.sources
      .all()
      .map((source) =>
        peers
          .branch(source)
          .feed({ cursor: { generation: source.generation, seq: source.seq }, limit: FEED_LIMIT }),
      ),
  );
  const { events, rest } = merge(pages);
  for (const [index, { source, event }] of events.entries()) {
    await take(parts, { definition, source, event });
    if (index % EVENTS_PER_TURN === EVENTS_PER_TURN - 1) {
      wakes.fill();
      await yieldToOthers();
    }
  }
  if (events.length > 0) {
    wakes.fill();
    wakes.outbox();
  }
  return { taken: events.length, rest };
}

/** One event: the cursor moves and the job is there, or neither. */
async function take(
  parts: PipelineContext,
  { definition, source, event }: { definition: Definition; source: number; event: FeedEvent },
): Promise<void> {
  const { ledger } = parts;
  // Once there was a first job, every event is after the start of each input: before that they have no data.
  const first = ledger.pipeline.row()?.begun !== 1;
  const hasData = !first || (await hasDataAfter(parts, { definition, source, event }));
  ledger.step(definition, () => {
    const commit = event.kind === "commit" ? event.id : null;
    if (!ledger.sources.advance(source, { generation: event.generation, seq: event.seq, commit })) return;
    ledger.sources.setHasData(source, hasData);
    if (first && !ledger.sources.allHaveData()) return;
    if (first) {
      insertWholeJob(parts, { definition, source, at: event });
      return;
    }
    const n = insertJob(parts, { definition, source, at: event, fill: fillOf(event) });
    if (n === undefined) return;
    ledger.touched.add(n, candidates(event.changes, readersOf(definition.inputs, source)));
  });
}

function fillOf(event: FeedEvent): Fill {
  if (event.kind === "deletion") return { step: "clear", input: 0, after: null };
  return event.next === null ? { step: "settle", from: null } : { step: "changes", after: event.next };
}

/**
 * Whether each input of a source holds a file after an event (spec §2.7.3). Asked only until the first job is made,
 * and the branch only where the event itself does not tell.
 */
async function hasDataAfter(
  { ledger, peers }: PipelineContext,
  { definition, source, event }: { definition: Definition; source: number; event: FeedEvent },
): Promise<boolean> {
  const start = lastStart(definition, source);
  const address = definition.sources[source];
  if (!address || event.kind === "deletion" || (start && !isAfter(event, start))) return false;
  if (event.changes.some(({ now }) => now?.kind === "file")) return true;
  if (!ledger.sources.hasData(source) && event.next === null) return false;
  return holdsFile(peers.branch(address), { at: event, start });
}
