import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { expect } from "vitest";
import type { ListEntry } from "../../../worker/branch/contract/files.ts";
import { type BranchStub, branchOf, freshBucket } from "./support.ts";

/** A branch that was made from a commit of another one, and can be read. */
export async function forkOf(
  parent: string,
  { commit, bucket = freshBucket() }: { commit?: string; bucket?: string } = {},
): Promise<{ bucket: string; branch: BranchStub }> {
  const branch = branchOf(bucket);
  const made = await branch.lifecycle.fork({ parent, ...(commit !== undefined && { commit }) });
  if (!made.ok) throw new Error(`fork answered ${made.reason}`);
  await ready(branch);
  return { bucket, branch };
}

/** Waits until a fork can be read. */
export async function ready(branch: BranchStub): Promise<void> {
  const isReady = async () => {
    const found = await branch.lifecycle.inspect();
    return found.ok && found.fork?.ready;
  };
  await expect.poll(isReady, { timeout: 60_000 }).toBe(true);
}

/** All of a tree: paths, digests and sizes. */
export async function entriesOf(branch: BranchStub, commit?: string): Promise<ListEntry[]> {
  const entries: ListEntry[] = [];
  for (let after: string | null = ""; after !== null; ) {
    const page = await branch.files.list({ prefix: "", limit: 1000, after, ...(commit && { commit }) });
    if (!page.ok) throw new Error(`list answered ${page.reason}`);
    entries.push(...page.entries);
    after = page.next;
  }
  return entries;
}

/** The same, each file with what a read of it says but for times, lives and commits. */
export async function treeOf(branch: BranchStub, commit?: string): Promise<unknown[]> {
  const files: unknown[] = [];
  for (const { path } of await entriesOf(branch, commit)) {
    const read = await branch.files.read({ path, ...(commit && { commit }) });
    if (!read.ok) throw new Error(`read of ${path} answered ${read.reason}`);
    const { kind, digest, size, attributes, body } = read;
    files.push({ path, kind, digest, size, attributes, body });
  }
  return files;
}

/** How many rows of tables a branch has. */
export function rowsOf(
  branch: BranchStub,
): Promise<Record<"files" | "revived" | "contents" | "onLoan" | "forks" | "roots", number>> {
  return runInDurableObject(branch, (_, { storage: { sql } }) => {
    const count = (what: string) => Number(sql.exec(`SELECT count(*) AS n FROM ${what}`).one().n);
    return {
      files: count("files"),
      revived: count("revived"),
      contents: count("contents"),
      onLoan: count("contents WHERE onLoan = 1"),
      forks: count("forks"),
      roots: count("roots WHERE goneAt IS NULL"),
    };
  });
}

/** Lets time pass and alarms ring until there is nothing left to do, on all of these branches. */
export async function atRest(...branches: readonly BranchStub[]): Promise<void> {
  const ring = async () => {
    let rang = 0;
    for (const branch of branches) {
      await runInDurableObject(branch, (_, { storage: { sql } }) => {
        for (const table of WITH_DUE) sql.exec(`UPDATE ${table} SET due = 1 WHERE due > 1`);
      });
      if (!(await asksAlone(branch)) && (await runDurableObjectAlarm(branch))) rang++;
    }
    return rang;
  };
  await expect.poll(ring, { timeout: 60_000 }).toBe(0);
}

/** Whether the alarm is for nothing but forks that are to be asked about what is held for them, which goes on as long as there are any. */
function asksAlone(branch: BranchStub): Promise<boolean> {
  return runInDurableObject(branch, async (_, { storage }) => {
    const { sql } = storage;
    const [ask] = sql.exec("SELECT min(due) AS due FROM fork_hold_asks").toArray();
    const waits = WITH_DUE.some(
      (table) => sql.exec(`SELECT 1 FROM ${table} WHERE due = 1 LIMIT 1`).toArray().length,
    );
    return !waits && ask?.due !== null && (await storage.getAlarm()) === Number(ask?.due);
  });
}

/** The tables whose rows wait for a time. */
const WITH_DUE = ["outbox", "pending_deletions", "completions", "uploads", "open_commits", "sweeps"];
