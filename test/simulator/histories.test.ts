import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { REST } from "../support/suite.ts";
import { type Change, faultsOf, type Taken } from "./history/model.ts";
import { type Plan, shrunk } from "./history/plan.ts";
import { reportOfSeed } from "./history/report.ts";
import { historyOf, runHistory } from "./history/run.ts";
import { runShares } from "./history/shares.ts";
import { NOTHING, type Seen, type State, statesBetween } from "./history/states.ts";
import { tableOf } from "./history/table.ts";
import { Tally } from "./history/tally.ts";

// What went wrong is said in the log, and wrong it goes all the time.
beforeEach(() => {
  vi.spyOn(console, "warn").mockImplementation(() => {});
});

afterEach(() => {
  vi.restoreAllMocks();
});

test("a seed is a history: it runs in the same way each time", async () => {
  const asked = async (seed: number) =>
    (await runHistory(historyOf(seed))).taken.map(({ text, begun, ended }) => ({ text, begun, ended }));
  const one = await asked(1);
  expect(await asked(1)).toEqual(one);
  expect(await asked(2)).not.toEqual(one);
});

describe("branches are one sequence of commits each, which have their bytes as long as they are kept and no longer, whatever dies, is lost or fails", () => {
  test("in 50 histories", async () => {
    expect(await wrongAmong({ from: 0, to: 50 })).toEqual([]);
  });

  // Parts, each of which ends long before a test's time is up.
  test.each([50, 550, 1050])("in 500 more, from seed %i on", REST, async (from) => {
    expect(await wrongAmong({ from, to: from + 500 })).toEqual([]);
  });
});

/** What is wrong in the histories of some seeds. */
async function wrongAmong({ from, to }: { from: number; to: number }): Promise<string[]> {
  const wrong: string[] = [];
  for (let seed = from; seed < to; seed++) {
    const report = await reportOfSeed(seed);
    if (report !== undefined) wrong.push(report);
  }
  return wrong;
}

test("a plan that fails is made as small as it can be", async () => {
  const plan = historyOf(7);
  const isNeeded = ({ number }: Plan["steps"][number]) => number === 3 || number === 31;
  const fails = async ({ steps }: Plan) => steps.filter(isNeeded).length === 2;
  const least = await shrunk(plan, { fails, budget: 1000 });
  expect(least.steps.map(({ number }) => number)).toEqual([3, 31]);
  expect(least.isCalm).toBe(true);
});

test("histories that several processes share are those that one process runs", REST, async () => {
  const failed = (report: string) => expect.unreachable(report);
  const counts = async (processes: number) =>
    [...(await runShares({ from: 0, to: 6 }, { processes, failed })).counts].sort();
  const shared = await counts(2);
  expect(shared).toContainEqual(["step put", expect.any(Number)]);
  expect(shared).toEqual(await counts(1));
});

test("a step that is under way when its history is broken off is beside no step of another one", async () => {
  const tally = new Tally();
  void tally.ofHistory().during("put", () => new Promise(() => {}));
  await tally.ofHistory().during("list", async () => {});
  expect([...tally.counts]).toEqual([
    ["step put", 1],
    ["step list", 1],
  ]);
});

test("a table says what occurred too rarely for so many histories, also what never did", () => {
  const tally = new Tally();
  tally.add("step put", 10);
  tally.add("step list", 9);
  tally.add("pair list + put", 10);
  tally.add("pair jobs: put + jobs: update code", 6);
  tally.add("pair jobs: delete + jobs: submit again", 5);
  const { lines, tooRare, least } = tableOf(tally.counts, { histories: 1000, kinds: ["put", "list"] });
  expect(least).toBe(10);
  expect(tooRare).toContain("step list");
  expect(tooRare).toContain("pair put + put");
  expect(tooRare).toContain("fault call lost");
  expect(tooRare).not.toContain("step put");
  expect(tooRare).not.toContain("pair list + put");
  expect(tooRare).toContain("step jobs: kill node");
  expect(lines).toContain("       0  pair put + put  (less than 10)");
  expect(lines).toContain("      11  pair jobs: all updates + all writes");
  expect(tooRare).not.toContain("pair jobs: all updates + all writes");
  expect(tooRare).toContain("pair jobs: all nodes + all writes");
  expect(lines).toContain("      10  step put");
});

describe("the model finds", () => {
  const nothing: State = { ...NOTHING, generation: 1 };
  const red: State = { ...nothing, since: 3, commit: "C1", message: "1", tree: new Map([["a", "red"]]) };
  const put: Taken = {
    id: "1",
    bucket: "master.photos",
    text: "put",
    begun: 1,
    ended: 5,
    answer: { kind: "made", commit: "C1" },
    leads: ({ before, after }: Change) => !before.tree.has("a") && after.tree.get("a") === "red",
  };

  const faults = (taken: readonly Taken[], states: readonly State[]) => {
    const observer: Seen = {
      states: [...states],
      between: (from, to) => statesBetween(states, { from, to }),
    };
    return faultsOf(taken, new Map([["master.photos", observer]]));
  };

  test("nothing in a history that is right", () => {
    expect(faults([put], [nothing, red])).toEqual([]);
  });

  test("a commit that was lost", () => {
    expect(faults([put], [nothing])).toEqual([expect.stringContaining("is lost")]);
  });

  test("a commit that has what nobody wrote", () => {
    const other = { ...red, tree: new Map([["b", "red"]]) };
    expect(faults([put], [nothing, other])).toEqual([expect.stringContaining("made {b: red} of {}")]);
  });

  test("a commit that nobody asked for", () => {
    expect(faults([], [nothing, red])).toEqual([expect.stringContaining("nobody asked for")]);
  });

  test("a write that was done twice", () => {
    const again = { ...red, since: 4, commit: "C2" };
    expect(faults([put], [nothing, red, again])).toContainEqual(expect.stringContaining("two commits"));
  });

  test("a write that was answered before it was on the disk", () => {
    expect(faults([put], [nothing, { ...red, since: 6 }])).toEqual([
      expect.stringContaining("was answered before"),
    ]);
  });

  test("a commit that was there before anybody asked for it", () => {
    expect(faults([{ ...put, begun: 4 }], [nothing, red])).toEqual([
      expect.stringContaining("before it was asked for"),
    ]);
  });

  test("a refused write that was done all the same", () => {
    const refused: Taken = { ...put, answer: { kind: "saw", what: "busy", of: () => true } };
    expect(faults([refused], [nothing, red])).toEqual([expect.stringContaining("was answered otherwise")]);
  });

  test("a read of what was there no longer", () => {
    const read: Taken = {
      id: "2",
      bucket: "master.photos",
      text: "read",
      begun: 6,
      ended: 7,
      answer: { kind: "saw", what: "nothing", of: ({ tree }) => !tree.has("a") },
    };
    expect(faults([put, read], [nothing, red])).toEqual([expect.stringContaining("true of none of")]);
    expect(faults([put, { ...read, begun: 2 }], [nothing, red])).toEqual([]);
  });
});
