import { Store } from "../../objects/store.ts";

export interface DatumRow {
  readonly id: string;
  readonly key: string;
  /** Whose result counts for it: the salt of the specification when it was born. */
  readonly salt: string;
}

/** A datum that is gone, and the first job that did not have it. */
interface DeadDatum {
  readonly id: string;
  readonly salt: string;
  readonly died: number;
}

/** A row's place among all of them. */
export interface BornPlace {
  readonly key: string;
  readonly born: number;
}

/** Before the first one, whose key may be empty. */
export const BEFORE_ALL: BornPlace = { key: "", born: 0 };

/** A place in a walk over births or deaths. */
export interface ChangePlace {
  readonly job: number;
  /** Among those of the job: a datum's key, or which list and where in it (`markOf`). */
  readonly mark: string;
}

/** The least text that a path, key or mark greater than this one can be equal to: they hold no control characters but the separator. */
export function justAfter(text: string): string {
  return `${text}\u0001`;
}

/** Where the key of a datum is among the lists of its job. Marks are in the order of those places. */
function markOf(number: number, index: number): string {
  return `${String(number).padStart(10, "0")}.${String(index).padStart(5, "0")}`;
}

/** The first place that is not before a mark. */
function placeOf(mark: string): { number: number; index: number } {
  const [number = "", index = ""] = mark.split(".");
  return {
    number: Number(number),
    index: Number.parseInt(index || "0", 10) + (index.endsWith("\u0001") ? 1 : 0),
  };
}

/** About so many characters of keys are on one list. */
const LIST_LENGTH = 100_000;

/** Of (?1 JSON of keys, ?2 job, ?3 index to begin with, ?4 a later job, ?5 limit): datums that were born at the one and are there at the other. */
const BORN = `
  SELECT datums.id AS id, datums.key AS key, datums.salt AS salt, listed.key AS "index"
  FROM json_each(?1) AS listed CROSS JOIN datums ON datums.key = listed.value AND datums.born = ?2
  WHERE listed.key >= ?3 AND (datums.died IS NULL OR datums.died > ?4) ORDER BY listed.key LIMIT ?5`;

/**
 * The datum set, by births and deaths: `born` is the first job that has a datum, `died` the first that has it no more. At
 * any job the set is the cross product of the elements that were alive then.
 */
export class DatumStore extends Store {
  /** The transaction goes on with `listBirths`. */
  bear({ id, key, salt }: DatumRow, job: number): void {
    this.sql.run`
      INSERT INTO datums (key, born, died, id, salt) VALUES (${key}, ${job}, NULL, ${id}, ${salt})`;
  }

  /** These keys are of datums that a job bore. */
  listBirths(job: number, keys: readonly string[]): void {
    const lists: string[][] = [];
    let room = 0;
    for (const key of keys) {
      if (room <= 0) {
        lists.push([]);
        room = LIST_LENGTH;
      }
      lists.at(-1)?.push(key);
      room -= key.length + 1;
    }
    for (const list of lists) {
      this.sql.run`
        INSERT INTO births (job, number, keys)
        SELECT ${job}, ifnull(max(number), 0) + 1, ${JSON.stringify(list)} FROM births WHERE job = ${job}`;
    }
  }

  /** Forgets some lists of jobs up to one, whose output is committed. Returns whether there may be more. */
  forgetBirths(upTo: number, limit: number): boolean {
    const rows = this.sql.all`
      DELETE FROM births WHERE (job, number) IN (
        SELECT job, number FROM births WHERE job <= ${upTo} ORDER BY job, number LIMIT ${limit})
      RETURNING 1`;
    return rows.length === limit;
  }

  /** Returns false if none of the key was alive. */
  kill(key: string, job: number): boolean {
    return this.sql.has`
      UPDATE datums SET died = ${job}
      WHERE key = ${key} AND born = (SELECT max(born) FROM datums WHERE key = ${key}) AND died IS NULL
      RETURNING key`;
  }

  /**
   * Ends the lives of those among the next `limit` rows behind a place that are alive. Returns of how many, and the place to go
   * on after, null at the end.
   */
  killSome(
    job: number,
    { after, limit }: { after: BornPlace; limit: number },
  ): { count: number; next: BornPlace | null } {
    const rows = this.sql.all<BornPlace & { died: number | null }>`
      SELECT key, born, died FROM datums WHERE (key, born) > (${after.key}, ${after.born}) ORDER BY key, born LIMIT ${limit}`;
    const alive = rows.filter(({ died }) => died === null);
    for (const { key, born } of alive)
      this.sql.run`UPDATE datums SET died = ${job} WHERE key = ${key} AND born = ${born}`;
    const last = rows.length < limit ? undefined : rows.at(-1);
    return { count: alive.length, next: last ? { key: last.key, born: last.born } : null };
  }

  aliveAt(id: string, job: number): boolean {
    return this.saltAt(id, job) !== undefined;
  }

  /** Ids that begin so, two at most, in their order: of datums that belong to a job, or that it ran. */
  startingWith(start: string, job: number): string[] {
    const before = `${start}~`;
    return this.sql.all<{ id: string }>`
      SELECT id FROM (SELECT id FROM attempts
        WHERE job = ${job} AND id >= ${start} AND id < ${before} ORDER BY id LIMIT 2)
      UNION
      SELECT id FROM (SELECT DISTINCT id FROM datums INDEXED BY datums_by_id
        WHERE id >= ${start} AND id < ${before} AND born <= ${job} AND (died IS NULL OR died > ${job})
        ORDER BY id LIMIT 2)
      ORDER BY id LIMIT 2`.map(({ id }) => id);
  }

  /** The salt of a datum that belongs to a job. Returns undefined if no datum of that id does. */
  saltAt(id: string, job: number): string | undefined {
    return this.byId(id, job)?.salt;
  }

  byId(id: string, job: number): DatumRow | undefined {
    const row = this.sql.first<DatumRow & { died: number | null }>`
      SELECT id, key, died, salt FROM datums WHERE id = ${id} AND born <= ${job} ORDER BY born DESC LIMIT 1`;
    return row && (row.died === null || row.died > job) ? row : undefined;
  }

  /** Datums that belong to a job, by key, after one; from the first for null. Of a job long past, those that still live. */
  ofJob(job: number, { after, limit }: { after: string | null; limit: number }): DatumRow[] {
    // The key of the root alone is the empty text.
    return this.sql.all<DatumRow>`
      SELECT id, key, salt FROM datums
      WHERE key >= ${after ?? ""} AND (${after} IS NULL OR key > ${after}) AND born <= ${job} AND (died IS NULL OR died > ${job})
      ORDER BY key LIMIT ${limit}`;
  }

  /** Removes some that died at a job or before, and returns them. */
  trim(job: number, limit: number): DeadDatum[] {
    return this.sql.all<DeadDatum>`
      DELETE FROM datums WHERE (key, born) IN (
        SELECT key, born FROM datums INDEXED BY datums_by_died
        WHERE died IS NOT NULL AND died <= ${job} ORDER BY died, key LIMIT ${limit})
      RETURNING id, salt, died`;
  }

  at(key: string, job: number): DatumRow | undefined {
    const row = this.sql.first<DatumRow & { died: number | null }>`
      SELECT id, key, salt, died FROM datums WHERE key = ${key} AND born <= ${job} ORDER BY born DESC LIMIT 1`;
    return row && (row.died === null || row.died > job) ? row : undefined;
  }

  /** Datums of job `to` that job `from` did not have, in order of birth, from a place on. `from` is the last committed job. */
  born({ from, to }: Span, { place, limit }: { place: ChangePlace; limit: number }): Mover[] {
    const found: Mover[] = [];
    let at = { job: place.job, ...placeOf(place.mark) };
    while (found.length < limit) {
      const list = this.sql.first<{ job: number; number: number; keys: string }>`
        SELECT job, number, keys FROM births
        WHERE (job, number) >= (${at.job}, ${at.number}) AND job <= ${to} AND +job > ${from}
        ORDER BY job, number LIMIT 1`;
      if (!list) break;
      const { job, number, keys } = list;
      const first = job === at.job && number === at.number ? at.index : 0;
      const values = [keys, job, first, to, limit - found.length];
      for (const { index, ...datum } of this.sql.query<DatumRow & { index: number }>(BORN, values))
        found.push({ ...datum, job, mark: markOf(number, index) });
      at = { job, number: number + 1, index: 0 };
    }
    return found;
  }

  /** Datums of job `from` that job `to` does not have, in order of death, from a place on. */
  died({ from, to }: Span, { place, limit }: { place: ChangePlace; limit: number }): Mover[] {
    return this.sql.all<Mover>`
      SELECT id, key, salt, died AS job, key AS mark FROM datums
      WHERE died IS NOT NULL AND (died, key) >= (${place.job}, ${place.mark}) AND died <= ${to}
        AND +died > ${from} AND born <= ${from}
      ORDER BY died, key LIMIT ${limit}`;
  }

  /** A datum that is to run again in a job counts as another one from that job on: it dies and is born. */
  replace(key: string, job: number): void {
    const row = this.sql.first<{ id: string; salt: string; born: number; died: number | null }>`
      SELECT id, salt, born, died FROM datums WHERE key = ${key} AND born <= ${job} ORDER BY born DESC LIMIT 1`;
    if (!row || row.born === job) return;
    this.sql.run`UPDATE datums SET died = ${job} WHERE key = ${key} AND born = ${row.born}`;
    this.sql.run`
      INSERT INTO datums (key, born, died, id, salt) VALUES (${key}, ${job}, ${row.died}, ${row.id}, ${row.salt})`;
    this.listBirths(job, [key]);
  }
}

export interface Span {
  readonly from: number;
  readonly to: number;
}

/** A datum that a job has and another one has not; `job`: since which one. */
export type Mover = DatumRow & ChangePlace;
