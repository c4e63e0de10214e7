import { expect, test } from "vitest";
import { ExpiringMap } from "../../../worker/keys/expiring-map.ts";

test("an entry is good until its time is over", () => {
  const map = new ExpiringMap<string>({ ttlMs: 10, maxEntries: 5 });
  map.set("a", { value: "1", since: 100 });
  expect(map.get("a", 109)).toBe("1");
  expect(map.get("a", 110)).toBeUndefined();
  expect(map.get("b", 100)).toBeUndefined();
});

test("an entry is not good for longer if the clock is set back", () => {
  const map = new ExpiringMap<string>({ ttlMs: 10, maxEntries: 5 });
  map.set("a", { value: "1", since: 100 });
  expect(map.get("a", 99)).toBeUndefined();
  expect(map.get("a", 100)).toBeUndefined();
});

test("an entry that is set again lives from then on", () => {
  const map = new ExpiringMap<string>({ ttlMs: 10, maxEntries: 5 });
  map.set("a", { value: "1", since: 100 });
  map.set("a", { value: "2", since: 105 });
  expect(map.get("a", 114)).toBe("2");
});

test("beyond its bound the oldest goes", () => {
  const map = new ExpiringMap<number>({ ttlMs: 10, maxEntries: 2 });
  map.set("a", { value: 1, since: 100 });
  map.set("b", { value: 2, since: 100 });
  map.set("a", { value: 3, since: 101 });
  map.set("c", { value: 4, since: 102 });
  expect(["a", "b", "c"].map((id) => map.get(id, 103))).toEqual([3, undefined, 4]);
});
