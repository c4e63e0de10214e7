import { BranchStore } from "../store.ts";
import type { Position } from "../tree/commit-store.ts";

/**
 * SQL that says whether something names a commit, which a query has as `named` (with gen, seq and id): a tag, a tag that
 * went or moved a short time ago, a fork that was made from it, an open commit that began with it, a revert to it that is
 * under way, a pipeline's input that starts after it. Open commits that ended, whatever way, are of state 2 and more.
 */
export const IS_NAMED = `(
  EXISTS (SELECT 1 FROM tags INDEXED BY tags_by_commit WHERE tags.gen = named.gen AND tags."commit" = named.id)
  OR EXISTS (SELECT 1 FROM untagged WHERE untagged.gen = named.gen AND untagged.seq = named.seq)
  OR EXISTS (
    SELECT 1 FROM roots INDEXED BY roots_standing
    WHERE roots.gen = named.gen AND roots.seq = named.seq AND roots.goneAt IS NULL
  )
  OR EXISTS (
    SELECT 1 FROM open_commits INDEXED BY open_commits_by_base
    WHERE open_commits.gen = named.gen AND open_commits.base = named.seq AND open_commits.state < 2
  )
  OR EXISTS (SELECT 1 FROM reverting WHERE reverting.gen = named.gen AND reverting.target = named.seq)
  OR EXISTS (
    SELECT 1 FROM starts INDEXED BY starts_holding
    WHERE starts.gen = named.gen AND starts.seq = named.seq AND starts.holds = 1
  )
)`;

/** The same of a deleted generation: its tags and open commits ended with it, and forks alone still name its commits. */
export const IS_ROOT = `EXISTS (
  SELECT 1 FROM roots INDEXED BY roots_standing
  WHERE roots.gen = named.gen AND roots.seq = named.seq AND roots.goneAt IS NULL
)`;

/** Of (?1 gen, ?2 seq). */
const NAMES = `SELECT 1 FROM commits AS named WHERE named.gen = ?1 AND named.seq = ?2 AND ${IS_NAMED}`;
const ROOTS = `SELECT 1 FROM commits AS named WHERE named.gen = ?1 AND named.seq = ?2 AND ${IS_ROOT}`;

/** What retains commits by name, so that they stay when the history around them goes. */
export class NameStore extends BranchStore {
  /** Whether anything names a commit of the live generation. */
  has({ gen, seq }: Position): boolean {
    return this.sql.query(NAMES, [gen, seq]).length > 0;
  }

  /** Whether a fork that was made from a commit of any generation stands. */
  isRoot({ gen, seq }: Position): boolean {
    return this.sql.query(ROOTS, [gen, seq]).length > 0;
  }
}
