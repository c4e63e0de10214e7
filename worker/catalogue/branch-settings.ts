import type { BranchAddress } from "../../protocol/names.ts";
import { BranchWriter } from "../../protocol/repos.ts";
import { Table } from "./table.ts";

/** What a branch lets in beside signed requests. */
export interface BranchOpenness {
  /** It answers reads without a signature. */
  readonly isPublic: boolean;
  /** It has CORS rules, so that browsers ask it before they send requests of pages from elsewhere. */
  readonly hasCors: boolean;
}

export interface OpenBranch extends BranchAddress, BranchOpenness {}

export interface SetBranch extends OpenBranch {
  /** Who alone may write; null: nobody is kept out. */
  readonly writer: BranchWriter | null;
}

export interface BranchSettingsRecord extends SetBranch {
  /** That of the branch's own row. */
  readonly version: number;
  /** Grows with each change in one version. */
  readonly revision: number;
}

export const BRANCH_SETTINGS_PROBE =
  "SELECT repo, branch, version, revision, public, cors, writer FROM branch_settings LIMIT 0";

interface StoredRow extends BranchAddress {
  readonly public: number;
  readonly cors: number;
}

/**
 * What branches are set to. A row counts only beside the branch's own row of the same version: a branch that was deleted or made
 * again since is set to nothing, also before it has told so here.
 */
export class BranchSettingsTable extends Table {
  /** Writes what a Branch object says of itself; what is older than the stored row changes nothing. */
  async record(settings: BranchSettingsRecord): Promise<void> {
    const { repo, branch, version, revision, isPublic, hasCors, writer } = settings;
    await this.run`
      INSERT INTO branch_settings (repo, branch, version, revision, public, cors, writer)
      VALUES (${repo}, ${branch}, ${version}, ${revision}, ${isPublic ? 1 : 0}, ${hasCors ? 1 : 0},
        ${writer && JSON.stringify(writer)})
      ON CONFLICT (repo, branch) DO UPDATE SET version = excluded.version, revision = excluded.revision,
        public = excluded.public, cors = excluded.cors, writer = excluded.writer
      WHERE (excluded.version, excluded.revision) > (branch_settings.version, branch_settings.revision)`;
  }

  /** Forgets later settings than those that the branch has: its object was set back. */
  async setBack({
    repo,
    branch,
    version,
    revision,
  }: Omit<BranchSettingsRecord, keyof SetBranch> & BranchAddress) {
    await this.run`
      DELETE FROM branch_settings
      WHERE repo = ${repo} AND branch = ${branch} AND (version, revision) > (${version}, ${revision})`;
  }

  /** Branches that are open in some way, by repo and branch, `limit` at most. Reads no row of one that is not. */
  async listOpen(limit: number): Promise<OpenBranch[]> {
    const rows = await this.all<StoredRow>`
      SELECT s.repo, s.branch, s.public, s.cors
      FROM branch_settings AS s INDEXED BY branch_settings_open CROSS JOIN branches AS b USING (repo, branch)
      WHERE (s.public = 1 OR s.cors = 1) AND b.version = s.version AND b.deleted = 0
      ORDER BY s.repo, s.branch LIMIT ${limit}`;
    return rows.map(openBranch);
  }

  /** The same for one branch; undefined if it is not open. */
  async findOpen({ repo, branch }: BranchAddress): Promise<OpenBranch | undefined> {
    const row = await this.first<StoredRow>`
      SELECT s.repo, s.branch, s.public, s.cors FROM branch_settings AS s JOIN branches AS b USING (repo, branch)
      WHERE s.repo = ${repo} AND s.branch = ${branch} AND (s.public = 1 OR s.cors = 1)
        AND b.version = s.version AND b.deleted = 0`;
    return row === null ? undefined : openBranch(row);
  }

  /** What the branches of a repo are set to, as far as any is. */
  async ofRepo(repo: string): Promise<SetBranch[]> {
    const rows = await this.all<StoredRow & { readonly writer: string | null }>`
      SELECT s.repo, s.branch, s.public, s.cors, s.writer
      FROM branch_settings AS s JOIN branches AS b USING (repo, branch)
      WHERE s.repo = ${repo} AND b.version = s.version AND b.deleted = 0`;
    return rows.map(({ writer, ...row }) => ({ ...openBranch(row), writer: writerOf(writer) }));
  }
}

function openBranch({ repo, branch, public: isPublic, cors }: StoredRow): OpenBranch {
  return { repo, branch, isPublic: isPublic === 1, hasCors: cors === 1 };
}

function writerOf(text: string | null): BranchWriter | null {
  return text === null ? null : BranchWriter.parse(JSON.parse(text));
}
