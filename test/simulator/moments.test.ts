import { describe, expect, test } from "vitest";
import { changed, faultsOf, type Taken } from "./history/model.ts";
import { momentsOf } from "./history/moments.ts";
import { isSame, NOTHING, type State } from "./history/states.ts";

const BUCKET = "master.kills";
const none: State = { ...NOTHING, generation: 1 };
const one: State = { ...none, commit: "C1", message: "1", tree: new Map([["a", "1"]]) };
const two: State = { ...none, commit: "C2", message: "2", tree: new Map([["a", "2"]]) };

function put(id: string, [begun, ended]: readonly [number, number]): Taken {
  return {
    ...{ id, bucket: BUCKET, text: `put ${id}`, begun, ended },
    answer: ended === Number.POSITIVE_INFINITY ? { kind: "unknown" } : { kind: "made", commit: `C${id}` },
    leads: ({ before, after }) => isSame(after.tree, changed(before.tree, [["a", id]])),
  };
}

function read(digest: string | undefined, [begun, ended]: readonly [number, number]): Taken {
  const of = ({ tree }: State) => tree.get("a") === digest;
  const text = `read at ${begun}`;
  return {
    ...{ id: text, bucket: BUCKET, text, begun, ended },
    answer: { kind: "saw", what: digest ?? "nothing", of },
  };
}

function faults(log: readonly State[], taken: readonly Taken[]): string[] {
  const moments = momentsOf(log, taken, { isWithReads: true });
  return [...moments.faults, ...faultsOf(taken, new Map([[BUCKET, moments]]))];
}

describe("the log of a branch is compared with what clients were told, and nothing is wrong if", () => {
  test("calls at the same time count in any order", () => {
    const taken = [put("1", [1, 9]), put("2", [2, 8]), read(undefined, [3, 7]), read("2", [4, 6])];
    expect(faults([none, one, two], taken)).toEqual([]);
  });

  test("a write that nobody answered was done or not", () => {
    const unanswered = put("1", [1, Number.POSITIVE_INFINITY]);
    expect(faults([none, one], [unanswered, read("1", [2, 3])])).toEqual([]);
    expect(faults([none], [unanswered, read(undefined, [2, 3])])).toEqual([]);
  });
});

describe("the log of a branch is compared with what clients were told, which finds", () => {
  test("a write that was answered and is not there", () => {
    expect(faults([none], [put("1", [1, 2])])).toEqual([expect.stringContaining("is lost")]);
  });

  test("a read of what was not there any more", () => {
    const taken = [put("1", [1, 2]), put("2", [3, 4]), read("1", [5, 6])];
    expect(faults([none, one, two], taken)).toEqual([expect.stringContaining("true of none")]);
  });

  test("a read of what was not there yet", () => {
    const taken = [read("1", [1, 2]), put("1", [3, 4])];
    expect(faults([none, one], taken)).toEqual([expect.stringContaining("true of none")]);
  });

  test("a read that is older than what another one saw before", () => {
    const writes = [put("1", [1, 9]), put("2", [2, 8])];
    const taken = [...writes, read("2", [3, 4]), read("1", [5, 6])];
    expect(faults([none, one, two], taken)).toEqual([expect.stringContaining("true of none")]);
  });

  test("a write that came before what was seen when it was asked for", () => {
    const taken = [put("2", [1, 2]), put("1", [3, 4])];
    expect(faults([none, one, two], taken)).toContainEqual(
      expect.stringContaining("older than what was seen"),
    );
  });

  test("a write that was undone by one that knew nothing of it", () => {
    const lost: State = { ...two, tree: new Map() };
    expect(faults([none, one, lost], [put("1", [1, 2]), put("2", [3, 4])])).toEqual([
      expect.stringContaining("made {} of"),
    ]);
  });
});
