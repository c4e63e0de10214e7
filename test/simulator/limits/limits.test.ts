import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { Branch } from "../../../worker/branch/branch.ts";
import { Simulation } from "../platform/simulation.ts";
import { LIMITED, withSmallLimits } from "./limits.ts";
import { SmallBranch } from "./small-branch.ts";

const ROOT = join(import.meta.dirname, "../../..");

test("each limit that histories make small is in the code, is larger there, and moves nothing when it is made small", () => {
  for (const file of LIMITED) {
    const path = join(ROOT, file);
    const source = readFileSync(path, "utf8");
    const small = withSmallLimits(path);
    expect(small).not.toBe(source);
    expect(small.split("\n").map(({ length }) => length)).toEqual(
      source.split("\n").map(({ length }) => length),
    );
  }
});

test("the branches of a simulation have small limits if that is wanted", async () => {
  const answers = async (branch: typeof Branch) => {
    const simulation = new Simulation({ seed: 1, branch });
    try {
      return await simulation.as(async () => {
        const { lifecycle, files } = simulation.branch("master.photos");
        await lifecycle.create();
        const operations = ["a", "b", "c", "d"].map((path) => ({ delete: path }));
        return await files.commit({ operations });
      });
    } finally {
      simulation.close();
    }
  };
  expect(await answers(SmallBranch)).toEqual({ ok: false, reason: "too-many-operations" });
  expect(await answers(Branch)).toMatchObject({ ok: true });
});
