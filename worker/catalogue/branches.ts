import { type BranchAddress, holdsSeparator } from "../../protocol/names.ts";
import { type Place, type PlaceRow, placeOfRow } from "../core/places.ts";
import { Table } from "./table.ts";

export interface BranchRow extends BranchAddress {
  /** Milliseconds since 1970. */
  readonly createdAt: number;
  /** Set if it is made from a commit of another branch and may still be on its way; it knows itself. */
  readonly forking?: boolean;
  /** Where it was made to live, if a region was named. */
  readonly place?: Place | undefined;
}

export interface BranchRecord extends BranchRow {
  /** Grows with each creation and deletion of the branch. */
  readonly version: number;
  readonly deleted: boolean;
}

export interface ListBranches {
  readonly after?: BranchAddress | undefined;
  readonly limit: number;
  readonly repos?: readonly string[] | undefined;
}

type StoredRow = Omit<BranchRow, "forking" | "place"> & PlaceRow & { readonly forking: 0 | 1 };

export const BRANCHES_PROBE =
  "SELECT repo, branch, version, deleted, createdAt, forking, region, hint FROM branches LIMIT 0";

/** Most deleted branches of a repo, and most repos all of whose branches are deleted, that one call names. */
const DELETED_AT_ONCE = 100;

/** Which branches there are. A repo exists while it has a branch. */
export class BranchTable extends Table {
  /**
   * Writes what a Branch object says of itself; a version older than the stored one changes nothing. Within one version a
   * fork arrives and never leaves again: so a late word that it is on its way changes nothing either.
   */
  async record({ repo, branch, version, deleted, createdAt, forking, place }: BranchRecord): Promise<void> {
    const { region = null, hint = null } = place ?? {};
    await this.run`
      INSERT INTO branches (repo, branch, version, deleted, createdAt, forking, region, hint)
      VALUES (${repo}, ${branch}, ${version}, ${deleted ? 1 : 0}, ${createdAt}, ${forking ? 1 : 0}, ${region}, ${hint})
      ON CONFLICT (repo, branch) DO UPDATE SET
        version = excluded.version, deleted = excluded.deleted, createdAt = excluded.createdAt,
        forking = excluded.forking, region = excluded.region, hint = excluded.hint
      WHERE excluded.version > branches.version
        OR (excluded.version = branches.version AND excluded.forking < branches.forking)`;
  }

  /** Forgets what it was told of a later state of the branch than the one that its object is in: the object was set back. */
  async setBack({ repo, branch, version }: Pick<BranchRecord, "repo" | "branch" | "version">): Promise<void> {
    await this.run`DELETE FROM branches WHERE repo = ${repo} AND branch = ${branch} AND version > ${version}`;
  }

  /** Live branches in order of (repo, branch), after `after`; only those of `repos` if that is given. */
  async list({ after = { repo: "", branch: "" }, limit, repos }: ListBranches): Promise<BranchRow[]> {
    const { repo, branch } = after;
    const rows = repos
      ? // Reads of each repo as many as could be on the page, by the index, and no branch of another repo.
        await this.all<StoredRow>`
          SELECT b.repo, b.branch, b.createdAt, b.forking, b.region, b.hint
          FROM (SELECT DISTINCT value FROM json_each(${JSON.stringify(repos)})) AS wanted
          CROSS JOIN branches AS b ON b.repo = wanted.value AND b.branch IN (
            SELECT branch FROM branches
            WHERE repo = wanted.value AND branch > iif(repo = ${repo}, ${branch}, '') AND deleted = 0
            ORDER BY branch LIMIT ${limit})
          WHERE wanted.value >= ${repo} ORDER BY b.repo, b.branch LIMIT ${limit}`
      : await this.all<StoredRow>`
          SELECT repo, branch, createdAt, forking, region, hint FROM branches
          WHERE (repo, branch) > (${repo}, ${branch}) AND deleted = 0 ORDER BY repo, branch LIMIT ${limit}`;
    return rows.map(({ forking, region, hint, ...row }) => {
      const place = placeOfRow({ region, hint });
      return { ...row, ...(forking && { forking: true }), ...(place && { place }) };
    });
  }

  /** The names of a repo's branches that are deleted, as far as one call should ask them all: those that were made last. */
  async deletedOf(repo: string): Promise<string[]> {
    const rows = await this.all<{ branch: string }>`
      SELECT branch FROM branches
      WHERE repo = ${repo} AND deleted = 1 ORDER BY createdAt DESC, branch LIMIT ${DELETED_AT_ONCE}`;
    return rows.map(({ branch }) => branch);
  }

  /** The names of repos all of whose branches are deleted: those in which one was made last. Only of `repos` if that is given. */
  async deletedRepos(repos: readonly string[] | null): Promise<string[]> {
    const among = repos && JSON.stringify(repos);
    const rows = await this.all<{ repo: string }>`
      SELECT repo FROM branches WHERE ${among} IS NULL OR repo IN (SELECT value FROM json_each(${among}))
      GROUP BY repo HAVING min(deleted) = 1 ORDER BY max(createdAt) DESC, repo LIMIT ${DELETED_AT_ONCE}`;
    return rows.map(({ repo }) => repo);
  }

  /**
   * Which name of a branch that is to be made may not be a new one, since it holds what labels have between names; undefined
   * if both may be, or if the branch is there already. A repo that is there takes new branches, whatever its name.
   */
  async newNameFault({ repo, branch }: BranchAddress): Promise<"repo" | "branch" | undefined> {
    if (!holdsSeparator(repo) && !holdsSeparator(branch)) return undefined;
    const there = await this.first<{ repo: 0 | 1; branch: 0 | 1 }>`
      SELECT EXISTS (SELECT 1 FROM branches WHERE repo = ${repo} AND deleted = 0) AS repo,
        EXISTS (SELECT 1 FROM branches WHERE repo = ${repo} AND branch = ${branch} AND deleted = 0) AS branch`;
    if (there?.branch) return undefined;
    if (holdsSeparator(branch)) return "branch";
    return there?.repo ? undefined : "repo";
  }

  /** Where a branch was made to live, also if it is deleted; null if no region was named, or if there never was one. */
  async placeOf({ repo, branch }: BranchAddress): Promise<Place | null> {
    const row = await this.first<PlaceRow>`
      SELECT region, hint FROM branches WHERE repo = ${repo} AND branch = ${branch}`;
    return row && placeOfRow(row);
  }

  /** Whether there ever was a branch of this name. */
  async isKnown({ repo, branch }: BranchAddress): Promise<boolean> {
    return (await this.first`SELECT 1 FROM branches WHERE repo = ${repo} AND branch = ${branch}`) !== null;
  }

  /** Whether a repo exists. */
  async hasRepo(repo: string): Promise<boolean> {
    return (await this.first`SELECT 1 FROM branches WHERE repo = ${repo} AND deleted = 0 LIMIT 1`) !== null;
  }
}
