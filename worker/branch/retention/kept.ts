import type { CommitRow, CommitStore, Position } from "../tree/commit-store.ts";
import type { GenerationStore, Live } from "../tree/generation-store.ts";
import type { HorizonStore } from "./horizon-store.ts";
import type { NameStore } from "./name-store.ts";

/**
 * Which commits are kept. A *range*: from the horizon of a generation up to its HEAD. Below the horizon *single* ones, which
 * something names (name-store.ts). The horizon only rises, so what is not kept once never is again: a name is given
 * only to a commit that is kept, in the turn that looks.
 *
 * Everybody who reads by a commit asks here first, and in the turn that reads.
 */

export interface KeptStores {
  readonly generations: GenerationStore;
  readonly commits: CommitStore;
  readonly horizons: HorizonStore;
  readonly names: NameStore;
}

/** Whether all of a commit's tree is there, and stays as long as that is so. Deletions of the branch are no commits. */
export function isKept({ generations, horizons, names }: KeptStores, commit: CommitRow): boolean {
  if (commit.kind !== "commit") return false;
  if (commit.seq >= horizons.horizonOf(commit.gen)) return true;
  return generations.live()?.gen === commit.gen ? names.has(commit) : names.isRoot(commit);
}

/** The commit of this id, of any generation, if it is kept. */
export function keptCommit(ledger: KeptStores, id: string): CommitRow | undefined {
  const commit = ledger.commits.byId(id);
  return commit && isKept(ledger, commit) ? commit : undefined;
}

/** Whether what was at a position can be read. Before the first commit, and after the deletion of the branch, it is nothing. */
export function isReadable(ledger: KeptStores, { gen, seq }: Position): boolean {
  if (seq === 0 || seq >= ledger.horizons.horizonOf(gen)) return true;
  const commit = ledger.commits.at({ gen, seq });
  return commit !== undefined && (commit.kind === "deletion" || isKept(ledger, commit));
}

/** For calls whose callers hold what they read. A position that is kept no more is a fault of theirs, not an answer. */
export function mustBeReadable(ledger: KeptStores, { gen, seq }: Position): void {
  if (!isReadable(ledger, { gen, seq }))
    throw new Error(`commit ${seq} of generation ${gen} is kept no more`);
}

/**
 * Whether an id is that of a commit of the live generation that is kept no more. Of many no row is left: ids grow with
 * time, so an id from between the creation of the branch and the horizon counts as one.
 */
export function wasGivenBack(ledger: KeptStores & { readonly live: Live | null }, id: string): boolean {
  const { live } = ledger;
  if (!live) return false;
  const commit = ledger.commits.byId(id);
  if (commit) return commit.gen === live.gen && commit.kind !== "deletion" && !isKept(ledger, commit);
  const horizon = ledger.horizons.horizonOf(live.gen);
  const oldest = horizon > 0 ? ledger.commits.at({ gen: live.gen, seq: horizon }) : undefined;
  return oldest !== undefined && id > live.uid && id < oldest.id;
}
