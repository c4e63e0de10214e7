import { expect, test, vi } from "vitest";
import { HIDDEN_MEMORY_MS, openHiddenRepos } from "../../../worker/keys/hidden-repos.ts";

test("whether a label is also a repo's name is asked once a minute, and only of labels with '--'", async () => {
  let now = 1;
  const hasRepo = vi.fn(async (repo: string) => repo === "a--b");
  const repos = openHiddenRepos({ branches: { hasRepo }, now: () => now });
  for (let round = 0; round < 3; round++) {
    expect(await repos.has("a--b")).toBe(true);
    expect(await repos.has("c--d")).toBe(false);
    expect(await repos.has("a-b")).toBe(false);
  }
  expect(hasRepo.mock.calls).toEqual([["a--b"], ["c--d"]]);
  now += HIDDEN_MEMORY_MS;
  hasRepo.mockResolvedValue(false);
  expect(await repos.has("a--b")).toBe(false);
  expect(hasRepo).toHaveBeenCalledTimes(3);
});

test("a label reaches its branch while D1 can't be asked, and D1 is asked again after some seconds", async () => {
  const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
  const hasRepo = vi.fn(async (_: string): Promise<boolean> => {
    throw new Error("D1 is away");
  });
  let now = 1;
  const repos = openHiddenRepos({ branches: { hasRepo }, now: () => now });
  expect([await repos.has("a--b"), await repos.has("a--b")]).toEqual([false, false]);
  expect(hasRepo).toHaveBeenCalledTimes(1);
  now += 5_000;
  hasRepo.mockResolvedValue(true);
  expect(await repos.has("a--b")).toBe(true);
  expect(warn).toHaveBeenCalledTimes(1);
});
