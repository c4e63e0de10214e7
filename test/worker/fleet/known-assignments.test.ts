import { beforeEach, describe, expect, test } from "vitest";
import { Assignments } from "../../../worker/fleet/assignments.ts";
import { KnownAssignments } from "../../../worker/fleet/known-assignments.ts";

let now: number;
/** What is asked of the catalogue, to be answered by the test. */
let asked: PromiseWithResolvers<Assignments>[];
let known: KnownAssignments;
beforeEach(() => {
  now = 1_000_000;
  asked = [];
  known = new KnownAssignments(
    () => {
      const answer = Promise.withResolvers<Assignments>();
      asked.push(answer);
      return answer.promise;
    },
    () => now,
  );
});

const share = (pipeline: string) => [{ pipeline, count: 1 }];

/** The catalogue's answer: each node has a worker of a pipeline of this name. */
function answer(pipeline: string, nodes: readonly string[] = ["a", "b"]): void {
  const shares = nodes.map((node) => [node, share(pipeline)] as const);
  asked.at(-1)?.resolve(new Assignments(new Map(shares), new Set([...nodes, "drained"])));
}

describe("what nodes are to run is asked", () => {
  test("once for all that ask within two seconds, and again for those that come later", async () => {
    const both = Promise.all([known.of("a"), known.of("b")]);
    answer("one");
    expect(await both).toEqual([share("one"), share("one")]);
    now += 1_999;
    expect(await known.of("a")).toEqual(share("one"));
    expect(asked).toHaveLength(1);
    now += 1;
    const later = known.of("a");
    answer("two");
    expect(await later).toEqual(share("two"));
    now -= 1_000_000;
    const setBack = known.of("a");
    answer("three");
    expect(await setBack).toEqual(share("three"));
    expect(asked).toHaveLength(3);
  });

  test("anew after a wake-up, also if an answer is still to come that was asked for before", async () => {
    const before = known.of("a");
    known.forget();
    const after = known.of("a");
    expect(asked).toHaveLength(2);
    answer("new");
    expect(await after).toEqual(share("new"));
    asked[0]?.resolve(new Assignments(new Map([["a", share("old")]]), new Set(["a"])));
    expect(await before).toEqual(share("old"));
    expect(await known.of("a")).toEqual(share("new"));
  });

  test("anew for a node of which nobody had heard, once; one that is being drained has nothing", async () => {
    const first = known.of("a");
    answer("one");
    await first;
    const came = known.of("c");
    await expect.poll(() => asked.length).toBe(2);
    answer("one", ["a", "b", "c"]);
    expect(await came).toEqual(share("one"));
    expect(await known.of("drained")).toEqual([]);
    const unknown = known.of("d");
    await expect.poll(() => asked.length).toBe(3);
    answer("one");
    expect(await unknown).toBeUndefined();
  });

  test("anew after a failure", async () => {
    const failed = known.of("a");
    asked[0]?.reject(new Error("away"));
    await expect(failed).rejects.toThrow("away");
    const next = known.of("a");
    answer("one");
    expect(await next).toEqual(share("one"));
  });
});
