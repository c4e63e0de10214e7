import { describe, expect, test } from "vitest";
import {
  cutoffOf,
  daysKept,
  dueMidnight,
  holdingRules,
  type LifecycleRule,
  midnightAfter,
  midnightOf,
  scanTime,
  termOf,
} from "../../../worker/core/lifecycle-rules.ts";

const utc = (text: string): number => Date.parse(`${text}Z`);
const RULE: LifecycleRule = { id: "r", enabled: true, prefix: "", filter: "empty" };

describe("when something is due", () => {
  test("S3's own example: 3 days after 2014-01-15 10:30 is the midnight of 2014-01-19", () => {
    expect(dueMidnight({ days: 3 }, utc("2014-01-15T10:30"))).toBe(utc("2014-01-19T00:00"));
  });

  test("a file of exactly midnight has its whole days, and a millisecond decides nothing else", () => {
    expect(dueMidnight({ days: 1 }, utc("2026-01-01T00:00"))).toBe(utc("2026-01-03T00:00"));
    expect(dueMidnight({ days: 1 }, utc("2025-12-31T23:59:59.999"))).toBe(utc("2026-01-02T00:00"));
  });

  test("the cutoff of a midnight says the same as the midnight of each file", () => {
    const midnight = utc("2026-03-10T00:00");
    const hour = 3_600_000;
    for (const term of [
      { days: 1 },
      { days: 7 },
      { date: midnight },
      { date: midnight + 24 * hour },
      { date: 0 },
    ]) {
      for (let at = midnight - 10 * 24 * hour; at < midnight + 30 * hour; at += hour / 2) {
        const cutoff = cutoffOf(term, midnight);
        expect([term, at, cutoff !== undefined && at < cutoff]).toEqual([
          term,
          at,
          dueMidnight(term, at) <= midnight,
        ]);
      }
    }
  });

  test("a date that is over counts for what comes later, too, from the next midnight on", () => {
    const date = utc("2026-01-01T00:00");
    expect(dueMidnight({ date }, utc("2026-02-03T12:00"))).toBe(utc("2026-02-04T00:00"));
    expect(dueMidnight({ date }, utc("2025-02-03T12:00"))).toBe(date);
  });
});

test("a scan begins within the hour after a midnight, later than a given time, at a minute of the branch's own", () => {
  const after = utc("2026-01-01T12:00");
  const at = (uid: string, midnight = 0) => scanTime({ midnight, after, uid });
  const starts = Array.from({ length: 200 }, (_, n) => at(`01J${n}`));
  for (const start of starts) {
    expect(start).toBeGreaterThanOrEqual(midnightAfter(after));
    expect(start).toBeLessThan(midnightAfter(after) + 3_600_000);
  }
  expect(new Set(starts).size).toBeGreaterThan(20);
  expect(midnightOf(at("u", utc("2026-05-01T00:00")))).toBe(utc("2026-05-01T00:00"));
  expect(at("u", Number.MAX_SAFE_INTEGER)).toBeLessThan(8.64e15);
});

test("a rule that is disabled has no term and says nothing of commits", () => {
  const rule = { ...RULE, expiration: { days: 1 }, abortDays: 2, noncurrentDays: 3 };
  expect([termOf(rule, "expire"), termOf(rule, "abort")]).toEqual([{ days: 1 }, { days: 2 }]);
  expect(daysKept([rule, { ...RULE, noncurrentDays: 5 }])).toBe(3);
  const disabled = { ...rule, enabled: false };
  expect([termOf(disabled, "expire"), termOf(disabled, "abort")]).toEqual([undefined, undefined]);
  expect(daysKept([disabled, { ...RULE, noncurrentDays: 5 }])).toBe(5);
  expect(daysKept([disabled])).toBeUndefined();
});

test("what rules say of commits holds until somebody says something else of them", () => {
  const rules = [
    { ...RULE, noncurrentDays: 5, abortDays: 2 },
    { ...RULE, id: "only", noncurrentDays: 9 },
    { ...RULE, id: "off", enabled: false, noncurrentDays: 1 },
  ];
  expect(holdingRules(rules, { days: 5 })).toEqual(rules);
  for (const keep of [null, { days: 6 }, { commits: 1 }, { commits: 1, days: 5 }]) {
    expect(holdingRules(rules, keep)).toEqual([{ ...RULE, abortDays: 2 }, rules[2]]);
  }
  expect(daysKept([{ ...RULE, noncurrentDays: 2_147_483_647 }])).toBe(36_500);
});
