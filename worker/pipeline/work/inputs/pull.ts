/*
 * From a commit on an input to the datums of a job. In brackets: what a step writes down.
 *
 *  1. Wake-up (calls/lifecycle.ts) [pipeline.pullDue]: a branch that has a new commit, or was deleted, calls. It is answered
 *     once the mark is written, so the branch may forget it. A wake-up carries nothing: it may be late, or come twice.
 *  2. Pull [sources, jobs, touched; then pullDue]: reads the feed of every input branch from where it was read to, and
 *     puts the events in order of time (order-feeds.ts). For each, in one transaction: the cursor moves, the job is
 *     there, and so are the paths it touches (candidates.ts). A cursor only moves forward, so an event has one job.
 *     No job is made before each input holds a file (starts.ts); the first one reads its inputs whole.
 *  3. Fill (fill.ts) [jobs.fill, touched]: collects the paths that the feed's page did not hold. Jobs are filled one
 *     after the other, as each set of datums builds upon the one before.
 *  4. Update the datums (fill.ts) [elements, datums, attempts, jobs.fill; then jobs.state]: compares the
 *     touched paths with the elements that were there. Elements die and are born, and datums with them. A datum
 *     without a result is queued at once; when all is compared, the job runs.
 *
 * Who wins:
 *  - A wake-up that comes while feeds are on their way may be for a commit that they lack. The mark stays and all is read
 *    once more, or that commit would be seen only with the next wake-up.
 *  - A stop, update or deletion of the pipeline wins: each step checks that the version it was prepared for still runs
 *    (Ledger.step), and changes nothing if not.
 *  - A job that ends early is filled all the same, as the next one builds upon its datums: they are noted, not queued.
 *    Only a job whose cross product is too large is given up, and the next one reads its inputs whole.
 *  - A crash: a slice writes its rows and how far it got in one transaction, so at most one is done again.
 */

import { bucketName } from "../../../../protocol/names.ts";
import type { FeedEvent } from "../../../branch/contract/pipelines.ts";
import { yieldToOthers } from "../../../objects/turns.ts";
import type { PipelineContext } from "../../context.ts";
import { candidates, readersOf } from "../../inputs/candidates.ts";
import { isAfter } from "../../inputs/source-store.ts";
import { ALL_COLLECTED, type Fill } from "../../jobs/job-store.ts";
import type { Definition } from "../../lifecycle/definition.ts";
import type { Behind } from "../../lifecycle/pipeline-store.ts";
import { insertJob, insertWholeJob } from "../jobs.ts";
import { hasErased, hearErasures } from "./erased.ts";
import { type Lag, orderFeeds } from "./order-feeds.ts";
import { holdsFile, lastStart } from "./starts.ts";

/** Changes asked for in one feed page. */
const FEED_LIMIT = 500;
/** Events taken before other calls get their turn. */
const EVENTS_PER_TURN = 50;
/** Longest pause before asking again a branch whose clock is behind another's: a little, or so much that people hear of it. */
const MAX_PAUSE_MS = 64;
const MAX_LONG_PAUSE_MS = 1000;
/** A clock that is further behind than this, or that stands still for so long, was set back: it is the reason why the pipeline waits. */
const LONG_LAG_MS = 2000;

/**
 * Reads what is new on every input branch, whichever of them called, and makes one job an event, until nothing is left.
 * The mark that a pull is due goes only if no wake-up came while the last pages were read.
 */
export async function pull(context: PipelineContext): Promise<void> {
  const { ledger, memory } = context;
  let pauseMs = 0;
  /** Since the last event. */
  let waitedMs = 0;
  let wasBehind = ledger.exists && ledger.pipeline.behind() !== null;
  for (;;) {
    const definition = ledger.active();
    if (!definition || !ledger.pipeline.row()?.pullDue) return;
    const heard = memory.wakeUps;
    const { taken, rest, lag } = await pullOnce(context, definition);
    const isLong = lag !== undefined && Math.max(lag.lagMs, waitedMs) > LONG_LAG_MS;
    if (isLong || wasBehind) {
      ledger.step(definition, () => ledger.pipeline.setBehind(isLong ? behindOf(definition, lag) : null));
      wasBehind = isLong;
    }
    if (rest && taken === 0) {
      pauseMs = Math.min(Math.max(1, pauseMs * 2), isLong ? MAX_LONG_PAUSE_MS : MAX_PAUSE_MS);
      await scheduler.wait(pauseMs);
      waitedMs += pauseMs;
    } else {
      pauseMs = 0;
      waitedMs = 0;
    }
    if (rest || taken > 0 || memory.wakeUps !== heard) {
      await yieldToOthers();
      continue;
    }
    const rested = ledger.step(definition, () => {
      ledger.pipeline.setPullDue(0);
      return true;
    });
    if (rested) return ledger.wake("lowWaterMarks");
  }
}

function behindOf({ sources }: Definition, { ahead, behind, until }: Lag): Behind | null {
  const [first, second] = [sources[ahead], sources[behind]];
  return first && second ? { ahead: bucketName(first), behind: bucketName(second), until } : null;
}

async function pullOnce(
  context: PipelineContext,
  definition: Definition,
): Promise<{ taken: number; rest: boolean; lag: Lag | undefined }> {
  const { ledger, peers } = context;
  const pages = await Promise.all(
    ledger.sources
      .all()
      .map((source) =>
        peers
          .branch(source)
          .feed.read({ cursor: { generation: source.generation, seq: source.seq }, limit: FEED_LIMIT }),
      ),
  );
  for (const [source, { erased = 0, events: news }] of pages.entries()) {
    const address = definition.sources[source];
    if (!address || !hasErased(ledger, { bucket: bucketName(address), erased })) continue;
    await hearErasures(context, { definition, source, hasEvents: news.length > 0 });
  }
  const { events, rest, lag } = orderFeeds(pages);
  for (const [index, { source, event }] of events.entries()) {
    await take(context, { definition, source, event });
    if (index % EVENTS_PER_TURN === EVENTS_PER_TURN - 1) await yieldToOthers();
  }
  return { taken: events.length, rest, lag };
}

/** One event: the cursor moves and the job is there, or neither. */
async function take(
  context: PipelineContext,
  { definition, source, event }: { definition: Definition; source: number; event: FeedEvent },
): Promise<void> {
  const { ledger } = context;
  // From the first job on, every event is after the start of each input: before that they have no data.
  const first = ledger.pipeline.row()?.hadFirstJob !== 1;
  const hasData = !first || (await hasDataAfter(context, { definition, source, event }));
  ledger.step(definition, (tx) => {
    const { generation, seq, lineage } = event;
    const commit = event.kind === "commit" ? event.id : null;
    const place = { generation, seq, commit, ...(lineage && { lineage }) };
    if (!ledger.sources.advance(source, place)) return;
    ledger.sources.setHasData(source, hasData);
    if (first && !ledger.sources.allHaveData()) return;
    // Of what a feed has lost, nobody knows what it changed.
    if (first || event.gap) {
      insertWholeJob(tx, context, { definition, source, at: event });
      return;
    }
    const n = insertJob(tx, context, { definition, source, at: event, fill: fillOf(event) });
    if (n === undefined) return;
    ledger.touched.add(n, candidates(event.changes, readersOf(definition.inputs, source)));
  });
}

function fillOf(event: FeedEvent): Fill {
  if (event.kind === "deletion") return { step: "clear", input: 0, after: null };
  return event.next === null ? ALL_COLLECTED : { step: "changes", after: event.next };
}

/**
 * Whether each input of a source holds a file after an event. Asked only until the first job is made, and the branch
 * only if the event itself does not tell.
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
