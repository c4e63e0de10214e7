import type { BranchAddress } from "../../protocol/names.ts";

export interface BranchRow extends BranchAddress {
  /** Milliseconds since 1970. */
  readonly createdAt: number;
}

export interface BranchRecord extends BranchRow {
  /** Grows with each creation and deletion of the branch. */
  readonly version: number;
  readonly deleted: boolean;
}

/** Which branches there are. A repo exists while it has a branch. */
export class BranchTable {
  readonly #db: D1Database;

  constructor(db: D1Database) {
    this.#db = db;
  }

  /** Writes what a Branch object says of itself; a version older than the stored one changes nothing. */
  async record({ repo, branch, version, deleted, createdAt }: BranchRecord): Promise<void> {
    await this.#db
      .prepare(
        `INSERT INTO branches (repo, branch, version, deleted, created_at) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (repo, branch) DO UPDATE SET
           version = excluded.version, deleted = excluded.deleted, created_at = excluded.created_at
         WHERE excluded.version > branches.version`,
      )
      .bind(repo, branch, version, deleted ? 1 : 0, createdAt)
      .run();
  }

  /** Live branches in order of (repo, branch), after `after`. */
  async list({ after, limit }: { after?: BranchAddress; limit: number }): Promise<BranchRow[]> {
    const { results } = await this.#db
      .prepare(
        `SELECT repo, branch, created_at AS createdAt FROM branches
         WHERE (repo, branch) > (?1, ?2) AND deleted = 0 ORDER BY repo, branch LIMIT ?3`,
      )
      .bind(after?.repo ?? "", after?.branch ?? "", limit)
      .all<BranchRow>();
    return results;
  }

  /** Whether a repo exists. */
  async hasRepo(repo: string): Promise<boolean> {
    const row = await this.#db
      .prepare(`SELECT 1 AS one FROM branches WHERE repo = ?1 AND deleted = 0 LIMIT 1`)
      .bind(repo)
      .first();
    return row !== null;
  }
}
