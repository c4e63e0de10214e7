import type { BranchAddress } from "../../protocol/names.ts";
import { Table } from "./table.ts";

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
export class TagTable extends Table {
  /** Writes what a Branch object says of its tags, at most MAX_TAGS_PER_WRITE; older versions change nothing. */
  async record(
    { repo, branch, createdAt }: BranchAddress & { readonly createdAt: number },
    records: readonly TagRecord[],
  ): Promise<void> {
    if (records.length === 0) return;
    await this.batch(
      records.map(
        ({ name, version, tag }) => this.statement`
          INSERT INTO tags (repo, branch, name, branchCreatedAt, version, deleted, "commit", createdAt)
          VALUES (${repo}, ${branch}, ${name}, ${createdAt}, ${version},
            ${tag === null ? 1 : 0}, ${tag?.commit ?? ""}, ${tag?.createdAt ?? 0})
          ON CONFLICT (repo, branch, name) DO UPDATE SET
            branchCreatedAt = excluded.branchCreatedAt, version = excluded.version, deleted = excluded.deleted,
            "commit" = excluded."commit", createdAt = excluded.createdAt
          WHERE excluded.version > tags.version`,
      ),
    );
  }

  /** Forgets what a branch said of its tags up to this version, because it was deleted then. */
  async forget({ repo, branch }: BranchAddress, version: number): Promise<void> {
    await this.run`DELETE FROM tags WHERE repo = ${repo} AND branch = ${branch} AND version <= ${version}`;
  }

  /** Forgets what it was told of tags after this version, which is the branch's newest: its object was set back. */
  async setBack({ repo, branch }: BranchAddress, version: number): Promise<void> {
    await this.run`DELETE FROM tags WHERE repo = ${repo} AND branch = ${branch} AND version > ${version}`;
  }

  /**
   * Tags of a repo's live branches in order of (branch, name). Those of a branch that was deleted count no more, whatever
   * of it is still here: a tag belongs to a branch by when that was created.
   */
  async list({ repo, branch, after, limit }: ListTags): Promise<TagRow[]> {
    return await this.all`
      SELECT t.branch, t.name, t."commit", t.createdAt
      FROM tags AS t CROSS JOIN branches AS b ON b.repo = t.repo AND b.branch = t.branch
      WHERE t.repo = ${repo} AND (t.branch, t.name) > (${after?.branch ?? ""}, ${after?.name ?? ""})
        AND t.branch >= ${branch ?? ""} AND t.branch <= ${branch ?? LAST}
        AND t.deleted = 0 AND b.deleted = 0 AND b.createdAt = t.branchCreatedAt
      ORDER BY t.branch, t.name LIMIT ${limit}`;
  }
}

/** Comes after every name. */
const LAST = "~";
