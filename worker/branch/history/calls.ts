import type { ContentId } from "../../../protocol/content.ts";
import { MAX_LIST_ENTRIES } from "../../../protocol/files.ts";
import type { BranchContext } from "../context.ts";
import type * as Contract from "../contract.ts";
import { forgetNews, hasOldNews } from "../erasures/news.ts";
import { forgetErasures } from "../outbox/erasure-store.ts";
import { filesAt, fingerprint } from "../read/tree.ts";
import { keptCommit, mustBeReadable } from "../retention/kept.ts";
import type { Position } from "../tree/commit-store.ts";
import { justAfter } from "../tree/path-ranges.ts";
import { comparePaths, spanOf } from "./compare.ts";
import { readChanges, readEvents } from "./feed.ts";

type HistoryContext = Pick<BranchContext, "ledger" | "now" | "turn">;

/** The calls of BranchApi for pipelines, which follow the history and read the tree at positions in it. */
export class HistoryCalls {
  readonly #context: HistoryContext;

  constructor(context: HistoryContext) {
    this.#context = context;
  }

  /** There must be tables. */
  subscribe({ uid, pipeline, starts }: Contract.Subscription): Contract.AnswerOf<"subscribe"> {
    const { ledger } = this.#context;
    const generation = ledger.generations.newest();
    const seq = generation ? ledger.generations.headOf(generation).seq : 0;
    const cursor = { generation: generation?.gen ?? 0, seq };
    ledger.transaction(() => {
      const isNew = !ledger.subscribers.has(uid);
      ledger.subscribers.add({ uid, pipeline });
      if (!starts) return;
      // What it needed before it asks again, it may still need.
      if (isNew) ledger.subscribers.need(uid, { ...positionOf(cursor), job: null });
      this.#tellStarts(uid, starts);
    });
    // To a pipeline a fork on its way is a branch that has nothing yet.
    const exists = generation?.deletedAt === null || ledger.forks.coming() !== undefined;
    return { ok: true, cursor, exists };
  }

  need({ uid, starts, job, ...at }: Contract.SubscriberNeed): void {
    const { ledger } = this.#context;
    if (!ledger.exists || !ledger.subscribers.has(uid)) return;
    ledger.transaction((tx) => {
      ledger.subscribers.need(uid, { ...positionOf(at), job });
      forgetNews(tx, ledger, this.#context.now());
      this.#tellStarts(uid, starts);
    });
    this.#forgetRest();
  }

  /** Leaves to the alarm what one slice did not forget. */
  #forgetRest(): void {
    const { ledger } = this.#context;
    if (hasOldNews(ledger)) ledger.wake("housekeeping");
  }

  #tellStarts(uid: string, starts: readonly Contract.InputStart[]): void {
    const { ledger } = this.#context;
    ledger.starts.tell(uid, starts, ({ commit }) => keptCommit(ledger, commit) !== undefined);
  }

  unsubscribe({ uid, stopped }: Contract.RequestOf<"unsubscribe">): void {
    const { ledger } = this.#context;
    if (!ledger.exists) return;
    ledger.transaction((tx) => {
      if (stopped) ledger.starts.stop(uid);
      else ledger.starts.forget(uid);
      ledger.subscribers.remove(uid);
      ledger.outbox.drop({ topic: "bell", uid });
      forgetErasures(tx, ledger, this.#context.now());
      forgetNews(tx, ledger, this.#context.now());
    });
    this.#forgetRest();
  }

  feed({ cursor, limit }: Contract.RequestOf<"feed">): Contract.FeedPage {
    const { ledger, now } = this.#context;
    const durable = ledger.exists;
    const page = durable ? readEvents(ledger, { ...positionOf(cursor), limit }) : { events: [], more: false };
    const erased = durable ? ledger.erasures.newest : 0;
    return { ...page, now: ledger.clock.promise(now(), { durable }), ...(erased > 0 && { erased }) };
  }

  changes({ after, limit, ...at }: Contract.RequestOf<"changes">): Contract.AnswerOf<"changes"> {
    const { ledger } = this.#context;
    if (!ledger.exists) return { changes: [], next: null };
    // What a commit deleted is told by rows that died at it: at the floor these are gone.
    mustBeReadable(ledger, positionOf(at));
    mustBeReadable(ledger, { ...positionOf(at), seq: Math.max(at.seq - 1, 0) });
    return readChanges(ledger, { ...positionOf(at), lower: after === "" ? "" : justAfter(after), limit });
  }

  filesAt({
    since,
    prefix,
    after,
    limit,
    ...at
  }: Contract.RequestOf<"filesAt">): Contract.AnswerOf<"filesAt"> {
    return filesAt(this.#context.ledger, {
      position: positionOf(at),
      since: since && positionOf(since),
      page: { prefix, after, limit: Math.min(limit, MAX_LIST_ENTRIES) },
    });
  }

  fingerprint({ path, since, ...at }: Contract.RequestOf<"fingerprint">): Promise<ContentId | null> {
    const { ledger, turn } = this.#context;
    return fingerprint(ledger, {
      position: positionOf(at),
      since: since && positionOf(since),
      path,
      turn,
    });
  }

  compare({ paths, ...span }: Contract.ComparePaths): Promise<Contract.AnswerOf<"compare">> {
    const { ledger, turn } = this.#context;
    return comparePaths(ledger, { ...spanOf(span), paths, turn });
  }

  keptCommits({ commits }: Contract.RequestOf<"keptCommits">): { kept: string[] } {
    const { ledger } = this.#context;
    // Who asks has commits here. If the branch knows of nothing, they are not called gone for that.
    if (!ledger.exists) return { kept: [...commits] };
    return { kept: commits.filter((commit) => keptCommit(ledger, commit) !== undefined) };
  }

  position({ commit: id }: { commit: string }): Contract.CommitPosition | null {
    const { ledger } = this.#context;
    if (!ledger.exists) return null;
    const kept = keptCommit(ledger, id);
    // One that comes out of an archive is not to be seen yet.
    const commit = kept && ledger.generations.get(kept.gen) ? kept : ledger.starts.find(id);
    return commit ? { generation: commit.gen, seq: commit.seq } : null;
  }
}

function positionOf({ generation: gen, seq }: Contract.CommitPosition): Position {
  return { gen, seq };
}
