import { expect, test } from "vitest";
import { besideFaults, LEAST_TTL_MS } from "./history/beside.ts";
import { type Entries, type Filled, NOTHING, type State, statesBetween } from "./history/states.ts";

const UPLOAD = "master.photos.1";

function state(since: number, entries: Record<string, string> | null): State {
  const filled: Filled | null = entries && {
    goesInto: null,
    path: null,
    initiatedAt: null,
    isByRule: false,
    isApplying: false,
    entries: new Map(Object.entries(entries)),
  };
  return { ...NOTHING, since, generation: 1, beside: new Map(filled ? [[UPLOAD, filled]] : []), at: since };
}

function part(id: string, { number, digest }: { number: string; digest: string }) {
  return {
    id,
    bucket: "master.photos",
    text: `part ${id}`,
    begun: 2,
    ended: 9,
    answer: { kind: "filled" },
    fills: { into: UPLOAD, after: (_: State, entries: Entries) => new Map(entries).set(number, digest) },
  };
}

const RED = part("1", { number: "1", digest: "red" });
const BLUE = part("2", { number: "2", digest: "blue" });
const BEGUN = [state(0, null), state(1, {})];

function faults(taken: Parameters<typeof besideFaults>[0], states: readonly State[]): string[] {
  const observer = {
    states: [...states],
    between: (from: number, to: number) => statesBetween(states, { from, to }),
  };
  return besideFaults(taken, new Map([["master.photos", observer]]));
}

test("what calls added is there, also if two of them share a transaction", () => {
  expect(faults([RED], [...BEGUN, state(3, { 1: "red" })])).toEqual([]);
  expect(faults([RED, BLUE], [...BEGUN, state(3, { 1: "red", 2: "blue" })])).toEqual([]);
});

test("what was added and is lost is found", () => {
  expect(faults([RED], BEGUN)).toEqual([expect.stringContaining("part 1 was done, and is not in")]);
});

test("what nobody added is found", () => {
  expect(faults([RED], [...BEGUN, state(3, { 1: "green" })])).toContainEqual(
    expect.stringContaining("nobody made"),
  );
});

test("what was added before anybody asked is found", () => {
  expect(faults([{ ...RED, begun: 4 }], [...BEGUN, state(3, { 1: "red" })])).toContainEqual(
    expect.stringContaining("nobody made"),
  );
});

test("an upload ends only if somebody asked, or after its time", () => {
  const filled = [...BEGUN, state(3, { 1: "red" })];
  const gone = state(4, null);
  const wrong = [expect.stringContaining("nobody ended")];
  expect(faults([RED], [...filled, gone])).toEqual(wrong);
  expect(faults([RED], [...filled, { ...gone, at: 3 + LEAST_TTL_MS }])).toEqual([]);
  const { fills: _, ...asked } = RED;
  const abort = { ...asked, id: "3", answer: { kind: "saw" }, ends: { what: UPLOAD, may: () => true } };
  expect(faults([RED, abort], [...filled, gone])).toEqual([]);
  expect(faults([RED, { ...abort, begun: 5 }], [...filled, gone])).toEqual(wrong);
});
