import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { REST } from "../support/suite.ts";
import { runBytes } from "./history/bytes.ts";
import { runCommits } from "./history/commits.ts";
import { faultsOf } from "./history/model.ts";
import { idOf } from "./history/steps.ts";

// What went wrong is said in the log, and wrong it goes all the time.
beforeEach(() => {
  vi.spyOn(console, "warn").mockImplementation(() => {});
});

afterEach(() => {
  vi.restoreAllMocks();
});

test("a seed is a history: it runs in the same way each time", async () => {
  const one = await runCommits(1);
  expect(await runCommits(1)).toEqual(one);
  expect((await runCommits(2)).taken).not.toEqual(one.taken);
});

describe("clients of a branch see one sequence of commits, whatever dies, is lost or fails, and its object rests in the end", () => {
  const history = async (seed: number) => (await runCommits(seed)).faults;

  test("in 50 histories", async () => {
    expect(await wrongAmong(history, { from: 0, to: 50 })).toEqual([]);
  });

  test("in 1,000 more", REST, async () => {
    expect(await wrongAmong(history, { from: 50, to: 1050 })).toEqual([]);
  });
});

describe("files have their bytes as long as a commit shows them and no longer, however branches are forked, erased from and deleted", () => {
  test("in 30 histories", async () => {
    expect(await wrongAmong(runBytes, { from: 0, to: 30 })).toEqual([]);
  });

  test("in 1,000 more", REST, async () => {
    expect(await wrongAmong(runBytes, { from: 30, to: 1030 })).toEqual([]);
  });
});

/** The seeds of histories in which something is wrong, and what. */
async function wrongAmong(
  history: (seed: number) => Promise<readonly string[]>,
  { from, to }: { from: number; to: number },
): Promise<unknown[]> {
  const wrong: unknown[] = [];
  for (let seed = from; seed < to; seed++) {
    const faults = await history(seed);
    if (faults.length > 0) wrong.push({ seed, faults });
  }
  return wrong;
}

describe("the model finds", () => {
  const red = idOf("red").digest;
  const put = { kind: "put", id: "1", path: "a", text: "red" } as const;
  const done = { kind: "done", commit: "C1" } as const;
  const first = { step: put, outcome: done, begun: 0, ended: 5 };
  const commit = { id: "C1", parent: null, annotation: { message: "1" }, files: new Map([["a", red]]) };

  test("nothing in a history that is right", () => {
    expect(faultsOf([first], { commits: [commit] })).toEqual([]);
  });

  test("a commit that was lost", () => {
    expect(faultsOf([first], { commits: [] })).toEqual([expect.stringContaining("is lost")]);
  });

  test("a commit that has what nobody wrote", () => {
    const other = { ...commit, files: new Map([["b", red]]) };
    expect(faultsOf([first], { commits: [other] })).toEqual([expect.stringContaining("instead of")]);
  });

  test("a write that was done twice", () => {
    const again = { ...commit, id: "C2" };
    expect(faultsOf([first], { commits: [commit, again] })).toContainEqual(
      expect.stringContaining("two commits"),
    );
  });

  test("a read of what was not there any more", () => {
    const read = {
      step: { kind: "read", path: "a" },
      outcome: { kind: "read", digest: null },
      begun: 6,
      ended: 7,
    } as const;
    expect(faultsOf([first, read], { commits: [commit] })).toEqual([expect.stringContaining("at no moment")]);
  });

  test("a condition that was passed over", () => {
    const again = {
      step: { ...put, id: "2", condition: { absent: true } },
      outcome: { kind: "done", commit: "C2" },
      begun: 6,
      ended: 7,
    } as const;
    const second = { ...commit, id: "C2", parent: "C1", annotation: { message: "2" } };
    expect(faultsOf([first, again], { commits: [commit, second] })).toEqual([
      expect.stringContaining("did not hold"),
    ]);
  });

  test("commits whose order is not that of their steps", () => {
    const later = {
      step: { ...put, id: "2", path: "b" },
      outcome: { kind: "done", commit: "C2" },
      begun: 6,
      ended: 7,
    } as const;
    const commits = [
      { ...commit, id: "C2", annotation: { message: "2" }, files: new Map([["b", red]]) },
      {
        ...commit,
        parent: "C2",
        files: new Map([
          ["b", red],
          ["a", red],
        ]),
      },
    ];
    expect(faultsOf([first, later], { commits })).toEqual([expect.stringContaining("ended before")]);
  });
});
