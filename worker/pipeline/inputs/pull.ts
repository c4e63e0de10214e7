import type { FeedEvent } from "../../branch/contract.ts";
import { type Uses, yieldToOthers } from "../context.ts";
import type { Definition } from "../definition.ts";
import { ALL_COLLECTED, type Fill } from "../jobs/job-store.ts";
import { insertJob, insertWholeJob } from "../jobs/make.ts";
import { candidates, readersOf } from "./candidates.ts";
import { orderFeeds } from "./order-feeds.ts";
import { holdsFile, isAfter, lastStart } from "./starts.ts";

/** Changes asked for in one feed page. */
const FEED_LIMIT = 500;
/** Events taken before other calls get their turn. */
const EVENTS_PER_TURN = 50;
/** Longest pause before asking again a branch whose clock is behind another's. */
const MAX_PAUSE_MS = 64;

type Needs = Uses<
  "active" | "step" | "pipeline" | "sources" | "jobs" | "touched",
  "branch" | "now" | "id",
  "fill" | "outbox"
>;

/**
 * From a bell to the datums of a job.
 *
 * 1. A branch that has a new commit, or was deleted, rings (Engine.ring). That a pull is due is written down before the
 *    bell is answered, so a bell may be lost or come twice afterwards: what is new is found by reading.
 * 2. `pull` reads the feed of every input from its cursor on, puts the events in order of time (orderFeeds) and takes
 *    them one by one. In one transaction the cursor moves, the job is there, and so are the paths that the event
 *    touched. A cursor only moves forward, so an event that is read twice makes one job.
 * 3. `fillJobs` works out the datums of one job after the other, oldest first, as each set builds upon the one before.
 *    What is left to do is in the job's `fill`; every slice writes it in the transaction of its rows, so a crash repeats
 *    at most one slice. It goes on if the job was stopped meanwhile: the next job needs the set all the same.
 * 4. `updateDatums` compares the touched paths with the elements that were there; elements die and are born, and with
 *    them datums. A datum without a result is queued at once. When all is compared, the job runs.
 *
 * No job is made before each input holds a file: until then only cursors move; the first job reads the inputs whole.
 * A stop, update or deletion wins any race: every step checks that the version it was prepared for still runs
 * (Ledger.step), and changes nothing if not.
 *
 * `rings` counts the bells so far. A bell that rings while feeds are read may be for a commit that those pages do not
 * have: then the mark that a pull is due stays, or that commit would be seen only with the next bell.
 */
export async function pull(deps: Needs, rings: () => number): Promise<void> {
  const { ledger } = deps;
  let pauseMs = 0;
  for (;;) {
    const definition = ledger.active();
    if (!definition || !ledger.pipeline.row()?.pullDue) return;
    const heard = rings();
    const { taken, rest } = await pullOnce(deps, definition);
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

async function pullOnce(deps: Needs, definition: Definition): Promise<{ taken: number; rest: boolean }> {
  const { ledger, peers, wakes } = deps;
  const pages = await Promise.all(
    ledger.sources
      .all()
      .map((source) =>
        peers
          .branch(source)
          .feed({ cursor: { generation: source.generation, seq: source.seq }, limit: FEED_LIMIT }),
      ),
  );
  const { events, rest } = orderFeeds(pages);
  for (const [index, { source, event }] of events.entries()) {
    await take(deps, { definition, source, event });
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
  deps: Needs,
  { definition, source, event }: { definition: Definition; source: number; event: FeedEvent },
): Promise<void> {
  const { ledger } = deps;
  // From the first job on, every event is after the start of each input: before that they have no data.
  const first = ledger.pipeline.row()?.hadFirstJob !== 1;
  const hasData = !first || (await hasDataAfter(deps, { definition, source, event }));
  ledger.step(definition, (tx) => {
    const commit = event.kind === "commit" ? event.id : null;
    if (!ledger.sources.advance(source, { generation: event.generation, seq: event.seq, commit })) return;
    ledger.sources.setHasData(source, hasData);
    if (first && !ledger.sources.allHaveData()) return;
    if (first) {
      insertWholeJob(tx, deps, { definition, source, at: event });
      return;
    }
    const n = insertJob(tx, deps, { definition, source, at: event, fill: fillOf(event) });
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
  { ledger, peers }: Uses<"sources", "branch">,
  { definition, source, event }: { definition: Definition; source: number; event: FeedEvent },
): Promise<boolean> {
  const start = lastStart(definition, source);
  const address = definition.sources[source];
  if (!address || event.kind === "deletion" || (start && !isAfter(event, start))) return false;
  if (event.changes.some(({ now }) => now?.kind === "file")) return true;
  if (!ledger.sources.hasData(source) && event.next === null) return false;
  return holdsFile(peers.branch(address), { at: event, start });
}
