import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { expect, vi } from "vitest";
import { MAX_COMMIT_OPERATIONS } from "../../../protocol/files.ts";
import type { Operation } from "../../../worker/branch/contract/files.ts";
import { Sql } from "../../../worker/objects/sql.ts";
import { HELD } from "./held.ts";
import { type BranchStub, commitFiles, committed, inline, startOpenCommit } from "./support.ts";

/** Small contents that a seeded branch has, by their texts. */
const TEXTS = Array.from({ length: 20 }, (_, n) => `text ${n}`);

/** Makes a commit with files below "seed/" that have the contents which `putText` names. */
export async function seed(branch: BranchStub): Promise<void> {
  const puts = Object.fromEntries(TEXTS.map((text, n) => [`seed/${n}`, text]));
  committed(await commitFiles(branch, { puts }));
}

/** Gives an output branch the contents that `putText` names, kept for a lease. */
export async function seedLease(branch: BranchStub): Promise<void> {
  const opened = await branch.uploads.open({ lease: "seed" });
  if (!opened.ok) throw new Error(opened.reason);
  await branch.uploads.add({ upload: opened.upload, contents: TEXTS.map(inline) });
}

/** A put of one of the seeded contents. */
export function putText(path: string, n: number): Operation {
  const { digest, size } = inline(TEXTS[n % TEXTS.length] ?? "");
  return { put: path, digest, size };
}

/** Names that sort as their numbers do. */
export function numbered(prefix: string, count: number): string[] {
  return Array.from({ length: count }, (_, n) => `${prefix}${String(n).padStart(6, "0")}`);
}

/** Stages operations in as many calls as they need, and returns the open commit. */
export async function stageAll(branch: BranchStub, operations: readonly Operation[]): Promise<string> {
  const openCommit = await startOpenCommit(branch);
  for (const page of pagesOf(operations))
    committed(await branch.files.commit({ openCommit, operations: page }));
  return openCommit;
}

export function pagesOf<T>(items: readonly T[]): T[][] {
  const pages: T[][] = [];
  for (let from = 0; from < items.length; from += MAX_COMMIT_OPERATIONS) {
    pages.push(items.slice(from, from + MAX_COMMIT_OPERATIONS));
  }
  return pages;
}

/** A crash just before the nth statement that the pattern matches. */
export interface CrashPoint {
  readonly statement: RegExp;
  readonly nth: number;
}

/**
 * Stops a large commit at a statement: what the transaction there did is undone, each time it is tried, until `resume`
 * takes the fault away. Then the alarm, or a call that asks for the commit, lets it go on.
 */
export function crashAt({ statement, nth }: CrashPoint): { resume(): void; reached(): Promise<void> } {
  const execute = Sql.prototype.execute;
  let seen = 0;
  const spy = vi.spyOn(Sql.prototype, "execute").mockImplementation(function (this: Sql, text, values) {
    if (statement.test(text)) {
      seen++;
      if (seen >= nth) throw new Error(`crash at ${statement}`);
    }
    return execute.call(this, text, values);
  });
  return {
    resume: () => spy.mockRestore(),
    reached: async () =>
      void (await expect.poll(() => seen, { timeout: 60_000 }).toBeGreaterThanOrEqual(nth)),
  };
}

/** A new instance of the object, as after a crash. */
export async function restarted(branch: BranchStub): Promise<void> {
  await evictDurableObject(branch);
}

/** Lets the alarm take forward what stands still. */
export async function goOn(branch: BranchStub): Promise<void> {
  await runDurableObjectAlarm(branch);
}

/** How many rows a table has. */
export function countOf(branch: BranchStub, table: "commits" | "staged" | "applying"): Promise<number> {
  return runInDurableObject(branch, (_, { storage: { sql } }) =>
    Number(sql.exec(`SELECT count(*) AS n FROM ${table}`).one().n),
  );
}

/** All paths at HEAD, or of what else is asked, page by page. */
export async function allPaths(
  branch: BranchStub,
  request: { prefix?: string; commit?: string } = {},
): Promise<string[]> {
  const paths: string[] = [];
  for (let after: string | null = ""; after !== null; ) {
    const page = await branch.files.list({ prefix: "", limit: 1000, ...request, after });
    if (!page.ok) throw new Error(page.reason);
    paths.push(...page.entries.map(({ path }) => path));
    after = page.next;
  }
  return paths;
}

/** Whether, once all is quiet, refs are what the rows of files and of holds say. */
export async function expectRefsRight(branch: BranchStub): Promise<void> {
  await runInDurableObject(branch, (_, { storage: { sql } }) => {
    const wrong = sql
      .exec(
        `SELECT size, refs, (
           SELECT count(*) FROM files WHERE kind = 0 AND files.digest = contents.digest AND files.size = contents.size
         ) + (
           SELECT count(*) FROM staged WHERE gone = 0 AND substr(path, -1) <> '/' AND staged.digest = contents.digest
             AND staged.size = contents.size
         ) + (
           SELECT count(*) FROM ${HELD} AS held WHERE held.digest = contents.digest AND held.size = contents.size
         ) AS counted
         FROM contents WHERE refs <> counted`,
      )
      .toArray();
    expect(wrong).toEqual([]);
    // An import refuses what counts otherwise: no branch may.
    expect(sql.exec(MISCOUNTED).toArray()).toEqual([]);
  });
}

/**
 * Commits of the living generation with which more rows came or went than they say, and the newest one, if not as many are
 * there. Placeholders are no births, and those that only bring news are no deaths.
 */
const MISCOUNTED = `
  WITH said AS (
    SELECT gen, seq, births, deaths, lead(seq) OVER (ORDER BY seq) IS NULL AS isHead,
      births - lag(births, 1, 0) OVER (ORDER BY seq) AS born, deaths - lag(deaths, 1, 0) OVER (ORDER BY seq) AS died
    FROM commits WHERE gen = (SELECT gen FROM generations WHERE deletedAt IS NULL)
  )
  SELECT seq FROM said WHERE
    born < (SELECT count(*) FROM files WHERE files.gen = said.gen AND files.born = seq AND kind < 2)
    OR died < (SELECT count(*) FROM files WHERE files.gen = said.gen AND files.died = seq AND version IS NOT 0)
    OR (isHead AND births - deaths <> (SELECT count(*) FROM files WHERE files.gen = said.gen AND files.died IS NULL))`;
