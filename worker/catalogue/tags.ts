import type { BranchAddress } from "../../protocol/names.ts";

export interface TagRow {
  readonly branch: string;
  readonly name: string;
  /** The commit's id. */
  readonly commit: string;
  /** When it was made or last moved; milliseconds since 1970. */
  readonly createdAt: number;
}

/** What a Branch object says of one of its tags. */
export interface TagRecord {
  readonly name: string;
  /** Grows with each change of any tag of the branch, over all generations. */
  readonly version: number;
  /** Null: it was deleted. */
  readonly tag: { readonly commit: string; readonly createdAt: number } | null;
}

export interface ListTags {
  readonly repo: string;
  /** Only those of this branch. */
  readonly branch?: string | undefined;
  readonly after?: { readonly branch: string; readonly name: string } | undefined;
  readonly limit: number;
}

export const TAGS_PROBE = `SELECT repo, branch, name, branchCreatedAt, version, deleted, "commit", createdAt FROM tags LIMIT 0`;

/** Most tags in one write. */
export const MAX_TAGS_PER_WRITE = 50;

/** Copies of the tags of all branches, so that those of a repo are listed in one query. */
export class TagTable {
  readonly #db: D1Database;

  constructor(db: D1Database) {
    this.#db = db;
  }

  /** Writes what a Branch object says of its tags, at most MAX_TAGS_PER_WRITE; older versions change nothing. */
  async record(
    { repo, branch, createdAt }: BranchAddress & { readonly createdAt: number },
    records: readonly TagRecord[],
  ): Promise<void> {
    if (records.length === 0) return;
    const statement = this.#db.prepare(
      `INSERT INTO tags (repo, branch, name, branchCreatedAt, version, deleted, "commit", createdAt)
       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
       ON CONFLICT (repo, branch, name) DO UPDATE SET
         branchCreatedAt = excluded.branchCreatedAt, version = excluded.version, deleted = excluded.deleted,
         "commit" = excluded."commit", createdAt = excluded.createdAt
       WHERE excluded.version > tags.version`,
    );
    await this.#db.batch(
      records.map(({ name, version, tag }) =>
        statement.bind(
          repo,
          branch,
          name,
          createdAt,
          version,
          tag === null ? 1 : 0,
          tag?.commit ?? "",
          tag?.createdAt ?? 0,
        ),
      ),
    );
  }

  /** Forgets what a branch said of its tags up to this version, because it was deleted then. */
  async forget({ repo, branch }: BranchAddress, version: number): Promise<void> {
    await this.#db
      .prepare("DELETE FROM tags WHERE repo = ?1 AND branch = ?2 AND version <= ?3")
      .bind(repo, branch, version)
      .run();
  }

  /** Forgets what it was told of tags after this version, which is the branch's newest: its object was set back. */
  async setBack({ repo, branch }: BranchAddress, version: number): Promise<void> {
    await this.#db
      .prepare("DELETE FROM tags WHERE repo = ?1 AND branch = ?2 AND version > ?3")
      .bind(repo, branch, version)
      .run();
  }

  /**
   * Tags of a repo's live branches in order of (branch, name). Those of a branch that was deleted count no more, whatever
   * of it is still here: a tag belongs to a branch by when that was created.
   */
  async list({ repo, branch, after, limit }: ListTags): Promise<TagRow[]> {
    const { results } = await this.#db
      .prepare(
        `SELECT t.branch, t.name, t."commit", t.createdAt
         FROM tags AS t CROSS JOIN branches AS b ON b.repo = t.repo AND b.branch = t.branch
         WHERE t.repo = ?1 AND (t.branch, t.name) > (?2, ?3) AND t.branch >= ?4 AND t.branch <= ?5
           AND t.deleted = 0 AND b.deleted = 0 AND b.createdAt = t.branchCreatedAt
         ORDER BY t.branch, t.name LIMIT ?6`,
      )
      .bind(repo, after?.branch ?? "", after?.name ?? "", branch ?? "", branch ?? LAST, limit)
      .all<TagRow>();
    return results;
  }
}

/** Comes after every name. */
const LAST = "~";
