import { type BranchAddress, holdsSeparator } from "../../protocol/names.ts";

export interface BranchRow extends BranchAddress {
  /** Milliseconds since 1970. */
  readonly createdAt: number;
  /** Set if it is made from a commit of another branch and may still be on its way; it knows itself. */
  readonly forking?: boolean;
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

type StoredRow = Omit<BranchRow, "forking"> & { readonly forking: 0 | 1 };

export const BRANCHES_PROBE =
  "SELECT repo, branch, version, deleted, createdAt, forking FROM branches LIMIT 0";

/** Most deleted branches of a repo, and most repos all of whose branches are deleted, that one call names. */
const DELETED_AT_ONCE = 100;

/** Which branches there are. A repo exists while it has a branch. */
export class BranchTable {
  readonly #db: D1Database;

  constructor(db: D1Database) {
    this.#db = db;
  }

  /**
   * Writes what a Branch object says of itself; a version older than the stored one changes nothing. Within one version a
   * fork arrives and never leaves again: so a late word that it is on its way changes nothing either.
   */
  async record({ repo, branch, version, deleted, createdAt, forking }: BranchRecord): Promise<void> {
    await this.#db
      .prepare(
        `INSERT INTO branches (repo, branch, version, deleted, createdAt, forking) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (repo, branch) DO UPDATE SET
           version = excluded.version, deleted = excluded.deleted, createdAt = excluded.createdAt,
           forking = excluded.forking
         WHERE excluded.version > branches.version
           OR (excluded.version = branches.version AND excluded.forking < branches.forking)`,
      )
      .bind(repo, branch, version, deleted ? 1 : 0, createdAt, forking ? 1 : 0)
      .run();
  }

  /** Forgets what it was told of a later state of the branch than the one that its object is in: the object was set back. */
  async setBack({ repo, branch, version }: Pick<BranchRecord, "repo" | "branch" | "version">): Promise<void> {
    await this.#db
      .prepare("DELETE FROM branches WHERE repo = ?1 AND branch = ?2 AND version > ?3")
      .bind(repo, branch, version)
      .run();
  }

  /** Live branches in order of (repo, branch), after `after`; only those of `repos` if that is given. */
  async list({ after, limit, repos }: ListBranches): Promise<BranchRow[]> {
    const rows = repos
      ? await this.#listOf(repos, { limit, ...(after && { after }) })
      : await this.#listAll({ limit, ...(after && { after }) });
    return rows.map(({ forking, ...row }) => (forking ? { ...row, forking: true } : row));
  }

  async #listAll({ after, limit }: Omit<ListBranches, "repos">): Promise<StoredRow[]> {
    const { results } = await this.#db
      .prepare(
        `SELECT repo, branch, createdAt, forking FROM branches
         WHERE (repo, branch) > (?1, ?2) AND deleted = 0 ORDER BY repo, branch LIMIT ?3`,
      )
      .bind(after?.repo ?? "", after?.branch ?? "", limit)
      .all<StoredRow>();
    return results;
  }

  // Reads of each repo as many as could be on the page, by the index, and no branch of another repo.
  async #listOf(
    repos: readonly string[],
    { after = { repo: "", branch: "" }, limit }: Omit<ListBranches, "repos">,
  ): Promise<StoredRow[]> {
    const { results } = await this.#db
      .prepare(
        `SELECT b.repo, b.branch, b.createdAt, b.forking
         FROM (SELECT DISTINCT value FROM json_each(?4)) AS wanted CROSS JOIN branches AS b ON b.repo = wanted.value AND b.branch IN (
           SELECT branch FROM branches
           WHERE repo = wanted.value AND branch > iif(repo = ?1, ?2, '') AND deleted = 0 ORDER BY branch LIMIT ?3)
         WHERE wanted.value >= ?1 ORDER BY b.repo, b.branch LIMIT ?3`,
      )
      .bind(after.repo, after.branch, limit, JSON.stringify(repos))
      .all<StoredRow>();
    return results;
  }

  /** The names of a repo's branches that are deleted, as far as one call should ask them all: those that were made last. */
  async deletedOf(repo: string): Promise<string[]> {
    const { results } = await this.#db
      .prepare(
        "SELECT branch FROM branches WHERE repo = ?1 AND deleted = 1 ORDER BY createdAt DESC, branch LIMIT ?2",
      )
      .bind(repo, DELETED_AT_ONCE)
      .all<{ branch: string }>();
    return results.map(({ branch }) => branch);
  }

  /** The names of repos all of whose branches are deleted: those in which one was made last. Only of `repos` if that is given. */
  async deletedRepos(repos: readonly string[] | null): Promise<string[]> {
    const { results } = await this.#db
      .prepare(
        `SELECT repo FROM branches WHERE ?1 IS NULL OR repo IN (SELECT value FROM json_each(?1))
         GROUP BY repo HAVING min(deleted) = 1 ORDER BY max(createdAt) DESC, repo LIMIT ?2`,
      )
      .bind(repos && JSON.stringify(repos), DELETED_AT_ONCE)
      .all<{ repo: string }>();
    return results.map(({ repo }) => repo);
  }

  /**
   * Which name of a branch that is to be made may not be a new one, since it holds what labels have between names; undefined
   * if both may be, or if the branch is there already. A repo that is there takes new branches, whatever its name.
   */
  async newNameFault({ repo, branch }: BranchAddress): Promise<"repo" | "branch" | undefined> {
    if (!holdsSeparator(repo) && !holdsSeparator(branch)) return undefined;
    const there = await this.#db
      .prepare(
        `SELECT EXISTS (SELECT 1 FROM branches WHERE repo = ?1 AND deleted = 0) AS repo,
           EXISTS (SELECT 1 FROM branches WHERE repo = ?1 AND branch = ?2 AND deleted = 0) AS branch`,
      )
      .bind(repo, branch)
      .first<{ repo: 0 | 1; branch: 0 | 1 }>();
    if (there?.branch) return undefined;
    if (holdsSeparator(branch)) return "branch";
    return there?.repo ? undefined : "repo";
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
