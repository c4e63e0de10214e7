import type { FeedEvent, FeedPage } from "../../branch/contract.ts";

export interface SourceEvent {
  /** Index of the page that it came in. */
  readonly source: number;
  readonly event: FeedEvent;
}

/**
 * Puts the news of several branches in one order, by (time, id). An event is decided once no other branch can
 * come up with an earlier one: either that branch has a later event here, or it said that it has nothing more and the
 * event is before its `now`, so that what it gets from now on is later. `rest`: something is left to ask for again.
 */
export function orderFeeds(pages: readonly FeedPage[]): { events: SourceEvent[]; rest: boolean } {
  const taken = pages.map(() => 0);
  const head = (source: number): FeedEvent | undefined => pages[source]?.events[taken[source] ?? 0];
  const events: SourceEvent[] = [];
  for (;;) {
    const source = earliest(pages.map((_, index) => head(index)));
    const event = source === undefined ? undefined : head(source);
    if (source === undefined || event === undefined) break;
    const decided = pages.every(
      (page, other) =>
        other === source || head(other) !== undefined || (!page.more && event.createdAt < page.now),
    );
    if (!decided) break;
    events.push({ source, event });
    taken[source] = (taken[source] ?? 0) + 1;
  }
  return { events, rest: pages.some((page, source) => page.more || head(source) !== undefined) };
}

function earliest(heads: readonly (FeedEvent | undefined)[]): number | undefined {
  let found: number | undefined;
  for (const [index, event] of heads.entries()) {
    const best = found === undefined ? undefined : heads[found];
    if (event && (!best || isBefore(event, best))) found = index;
  }
  return found;
}

function isBefore(a: FeedEvent, b: FeedEvent): boolean {
  return a.createdAt === b.createdAt ? a.id < b.id : a.createdAt < b.createdAt;
}
