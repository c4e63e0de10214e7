import type { ContentId } from "../../../protocol/content.ts";
import { MAX_LIST_ENTRIES } from "../../../protocol/files.ts";
import type { BranchContext } from "../context.ts";
import type * as Contract from "../contract.ts";
import { filesAt, fingerprint } from "../read/tree.ts";
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
  subscribe({ uid, pipeline }: Contract.Subscriber): Contract.AnswerOf<"subscribe"> {
    const { ledger } = this.#context;
    ledger.transaction(() => ledger.subscribers.add({ uid, pipeline }));
    const generation = ledger.generations.newest();
    const seq = generation ? ledger.generations.headOf(generation).seq : 0;
    const cursor = { generation: generation?.gen ?? 0, seq };
    // To a pipeline a fork on its way is a branch that has nothing yet.
    const exists = generation?.deletedAt === null || ledger.forks.coming() !== undefined;
    return { ok: true, cursor, exists };
  }

  unsubscribe({ uid }: { uid: string }): void {
    const { ledger } = this.#context;
    if (!ledger.exists) return;
    ledger.transaction(() => {
      ledger.subscribers.remove(uid);
      ledger.outbox.drop({ topic: "bell", uid });
    });
  }

  feed({ cursor, limit }: Contract.RequestOf<"feed">): Contract.FeedPage {
    const { ledger, now } = this.#context;
    const durable = ledger.exists;
    const page = durable ? readEvents(ledger, { ...positionOf(cursor), limit }) : { events: [], more: false };
    return { ...page, now: ledger.clock.promise(now(), { durable }) };
  }

  changes({ after, limit, ...at }: Contract.RequestOf<"changes">): Contract.AnswerOf<"changes"> {
    const { ledger } = this.#context;
    if (!ledger.exists) return { changes: [], next: null };
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

  position({ commit: id }: { commit: string }): Contract.CommitPosition | null {
    const { ledger } = this.#context;
    const commit = ledger.exists ? ledger.commits.byId(id) : undefined;
    return commit?.kind === "commit" ? { generation: commit.gen, seq: commit.seq } : null;
  }
}

function positionOf({ generation: gen, seq }: Contract.CommitPosition): Position {
  return { gen, seq };
}
