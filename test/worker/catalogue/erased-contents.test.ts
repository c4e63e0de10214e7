import { env } from "cloudflare:test";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { ERASED_KEPT_MS, type ErasedSince, MAX_ERASED } from "../../../protocol/runner.ts";
import { openCatalogue } from "../../../worker/catalogue/catalogue.ts";

const { erasedContents: list, nodes } = openCatalogue(env.DB);
const DAY = 24 * 60 * 60 * 1000;

beforeEach(() => list.beginAnew());

/** The place that a node has that has heard of everything. */
async function newest(): Promise<string> {
  return (await list.since(null)).upTo;
}

function names(from: number, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `c${from + index}`);
}

async function rows(): Promise<number> {
  const row = await env.DB.prepare("SELECT count(*) AS n FROM erased_contents").first<{ n: number }>();
  return row?.n ?? 0;
}

describe("the list of erased contents", () => {
  test("tells a node what followed the place that it names, in order, and nothing twice", async () => {
    const place = await newest();
    expect(await list.since(place)).toEqual({ upTo: place, contents: [] });
    await list.add(["a", "b"], DAY);
    await list.add(["a"], DAY);
    const told = await list.since(place);
    expect(told).toEqual({ upTo: expect.not.stringMatching(place), contents: ["a", "b", "a"] });
    expect(await list.since(told.upTo)).toEqual({ upTo: told.upTo, contents: [] });
  });

  test("is told to have nothing new by the record of each heartbeat, which has its newest place", async () => {
    const beat = () =>
      nodes.record({ name: "erased-1", executor: "process", capacity: 1, seenAt: Date.now(), work: [] });
    const place = await beat();
    expect(place).toBe(await newest());
    await list.add(["a"], DAY);
    const next = await beat();
    expect(next).not.toBe(place);
    expect(next).toBe(await newest());
    await env.DB.exec("DELETE FROM erased_contents");
    expect(await beat()).toBeUndefined();
    await nodes.leave("erased-1", Date.now());
  });

  test("is told in pages", async () => {
    const start = await newest();
    for (let from = 0; from < 2 * MAX_ERASED + 1; from += MAX_ERASED)
      await list.add(names(from, from < 2 * MAX_ERASED ? MAX_ERASED : 1), DAY);
    const pages: ErasedSince[] = [];
    for (let place = start; pages.at(-1)?.more || pages.length === 0; place = pages.at(-1)?.upTo ?? "")
      pages.push(await list.since(place));
    expect(pages.map(({ contents, more }) => [contents.length, more])).toEqual([
      [MAX_ERASED, true],
      [MAX_ERASED, true],
      [1, undefined],
    ]);
    expect(pages.flatMap(({ contents }) => contents)).toEqual(names(0, 2 * MAX_ERASED + 1));
    expect(pages.at(-1)?.upTo).toBe(await newest());
  });

  test.each([
    ["none", null],
    ["no place at all", "twelve"],
    ["one that never was", "999.0123456789abcdef"],
  ])("does not know the place of a node that names %s", async (_, place) => {
    await list.add(["a"], DAY);
    expect(await list.since(place)).toEqual({ upTo: await newest(), contents: [], everything: true });
  });

  test("does not know a place of a list that was set back and has grown to the same number since", async () => {
    await list.add(["a"], DAY);
    const before = await newest();
    await env.DB.exec("DELETE FROM erased_contents WHERE content = 'a'");
    await list.add(["b"], DAY);
    const now = await newest();
    expect(now.split(".")[0]).toBe(before.split(".")[0]);
    expect(await list.since(before)).toEqual({ upTo: now, contents: [], everything: true });
  });

  test("forgets what is older than 30 days, but no place of a node that had heard of all there was", async () => {
    await list.add(["old"], 1 * DAY);
    const away = await newest();
    await list.add(["older"], 2 * DAY);
    const idle = await newest();
    // Nothing is erased for a long time: the place of a node that lives stays.
    const now = 2 * DAY + 2 * ERASED_KEPT_MS;
    await list.add(["new"], now);
    expect(await list.since(idle)).toMatchObject({ contents: ["new"] });
    expect(await list.since(away)).toMatchObject({ everything: true });
    expect(await rows()).toBe(2);
  });

  test("does not grow for ever, however much was erased at once a month ago", async () => {
    await list.add(names(0, MAX_ERASED), DAY);
    const now = DAY + ERASED_KEPT_MS;
    for (let more = 0; more < MAX_ERASED / 2; more += 100) await list.add(names(more, 100), now);
    expect(await rows()).toBeLessThan(MAX_ERASED);
    for (let more = 0; more < MAX_ERASED; more += 500) await list.add(names(more, 500), now);
    // Those of now, and the newest of before, from which a node may come.
    expect(await rows()).toBe(MAX_ERASED / 2 + MAX_ERASED + 1);
  });

  test("costs a node one row while nothing is erased, however long the list is", async () => {
    await list.add(names(0, 100), DAY);
    const place = await newest();
    const asked = vi.spyOn(Object.getPrototypeOf(env.DB.prepare("SELECT 1")), "all");
    await list.since(place);
    const answers = (await Promise.all(asked.mock.results.map(({ value }) => value))) as D1Result[];
    vi.restoreAllMocks();
    expect(answers.map(({ meta }) => meta.rows_read)).toEqual([1]);
  });

  test("that is gone altogether knows no place, and gives none", async () => {
    const place = await newest();
    await env.DB.exec("DELETE FROM erased_contents");
    expect(await list.since(place)).toEqual({ upTo: "", contents: [], everything: true });
    await list.add(["a"], DAY);
    expect(await list.since("")).toMatchObject({ everything: true, upTo: await newest() });
  });
});
