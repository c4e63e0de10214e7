import type { FeedEvent, FeedPage } from "../../../branch/contract/pipelines.ts";

interface SourceEvent {
  /** Index of the page that it came in. */
  readonly source: number;
  readonly event: FeedEvent;
}

/** An event that waits for the clock of another branch to pass its time. */
export interface Lag {
  /** Index of the page that has the event. */
  readonly ahead: number;
  /** Index of the page whose branch's clock is behind. */
  readonly behind: number;
  /** The event's time; milliseconds since 1970. */
  readonly until: number;
  /** How far the clock is behind. */
  readonly lagMs: number;
}

interface Ordered {
  readonly events: SourceEvent[];
  /** Something is left to ask for again. */
  readonly rest: boolean;
  /** Set if that is only a matter of time. */
  readonly lag: Lag | undefined;
}

/**
 * Puts the news of several branches in one order, by (time, id). An event is decided once no other branch can
 * come up with an earlier one: either that branch has a later event here, or it said that it has nothing more and the
 * event is before its `now`, so that what it gets from now on is later.
 */
export function orderFeeds(pages: readonly FeedPage[]): Ordered {
  const taken = pages.map(() => 0);
  const head = (source: number): FeedEvent | undefined => pages[source]?.events[taken[source] ?? 0];
  const events: SourceEvent[] = [];
  let lag: Lag | undefined;
  for (;;) {
    const source = earliest(pages.map((_, index) => head(index)));
    const event = source === undefined ? undefined : head(source);
    if (source === undefined || event === undefined) break;
    const undecided = pages.findIndex(
      (page, other) =>
        other !== source && head(other) === undefined && (page.more || event.createdAt >= page.now),
    );
    const page = pages[undecided];
    if (page) {
      const { createdAt: until } = event;
      if (!page.more) lag = { ahead: source, behind: undecided, until, lagMs: until - page.now + 1 };
      break;
    }
    events.push({ source, event });
    taken[source] = (taken[source] ?? 0) + 1;
  }
  return { events, rest: pages.some((page, source) => page.more || head(source) !== undefined), lag };
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
