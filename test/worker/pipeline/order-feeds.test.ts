import { describe, expect, it } from "vitest";
import type { FeedEvent, FeedPage } from "../../../worker/branch/contract/pipelines.ts";
import { orderFeeds } from "../../../worker/pipeline/work/inputs/order-feeds.ts";

function event(id: string, createdAt: number): FeedEvent {
  return { generation: 1, seq: 1, id, createdAt, kind: "commit", changes: [], next: null };
}

function page(
  now: number,
  events: readonly FeedEvent[],
  { more }: { more: boolean } = { more: false },
): FeedPage {
  return { events, now, more };
}

function ids(pages: readonly FeedPage[]): string[] {
  return orderFeeds(pages).events.map(({ source, event: { id } }) => `${source}:${id}`);
}

describe("the news of several branches", () => {
  it("are put in order of time, then id", () => {
    const pages = [page(100, [event("c", 1), event("b", 5)]), page(100, [event("a", 5), event("d", 7)])];
    expect(ids(pages)).toEqual(["0:c", "1:a", "0:b", "1:d"]);
    expect(orderFeeds(pages).rest).toBe(false);
  });

  it("wait while a branch that answered earlier may still come up with an older commit", () => {
    const pages = [page(10, []), page(20, [event("early", 5), event("late", 15)])];
    expect(ids(pages)).toEqual(["1:early"]);
    expect(orderFeeds(pages).rest).toBe(true);
  });

  it("wait at the same millisecond, where either may come first", () => {
    expect(ids([page(10, []), page(10, [event("a", 10)])])).toEqual([]);
  });

  it("do not run ahead of a branch whose page is not its last", () => {
    const pages = [page(100, [event("a", 1)], { more: true }), page(100, [event("b", 50)])];
    expect(ids(pages)).toEqual(["0:a"]);
    expect(orderFeeds(pages).rest).toBe(true);
  });

  it("of one branch alone wait for nobody", () => {
    expect(ids([page(1, [event("a", 5), event("b", 6)])])).toEqual(["0:a", "0:b"]);
  });
});
