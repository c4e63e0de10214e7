import type { Import } from "../../archives/import-store.ts";
import type { BadArchive } from "../../contract/archives.ts";
import type { Ledger } from "../../ledger/ledger.ts";

/** Rows of files that one slice goes through: some milliseconds. */
const ROWS = 5000;

/**
 * Of (?1 gen, ?2 seq, ?3 path, ?4 limit): rows of files behind a place, counted by the commit that they were born at. Placeholders
 * are no births.
 */
const BORN = `
  SELECT seq, count(*) AS seen, max(path) AS path, sum(kind < 2) AS rows, sum(kind < 2 AND died IS NULL) AS alive FROM (
    SELECT born AS seq, path, kind, died FROM files INDEXED BY by_born
    WHERE gen = ?1 AND (born, path) > (?2, ?3) ORDER BY born, path LIMIT ?4
  ) GROUP BY seq ORDER BY seq`;

/** The same, by the commit that they died at. */
const DIED = `
  SELECT seq, count(*) AS seen, max(path) AS path, count(*) AS rows, 0 AS alive FROM (
    SELECT died AS seq, path FROM files INDEXED BY by_died
    WHERE gen = ?1 AND died IS NOT NULL AND (died, path) > (?2, ?3) ORDER BY died, path LIMIT ?4
  ) GROUP BY seq ORDER BY seq`;

/** Of (?1 gen, ?2 JSON of numbers): what these commits say that was born and died at them. Commits that are gone leave none behind. */
const SAID = `
  SELECT seq, births - ifnull((
      SELECT births FROM commits AS before WHERE before.gen = ?1 AND before.seq < said.seq ORDER BY before.seq DESC LIMIT 1
    ), 0) AS births,
    deaths - ifnull((
      SELECT deaths FROM commits AS before WHERE before.gen = ?1 AND before.seq < said.seq ORDER BY before.seq DESC LIMIT 1
    ), 0) AS deaths
  FROM commits AS said WHERE gen = ?1 AND seq IN (SELECT value FROM json_each(?2))`;

interface Counted {
  readonly seq: number;
  readonly seen: number;
  readonly path: string;
  readonly rows: number;
  readonly alive: number;
}

interface Counting {
  readonly row: Pick<Import, "gen" | "head">;
  /** Lets others in between two slices. */
  readonly turn: () => Promise<unknown>;
}

/**
 * Why the rows of files that came are not those that the commits count. Readers choose by these counts how they find a tree, so
 * wrong ones would show another one, or have a call look through all rows. What was erased, or given back, is missing among the
 * rows: a commit has as many as it says at most, and of the newest all are there.
 */
export async function countsFault(ledger: Ledger, counting: Counting): Promise<BadArchive | undefined> {
  const born = await countBy(ledger, { ...counting, text: BORN, what: "births" });
  if (born.fault) return born.fault;
  const died = await countBy(ledger, { ...counting, text: DIED, what: "deaths" });
  if (died.fault) return died.fault;
  const { gen, head } = counting.row;
  const { births = 0, deaths = 0 } = ledger.commits.at({ gen, seq: head }) ?? {};
  if (births - deaths === born.alive) return undefined;
  return misfit(
    `say that ${births - deaths} files and empty directories are there at commit ${head}, and it has ${born.alive}`,
  );
}

async function countBy(
  { sql }: Ledger,
  { row: { gen }, turn, text, what }: Counting & { text: string; what: "births" | "deaths" },
): Promise<{ readonly fault: BadArchive | undefined; readonly alive: number }> {
  let alive = 0;
  /** Of the last commit that was counted, which the next slice may have more of. */
  let last = { seq: 0, rows: 0 };
  for (let at = { seq: 0, path: "" }, isThrough = false; !isThrough; ) {
    const counted = sql.query<Counted>(text, [gen, at.seq, at.path, ROWS]);
    const seqs = JSON.stringify(counted.map(({ seq }) => seq));
    const said = new Map(
      sql
        .query<{ seq: number; births: number; deaths: number }>(SAID, [gen, seqs])
        .map((commit) => [commit.seq, commit[what]]),
    );
    for (const { seq, rows, alive: living } of counted) {
      const together = seq === last.seq ? last.rows + rows : rows;
      last = { seq, rows: together };
      alive += living;
      if (together > (said.get(seq) ?? 0)) {
        const did = what === "births" ? "came" : "went";
        return { alive, fault: misfit(`say that ${said.get(seq)} ${did} with commit ${seq}, and more did`) };
      }
    }
    const end = counted.at(-1);
    isThrough = end === undefined || counted.reduce((sum, { seen }) => sum + seen, 0) < ROWS;
    if (end && !isThrough) {
      at = { seq: end.seq, path: end.path };
      await turn();
    }
  }
  return { fault: undefined, alive };
}

function misfit(message: string): BadArchive {
  return { ok: false, reason: "bad-archive", path: "commits", message };
}
