import type { BranchApi, CommitPosition, FeedEvent } from "../branch/contract.ts";
import { candidates, inputsOf } from "./candidates.ts";
import type { Definition } from "./definition.ts";
import type { Fill } from "./jobs.ts";
import { insertJob, insertWholeJob } from "./make-job.ts";
import { merge } from "./merge.ts";
import { type Parts, yieldToOthers } from "./parts.ts";

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
export async function pull(parts: Parts, rings: () => number): Promise<void> {
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

async function pullOnce(parts: Parts, definition: Definition): Promise<{ taken: number; rest: boolean }> {
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
  parts: Parts,
  { definition, source, event }: { definition: Definition; source: number; event: FeedEvent },
): Promise<void> {
  const { ledger, peers } = parts;
  const first = ledger.pipeline.row()?.begun !== 1;
  const address = definition.sources[source];
  const hasData =
    !first ||
    (address !== undefined &&
      (await holdsFiles(peers.branch(address), { event, before: ledger.sources.hasData(source) })));
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
    ledger.touched.add(n, candidates(event.changes, inputsOf(definition.inputs, source)));
  });
}

function fillOf(event: FeedEvent): Fill {
  if (event.kind === "deletion") return { step: "clear", input: 0, after: null };
  return event.next === null ? { step: "settle", from: null } : { step: "changes", after: event.next };
}

/**
 * Whether an input holds a file after an event (spec §2.7.3). Asked only until the first job is made, and the branch
 * only where the event itself does not tell.
 */
async function holdsFiles(
  branch: BranchApi,
  { event, before }: { event: FeedEvent; before: boolean },
): Promise<boolean> {
  if (event.kind === "deletion") return false;
  if (event.changes.some(({ now }) => now?.kind === "file")) return true;
  if (!before && event.next === null) return false;
  return hasFileAt(branch, event);
}

/** Whether there is a file at a position; empty directories are none. */
export async function hasFileAt(branch: BranchApi, { generation, seq }: CommitPosition): Promise<boolean> {
  let after: string | null = "";
  for (let limit = 1; after !== null; limit = FEED_LIMIT) {
    const page: Awaited<ReturnType<BranchApi["filesAt"]>> = await branch.filesAt({
      generation,
      seq,
      prefix: "",
      after,
      limit,
    });
    if (page.files.some(({ kind }) => kind === "file")) return true;
    after = page.next;
  }
  return false;
}
