import { describe, expect, test } from "vitest";
import type { BranchAddress } from "../../../protocol/names.ts";
import type { OpenBranch } from "../../../worker/catalogue/branch-settings.ts";
import type { Catalogue } from "../../../worker/catalogue/catalogue.ts";
import type { CorsRule } from "../../../worker/core/cors.ts";
import { OPENNESS_MEMORY_MS, OpenBranches } from "../../../worker/keys/open-branches.ts";

const RULE: CorsRule = { origins: ["*"], methods: ["GET"], headers: [], exposed: [] };
const PUBLIC = { isPublic: true, hasCors: false };
const CLOSED = { isPublic: false, hasCors: false };
const at = (name: string): BranchAddress => ({ repo: name, branch: "master" });

/** A catalogue and branches that count what they are asked, and a clock that stands still until it is moved. */
function stage({ maxListed = 10 } = {}) {
  const open = new Map<string, OpenBranch>();
  const asked = { lists: 0, lookUps: 0, branches: 0 };
  const clock = { now: 1_000_000 };
  const held: { answer?: Promise<void>; fails?: boolean } = {};
  const settings: Pick<Catalogue["settings"], "listOpen" | "findOpen"> = {
    async listOpen(limit) {
      asked.lists++;
      const found = [...open.values()].slice(0, limit);
      await held.answer;
      if (held.fails) throw new Error("D1_ERROR: away");
      return found;
    },
    async findOpen({ repo }) {
      asked.lookUps++;
      return open.get(repo);
    },
  };
  const rulesOf = async () => {
    asked.branches++;
    return [RULE];
  };
  const catalogue = { settings } as unknown as Pick<Catalogue, "settings">;
  const branches = new OpenBranches({ catalogue, rulesOf, now: () => clock.now, maxListed });
  const publish = (name: string) => open.set(name, { ...at(name), ...PUBLIC });
  return { branches, open, publish, asked, clock, held };
}

describe("which branches are open", () => {
  test("is asked of D1 once in 5 s, for whatever names are made up", async () => {
    const { branches, publish, asked, clock } = stage();
    publish("a");
    for (let name = 0; name < 1000; name++)
      expect(await branches.find(at(`made-up-${name}`))).toEqual(CLOSED);
    expect(await branches.find(at("a"))).toEqual(PUBLIC);
    expect(asked).toEqual({ lists: 1, lookUps: 0, branches: 0 });
    clock.now += OPENNESS_MEMORY_MS;
    publish("b");
    expect(await branches.find(at("b"))).toEqual(PUBLIC);
    expect(asked.lists).toBe(2);
  });

  test("is not known from a list that is 5 s old, also if D1 does not answer", async () => {
    const { branches, publish, clock, held } = stage();
    publish("a");
    await branches.find(at("a"));
    held.fails = true;
    clock.now += OPENNESS_MEMORY_MS - 1;
    expect(await branches.find(at("a"))).toEqual(PUBLIC);
    clock.now += 1;
    await expect(branches.find(at("a"))).rejects.toThrow("away");
    held.fails = false;
    expect(await branches.find(at("a"))).toEqual(PUBLIC);
  });

  test("is asked of D1 again once the clock was set back, so that what is public no more is not open for longer", async () => {
    const { branches, open, publish, clock } = stage();
    publish("a");
    expect(await branches.find(at("a"))).toEqual(PUBLIC);
    open.clear();
    clock.now -= 60 * 60_000;
    expect(await branches.find(at("a"))).toEqual(CLOSED);
  });

  test("is asked by one request before the list is too old, while the others go on with it", async () => {
    const { branches, publish, asked, clock, held } = stage();
    publish("a");
    await branches.find(at("a"));
    clock.now += OPENNESS_MEMORY_MS - 500;
    const gate = Promise.withResolvers<void>();
    held.answer = gate.promise;
    const renewing = branches.find(at("a"));
    for (let n = 0; n < 10; n++) expect(await branches.find(at("a"))).toEqual(PUBLIC);
    expect(asked.lists).toBe(2);
    gate.resolve();
    expect(await renewing).toEqual(PUBLIC);
    clock.now += OPENNESS_MEMORY_MS - 1500;
    await branches.find(at("a"));
    expect(asked.lists).toBe(2);
  });

  test("is seen at once where it was changed, also if a list was on its way", async () => {
    const { branches, publish, clock, held } = stage();
    await branches.find(at("a"));
    clock.now += OPENNESS_MEMORY_MS;
    const gate = Promise.withResolvers<void>();
    held.answer = gate.promise;
    const late = branches.find(at("a"));
    publish("a");
    branches.forget();
    gate.resolve();
    expect(await late).toEqual(CLOSED);
    expect(await branches.find(at("a"))).toEqual(PUBLIC);
  });

  test("is looked up one by one beyond what a list holds", async () => {
    const { branches, publish, asked, clock } = stage({ maxListed: 2 });
    for (const name of ["a", "b", "c"]) publish(name);
    expect(await branches.find(at("a"))).toEqual(PUBLIC);
    expect(asked.lookUps).toBe(0);
    for (let times = 0; times < 2; times++) {
      expect(await branches.find(at("c"))).toEqual(PUBLIC);
      expect(await branches.find(at("d"))).toEqual(CLOSED);
    }
    expect(asked).toEqual({ lists: 1, lookUps: 2, branches: 0 });
    clock.now += OPENNESS_MEMORY_MS;
    await branches.find(at("c"));
    expect(asked).toEqual({ lists: 2, lookUps: 3, branches: 0 });
  });
});

test("the rules of a branch are asked of it once in 5 s, and at once where they were changed", async () => {
  const { branches, asked, clock } = stage();
  for (let times = 0; times < 3; times++) expect(await branches.corsRules(at("a"))).toEqual([RULE]);
  expect(asked.branches).toBe(1);
  clock.now += OPENNESS_MEMORY_MS;
  await branches.corsRules(at("a"));
  expect(asked.branches).toBe(2);
  branches.forget();
  await branches.corsRules(at("a"));
  expect(asked.branches).toBe(3);
});
