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

export interface ListBranches {
  readonly after?: BranchAddress;
  readonly limit: number;
  readonly repos?: readonly string[];
}

export const BRANCHES_PROBE = "SELECT repo, branch, version, deleted, created_at FROM branches LIMIT 0";

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

  /** Live branches in order of (repo, branch), after `after`; only those of `repos` if that is given. */
  async list({ after, limit, repos }: ListBranches): Promise<BranchRow[]> {
    if (repos) return await this.#listOf(repos, { limit, ...(after && { after }) });
    const { results } = await this.#db
      .prepare(
        `SELECT repo, branch, created_at AS createdAt FROM branches
         WHERE (repo, branch) > (?1, ?2) AND deleted = 0 ORDER BY repo, branch LIMIT ?3`,
      )
      .bind(after?.repo ?? "", after?.branch ?? "", limit)
      .all<BranchRow>();
    return results;
  }

  // Reads of each repo as many as could be on the page, by the index, and no branch of another repo.
  async #listOf(
    repos: readonly string[],
    { after = { repo: "", branch: "" }, limit }: Omit<ListBranches, "repos">,
  ): Promise<BranchRow[]> {
    const { results } = await this.#db
      .prepare(
        `SELECT b.repo, b.branch, b.created_at AS createdAt
         FROM (SELECT DISTINCT value FROM json_each(?4)) AS wanted CROSS JOIN branches AS b ON b.repo = wanted.value AND b.branch IN (
           SELECT branch FROM branches
           WHERE repo = wanted.value AND branch > iif(repo = ?1, ?2, '') AND deleted = 0 ORDER BY branch LIMIT ?3)
         WHERE wanted.value >= ?1 ORDER BY b.repo, b.branch LIMIT ?3`,
      )
      .bind(after.repo, after.branch, limit, JSON.stringify(repos))
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
