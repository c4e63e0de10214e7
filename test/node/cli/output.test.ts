import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { changesOf, statusLines } from "../../../cli/commands/service/status.ts";
import { timedNotes } from "../../../cli/output/live-line.ts";
import { showShortTime, showSpan, terminalLines } from "../../../cli/output/output.ts";
import type { Job, Overview } from "../../../protocol/pipelines.ts";

describe("notes while something is waited for", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  test("come each 10 s until the end, and only if there is something to say", () => {
    const said: string[] = [];
    let text: string | undefined;
    const notes = timedNotes(() => text, { note: (line) => void said.push(line) });
    vi.advanceTimersByTime(10_000);
    expect(said).toEqual([]);
    text = "2 of 3 left";
    vi.advanceTimersByTime(9_999);
    expect(said).toEqual([]);
    vi.advanceTimersByTime(1);
    text = "1 of 3 left";
    vi.advanceTimersByTime(10_000);
    notes.end();
    vi.advanceTimersByTime(60_000);
    expect(said).toEqual(["2 of 3 left", "1 of 3 left"]);
  });
});

describe("a table on a terminal", () => {
  const columns = Object.getOwnPropertyDescriptor(process.stdout, "columns");
  beforeEach(() => Object.defineProperty(process.stdout, "columns", { value: 24, configurable: true }));
  afterEach(() => {
    if (columns) Object.defineProperty(process.stdout, "columns", columns);
    else Reflect.deleteProperty(process.stdout, "columns");
  });

  test("has the last columns below each row, whole, and steers no terminal", () => {
    const cells = [
      ["ID", "STATE", "REASON", "WHY"],
      ["1", "failed", "it ended with a code that\u001b[31m nobody knows", ""],
      ["2", "success", "", "new"],
      ["a-name-that-is-longer-than-that", "failed", "x".repeat(30), ""],
    ];
    const lines = terminalLines(cells, { below: 2, colours: false });
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(24);
    expect(lines.slice(2, 5)).toEqual([
      "    it ended with a",
      "    code that\\u001b[31m",
      "    nobody knows",
    ]);
    expect(lines.at(-3)).toMatch(/^a-name.*…$/);
    expect(lines.slice(-2).join("").replaceAll(" ", "")).toBe("x".repeat(30));
  });
});

describe("times in few characters", () => {
  const at = (text: string): number => new Date(text).getTime();
  const now = at("2026-06-15T12:00:00");

  test.each([
    ["2026-06-15T09:08:07", "09:08:07"],
    ["2026-06-14T09:08:07", "06-14 09:08"],
    ["2025-12-31T09:08:07", "2025-12-31"],
  ])("%s is %s", (time, shown) => {
    expect(showShortTime(at(time), { now })).toBe(shown);
  });

  test.each([
    [0, "0 s"],
    [59_999, "59 s"],
    [61_000, "1 min 1 s"],
    [7_200_000, "2 h"],
    [93_600_000, "1 d 2 h"],
  ])("%i ms are %s", (ms, shown) => {
    expect(showSpan(ms)).toBe(shown);
  });
});

describe("the lines of sluice status", () => {
  const job = (id: string, more: Partial<Job> = {}): Job => ({
    ...{ id, pipeline: "p", version: 1, state: "running", reason: null, inputs: [], outputCommit: null },
    output: { repo: "p", branch: "master" },
    datums: { total: 4, processed: 1, skipped: 1, failed: 0 },
    ...{ createdAt: 0, startedAt: 0, finishedAt: null },
    ...more,
  });
  const overview = (more: Partial<Overview> = {}): Overview => ({
    ...{ at: 60_000, underWay: [], failed: [], ended: [], failedCount: 0 },
    more: { underWay: false, failed: false },
    pipelines: { total: 1, stopped: [] },
    nodes: { live: 1, draining: 0, silent: 0, running: 1, room: 4 },
    ...more,
  });
  const looks = { isTTY: false };

  test("say that nothing runs if no node lives and something waits", () => {
    const nodes = { live: 0, draining: 0, silent: 2, running: 0, room: null };
    const waits = job("1", { waitsFor: "runner", reason: "no live runner" });
    expect(statusLines(overview({ nodes, underWay: [waits] }), looks)[1]).toContain("no node is live");
    expect(statusLines(overview({ nodes: null }), looks)).toHaveLength(1);
  });

  test("name what there is more of than is shown", () => {
    const failed = [job("1", { state: "failure", reason: "no", finishedAt: 1 })];
    const more = { underWay: true, failed: true };
    const lines = statusLines(overview({ underWay: [job("2")], failed, failedCount: 10_000, more }), looks);
    expect(lines[0]).toBe("1+ running, 0+ waiting, 10000+ failed since yesterday; 1 pipeline");
    expect(lines.slice(-2)).toEqual([
      "the newest 1 of 10000 that failed: 'sluice job list --state failure' has all",
      "the newest 1 that have not ended: 'sluice job list' has all",
    ]);
  });

  test("keep what failed apart from what a later job mended", () => {
    const failed = [
      job("3", { pipeline: "broken", state: "failure", reason: "no", finishedAt: 1 }),
      {
        ...job("1", { pipeline: "good", state: "failure", reason: "no", finishedAt: 1 }),
        mended: { job: "2", at: 2 },
      },
    ];
    const lines = statusLines(overview({ failed, failedCount: 2 }), looks);
    const at = (text: string): number => lines.findIndex((line) => line.startsWith(text));
    expect(lines[at("FAILED ") + 1]).toMatch(/^broken .* no$/);
    expect(lines[at("FAILED, MENDED SINCE") + 1]).toMatch(/^good .* no; good since job 2$/);
  });

  test("fit a screen, and say what does not", () => {
    const underWay = ["1", "2", "3"].map((id) => job(id, { pipeline: `p${id}` }));
    const lines = statusLines(overview({ underWay }), { isTTY: true, colours: false, most: 1 });
    expect(lines.filter((line) => /^p\d /.test(line))).toHaveLength(1);
    expect(lines.at(-1)).toBe("and 2 more: 'sluice status' has all");
    expect(statusLines(overview({ underWay }), looks).filter((line) => /^p\d /.test(line))).toHaveLength(3);
  });

  test("are told again only as they change", () => {
    const before = overview({ underWay: [job("1"), job("2")] });
    expect(changesOf({ ...before, at: 70_000 }, before)).toEqual([]);
    const after = overview({
      underWay: [job("2")],
      ended: [job("1", { state: "success", finishedAt: 65_000 })],
    });
    const changes = changesOf(after, before);
    expect(changes).toEqual([
      expect.stringMatching(/ {2}1 running, 0 waiting, 0 failed since yesterday; 1 pipeline$/),
      expect.stringMatching(/ {2}p 1 {2}success {2}2 of 4, 1 skipped$/),
    ]);
    expect(changesOf(before, undefined)).toEqual(statusLines(before, looks));
  });
});
