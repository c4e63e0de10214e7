import type { InputStart } from "../contract/pipelines.ts";
import { BranchStore } from "../store.ts";
import type { Position } from "../tree/commit-store.ts";

/** Something that names a commit. */
export interface CommitName {
  /** Among what it is told: forks and pipelines are not for everybody to know. */
  readonly list: "names" | "forks" | "pipelines";
  readonly name: string;
}

/** SQL of what names a commit, which a query has as `named` (with gen, seq and id), and how it is told. */
interface Naming extends CommitName {
  readonly from: string;
  readonly where: string;
}

/** The one that counts in a deleted generation: its tags and open commits ended with it. */
const FORK: Naming = {
  from: "roots INDEXED BY roots_standing",
  where: "roots.gen = named.gen AND roots.seq = named.seq AND roots.goneAt IS NULL",
  list: "forks",
  name: "roots.bucket",
};

const NAMINGS: readonly Naming[] = [
  {
    from: "tags INDEXED BY tags_by_commit",
    where: 'tags.gen = named.gen AND tags."commit" = named.id',
    list: "names",
    name: "'the tag ' || tags.name",
  },
  {
    from: "untagged",
    where: "untagged.gen = named.gen AND untagged.seq = named.seq",
    list: "names",
    name: `'the tag ' || untagged.name || ' (deleted or moved, and kept until '
      || strftime('%Y-%m-%dT%H:%M:%SZ', untagged.due / 1000, 'unixepoch') || ')'`,
  },
  FORK,
  {
    // Those that ended, whatever way, are of state 2 and more.
    from: "open_commits INDEXED BY open_commits_by_base",
    where: "open_commits.gen = named.gen AND open_commits.base = named.seq AND open_commits.state < 2",
    list: "names",
    name: "'the open commit ' || open_commits.id",
  },
  {
    from: "reverting",
    where: "reverting.gen = named.gen AND reverting.target = named.seq",
    list: "names",
    name: "'a revert to it that is under way'",
  },
  {
    from: "starts INDEXED BY starts_holding",
    where: "starts.gen = named.gen AND starts.seq = named.seq AND starts.holds = 1",
    list: "pipelines",
    name: "ifnull((SELECT pipeline FROM subscribers WHERE subscribers.uid = starts.uid), starts.pipeline)",
  },
];

function anyOf(namings: readonly Naming[]): string {
  const each = namings.map(({ from, where }) => `EXISTS (SELECT 1 FROM ${from} WHERE ${where})`);
  return `(${each.join("\n  OR ")})`;
}

/** SQL that says whether something names a commit, which a query has as `named`. */
export const IS_NAMED = anyOf(NAMINGS);
/** The same of a deleted generation. */
export const IS_ROOT = anyOf([FORK]);

/** Of (?1 gen, ?2 seq). */
const NAMES = `SELECT 1 FROM commits AS named WHERE named.gen = ?1 AND named.seq = ?2 AND ${IS_NAMED}`;
const ROOTS = `SELECT 1 FROM commits AS named WHERE named.gen = ?1 AND named.seq = ?2 AND ${IS_ROOT}`;

/** Of (?1 gen, ?2 seq, ?3 id, ?4 limit): what names a commit in one way. */
function toldBy({ list, name, from, where }: Naming): string {
  return `
    WITH named (gen, seq, id) AS (SELECT ?1, ?2, ?3)
    SELECT '${list}' AS list, ${name} AS name FROM named CROSS JOIN ${from} ON ${where} LIMIT ?4`;
}

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

  /** Some of what names a commit of the live generation or of a deleted one. */
  of(
    { gen, seq, id }: Position & { id: string },
    { isLive, limit }: { isLive: boolean; limit: number },
  ): CommitName[] {
    const found: CommitName[] = [];
    for (const naming of isLive ? NAMINGS : [FORK]) {
      found.push(...this.sql.query<CommitName>(toldBy(naming), [gen, seq, id, limit - found.length]));
    }
    return found;
  }
}

/** How long the commit of a tag that was deleted or moved is still kept; milliseconds. */
const UNTAGGED_KEPT_MS = 24 * 60 * 60 * 1000;

/**
 * The commits of tags that went or moved a short time ago. A row is a name like others, so that a tag which
 * was deleted by mistake can be made again by the commit's id. It stands until the alarm removes it, whatever the clock
 * says: who looks whether a commit is kept, and who gives back, see the same.
 */
export class UntaggedStore extends BranchStore {
  /** A tag is gone from a commit: one row a commit, which stands since the last time. */
  keep({ gen, seq }: Position, { name, now }: { name: string; now: number }): void {
    this.sql.run`
      INSERT INTO untagged (gen, seq, due, name) VALUES (${gen}, ${seq}, ${now + UNTAGGED_KEPT_MS}, ${name})
      ON CONFLICT DO UPDATE SET due = max(due, excluded.due), name = excluded.name`;
    this.wake("housekeeping", now + UNTAGGED_KEPT_MS);
  }

  /** Lets go of some of those whose time is over. */
  forgetOld(now: number, limit: number): void {
    const rows = this.sql.all<Position>`
      SELECT gen, seq FROM untagged INDEXED BY untagged_by_due WHERE due <= ${now} ORDER BY due LIMIT ${limit}`;
    for (const { gen, seq } of rows) {
      this.sql.run`DELETE FROM untagged WHERE gen = ${gen} AND seq = ${seq}`;
    }
    if (rows.length > 0) this.wake("history GC");
  }

  /** When the time of the next one is over; undefined if there is none. */
  nextDue(): number | undefined {
    return this.sql.first<{ due: number }>`
      SELECT due FROM untagged INDEXED BY untagged_by_due WHERE due >= 0 ORDER BY due LIMIT 1`?.due;
  }
}

/** The commits that inputs of pipelines start after, as the pipelines tell. */
export class StartStore extends BranchStore {
  /**
   * Where such a commit stands. Also of one that was given back before its pipeline told of it: what was written after it
   * can be told all the same.
   */
  find(commit: string): Position | undefined {
    return this.sql.first<Position>`
      SELECT gen, seq FROM starts INDEXED BY starts_by_commit WHERE "commit" = ${commit} LIMIT 1`;
  }

  /** These are all of a pipeline. `holds`: whether a new one is kept, which this one then sees to. */
  tell(uid: string, starts: readonly InputStart[], holds: (start: InputStart) => boolean): void {
    const known = this.sql.all<{
      commit: string;
    }>`SELECT "commit" FROM starts WHERE uid = ${uid}`;
    for (const { commit } of known) {
      if (starts.some((start) => start.commit === commit)) continue;
      this.sql.run`DELETE FROM starts WHERE uid = ${uid} AND "commit" = ${commit}`;
      this.wake("history GC");
    }
    this.sql.run`UPDATE starts SET stopped = 0 WHERE uid = ${uid}`;
    for (const start of starts) {
      if (known.some(({ commit }) => commit === start.commit)) continue;
      this.sql.run`
        INSERT OR REPLACE INTO starts (uid, "commit", gen, seq, holds)
        VALUES (${uid}, ${start.commit}, ${start.generation}, ${start.seq}, ${holds(start) ? 1 : 0})`;
    }
  }

  /**
   * The pipeline is stopped: it is no subscriber from now on, and goes on from these commits if it is started again. Call it
   * while it still is one, which knows its name.
   */
  stop(uid: string): void {
    this.sql.run`
      UPDATE starts SET stopped = 1,
        pipeline = ifnull((SELECT pipeline FROM subscribers WHERE subscribers.uid = starts.uid), pipeline)
      WHERE uid = ${uid}`;
  }

  forget(uid: string): void {
    this.sql.run`DELETE FROM starts WHERE uid = ${uid}`;
  }
}
