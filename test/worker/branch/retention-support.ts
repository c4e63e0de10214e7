import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { expect } from "vitest";
import type { BranchStub } from "./support.ts";

/** Lets alarms ring until nothing is left to give back. */
export async function givenBack(branch: BranchStub): Promise<void> {
  const isBehind = async () => {
    await runDurableObjectAlarm(branch);
    return await runInDurableObject(branch, (_, { storage: { sql } }) =>
      Number(
        sql
          .exec(
            "SELECT count(*) AS n FROM horizons WHERE marked < horizon OR (marked > 0 AND diedFrom <= marked)",
          )
          .one().n,
      ),
    );
  };
  await expect.poll(isBehind, { timeout: 60_000, interval: 5 }).toBe(0);
  // A round that had just ended may not have seen the newest commit.
  await runDurableObjectAlarm(branch);
  await expect.poll(isBehind, { timeout: 60_000, interval: 5 }).toBe(0);
}

/** How many rows of each table there are. */
export function rowsLeft(
  branch: BranchStub,
): Promise<Record<"files" | "contents" | "commits" | "held" | "lineages", number>> {
  return runInDurableObject(branch, (_, { storage: { sql } }) => {
    const count = (what: string) => Number(sql.exec(`SELECT count(*) AS n FROM ${what}`).one().n);
    return {
      files: count("files"),
      contents: count("contents"),
      commits: count("commits"),
      held: count("held"),
      lineages: count("lineages"),
    };
  });
}

/**
 * Commits that are not marked as gone, and lack rows all the same: whoever reads one would find a part of its tree.
 * Each counts what was born and died up to it.
 */
export function tornCommits(branch: BranchStub): Promise<unknown[]> {
  return runInDurableObject(branch, (_, { storage: { sql } }) =>
    sql
      .exec(
        `SELECT seq FROM commits WHERE kind = 0 AND births - deaths <> (
           SELECT count(*) FROM files WHERE files.gen = commits.gen AND born <= seq AND (died IS NULL OR died > seq)
         )`,
      )
      .toArray(),
  );
}

/** The horizon of a branch's live generation, or of its last one. */
export function horizonOf(branch: BranchStub): Promise<number> {
  return runInDurableObject(branch, (_, { storage: { sql } }) => {
    const [row] = sql.exec("SELECT horizon FROM horizons ORDER BY gen DESC LIMIT 1").toArray();
    return Number(row?.horizon ?? 0);
  });
}

/** The time is over that commits are kept for whose tags were deleted or moved. */
export async function dayAfterTags(branch: BranchStub): Promise<void> {
  await runInDurableObject(branch, async (_, { storage }) => {
    storage.sql.exec("UPDATE untagged SET due = 1");
    await storage.setAlarm(Date.now());
  });
  await runDurableObjectAlarm(branch);
}
