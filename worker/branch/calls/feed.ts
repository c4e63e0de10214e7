import type { FeedCalls, InputStart } from "../contract/pipelines.ts";
import { forgetNews, hasOldNews } from "../erasures/news.ts";
import { comparePaths, positionOf, spanOf } from "../history/compare.ts";
import { readChanges, readEvents } from "../history/feed.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { forgetErasures } from "../outbox/erasure-store.ts";
import { filesAt, fingerprint } from "../read/tree.ts";
import { keptCommit, mustBeReadable } from "../retention/kept.ts";
import { justAfter } from "../tree/path-ranges.ts";
import { afterMarkers, type BranchFacet, bounded, makeTables } from "./facet.ts";

/** The history for pipelines, which follow it and read the tree at positions in it. */
export const feed: BranchFacet<FeedCalls> = {
  async subscribe(reach, { uid, pipeline, starts }) {
    const error = await makeTables(reach);
    if (error !== undefined) throw error;
    const { ledger } = reach;
    const generation = ledger.generations.newest();
    const seq = generation ? ledger.generations.headOf(generation).seq : 0;
    const cursor = { generation: generation?.gen ?? 0, seq };
    ledger.transaction(() => {
      const isNew = !ledger.subscribers.has(uid);
      ledger.subscribers.add({ uid, pipeline });
      if (!starts) return;
      // What it needed before it asks again, it may still need.
      if (isNew) ledger.subscribers.setMark(uid, { ...positionOf(cursor), job: null });
      tellStarts(ledger, uid, starts);
    });
    // To a pipeline a fork on its way is a branch that has nothing yet.
    const exists = generation?.deletedAt === null || ledger.forks.coming() !== undefined;
    return { ok: true, cursor, exists };
  },

  async unsubscribe(reach, { uid, stopped }) {
    await afterMarkers(reach);
    const { ledger, now } = reach;
    if (!ledger.exists) return;
    ledger.transaction((tx) => {
      if (stopped) ledger.starts.stop(uid);
      else ledger.starts.forget(uid);
      ledger.subscribers.remove(uid);
      ledger.outbox.drop("pipeline", uid);
      forgetErasures(tx, ledger, now());
      forgetNews(tx, ledger, now());
    });
    forgetRest(ledger);
  },

  async setMark({ ledger, now }, { uid, starts, job, ...at }) {
    if (!ledger.exists || !ledger.subscribers.has(uid)) return;
    ledger.transaction((tx) => {
      ledger.subscribers.setMark(uid, { ...positionOf(at), job });
      forgetNews(tx, ledger, now());
      tellStarts(ledger, uid, starts);
    });
    forgetRest(ledger);
  },

  async read({ ledger, now }, { cursor, limit }) {
    const durable = ledger.exists;
    const page = durable ? readEvents(ledger, { ...positionOf(cursor), limit }) : { events: [], more: false };
    const erased = durable ? ledger.erasures.newest : 0;
    return { ...page, now: ledger.clock.promise(now(), { durable }), ...(erased > 0 && { erased }) };
  },

  async changes({ ledger }, { after, limit, ...at }) {
    if (!ledger.exists) return { changes: [], next: null };
    // What a commit deleted is told by rows that died at it: at the horizon these are gone.
    mustBeReadable(ledger, positionOf(at));
    mustBeReadable(ledger, { ...positionOf(at), seq: Math.max(at.seq - 1, 0) });
    return readChanges(ledger, { ...positionOf(at), lower: after === "" ? "" : justAfter(after), limit });
  },

  async filesAt({ ledger }, { since, prefix, after, limit, ...at }) {
    return filesAt(ledger, {
      position: positionOf(at),
      since: since && positionOf(since),
      page: bounded({ prefix, after, limit }),
    });
  },

  async fingerprint({ ledger, turn }, { path, since, ...at }) {
    const position = positionOf(at);
    return await fingerprint(ledger, { position, since: since && positionOf(since), path, turn });
  },

  async compare({ ledger, turn }, { paths, ...span }) {
    return await comparePaths(ledger, { ...spanOf(span), paths, turn });
  },

  async kept({ ledger }, { commits }) {
    // Who asks has commits here. If the branch knows of nothing, they are not called gone for that.
    if (!ledger.exists) return { kept: [...commits] };
    return { kept: commits.filter((commit) => keptCommit(ledger, commit) !== undefined) };
  },

  async position({ ledger }, { commit: id }) {
    if (!ledger.exists) return null;
    const kept = keptCommit(ledger, id);
    // One that comes out of an archive is not to be seen yet.
    const commit = kept && ledger.generations.get(kept.gen) ? kept : ledger.starts.find(id);
    return commit ? { generation: commit.gen, seq: commit.seq } : null;
  },
};

/** Leaves to the alarm what one slice did not forget. */
function forgetRest(ledger: Ledger): void {
  if (hasOldNews(ledger)) ledger.wake("housekeeping");
}

function tellStarts(ledger: Ledger, uid: string, starts: readonly InputStart[]): void {
  ledger.starts.tell(uid, starts, ({ commit }) => keptCommit(ledger, commit) !== undefined);
}
