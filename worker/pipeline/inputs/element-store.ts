import type { Axis } from "../../core/cross-product.ts";
import { Store } from "../../objects/store.ts";
import type { Candidate } from "./candidates.ts";

/** A file or directory that an input's glob matches, with what is in it. */
export interface Element {
  /** From the root of the repo; "" is the root; no trailing slash. */
  readonly path: string;
  readonly kind: "file" | "dir";
  readonly digest: string;
  readonly size: number;
}

/** Elements that an axis reads at once. */
const AHEAD = 100;

/** What the globs match, by births and deaths. Those that ended are elsewhere: nothing that is asked of the alive ones passes by them. */
export class ElementStore extends Store {
  alive(input: number, path: string): Element | undefined {
    return this.sql.first<Element>`
      SELECT path, kind, digest, size FROM elements WHERE input = ${input} AND path = ${path}`;
  }

  /** The element as it was at a job. */
  at({ input, path, job }: { input: number; path: string; job: number }): Element | undefined {
    return (
      this.sql.first<Element>`
        SELECT path, kind, digest, size FROM elements
        WHERE input = ${input} AND path = ${path} AND born <= ${job}` ??
      this.sql.first<Element>`
        SELECT path, kind, digest, size FROM ended_elements
        WHERE input = ${input} AND path = ${path} AND born <= ${job} ORDER BY born DESC LIMIT 1`
    );
  }

  /** Alive elements of an input after a path, in byte order of their paths; from the first for null. */
  aliveAfter({ input, after, limit }: { input: number; after: string | null; limit: number }): Element[] {
    return this.sql.all<Element>`
      SELECT path, kind, digest, size FROM elements
      WHERE input = ${input} AND path >= ${after ?? ""} AND (${after} IS NULL OR path > ${after})
      ORDER BY path LIMIT ${limit}`;
  }

  /** The alive elements of an input as a side of the cross product. It reads ahead, so none may be born or die meanwhile. */
  axis(input: number): Axis<Element> {
    let ahead: Element[] = [];
    let index = 0;
    return {
      at: (path) => this.alive(input, path),
      after: (path) => {
        index = path !== null && ahead[index]?.path === path ? index + 1 : ahead.length;
        if (index === ahead.length) {
          ahead = this.aliveAfter({ input, after: path, limit: AHEAD });
          index = 0;
        }
        return ahead[index];
      },
    };
  }

  /** Does nothing if it is alive already. */
  bear(element: Element, { input, job }: { input: number; job: number }): void {
    this.sql.run`
      INSERT OR IGNORE INTO elements (input, path, born, kind, digest, size)
      VALUES (${input}, ${element.path}, ${job}, ${element.kind}, ${element.digest}, ${element.size})`;
  }

  kill({ input, path, job }: { input: number; path: string; job: number }): void {
    this.sql.run`
      INSERT OR REPLACE INTO ended_elements (input, path, born, died, kind, digest, size)
      SELECT input, path, born, ${job}, kind, digest, size FROM elements WHERE input = ${input} AND path = ${path}`;
    this.sql.run`DELETE FROM elements WHERE input = ${input} AND path = ${path}`;
  }

  /** Ends the lives of some that were alive before a job. Returns of how many. */
  killSome(job: number, limit: number): number {
    const alive = this.sql.all<{ input: number; path: string }>`
      SELECT input, path FROM elements ORDER BY input, path LIMIT ${limit}`;
    for (const { input, path } of alive) this.kill({ input, path, job });
    return alive.length;
  }

  /** Removes some that died at a job or before. Returns whether there may be more. */
  trim(job: number, limit: number): boolean {
    const rows = this.sql.all`
      DELETE FROM ended_elements WHERE (input, path, born) IN (
        SELECT input, path, born FROM ended_elements INDEXED BY ended_elements_by_died
        WHERE died <= ${job} ORDER BY died LIMIT ${limit})
      RETURNING 1`;
    return rows.length === limit;
  }

  /** Keeps the size of an input of a cross product, which would be slow to count. */
  resize(input: number, change: number): void {
    this.sql.run`
      INSERT INTO sizes (input, elements) VALUES (${input}, ${change})
      ON CONFLICT (input) DO UPDATE SET elements = elements + excluded.elements`;
  }

  /** How many elements an input of a cross product has, those that are about to be born included. */
  sizeOf(input: number): number {
    return this.sql.number`SELECT elements FROM sizes WHERE input = ${input}`;
  }

  /** No input has any element. */
  clearSizes(): void {
    this.sql.run`DELETE FROM sizes`;
  }
}

/** A path that a job touches: its element may differ from the job before. */
export interface Touched {
  readonly input: number;
  readonly path: string;
  /** The file that is there now; null: none is, or only something below changed. */
  readonly digest: string | null;
  readonly size: number | null;
  /** 1: something under this directory changed. */
  readonly directory: number;
  /** The list that it is on; null: it has a row of its own. */
  readonly list: string | null;
}

type ListedFile = readonly [path: string, digest: string, size: number];

const FOUND = 0;
const TO_BE_BORN = 1;
const LISTED = 2;
/** Most files of one list: about two slices of a fill. */
const FILES_LISTED = 250;

/**
 * What a job has yet to look at: rows come and go with its fill. Files that are there now share rows. They are compared last: where
 * a directory was before, or something that an erasure notes, that has ended by then. A job that comes to read its inputs whole
 * lists files twice: the second time nothing differs.
 */
export class TouchedStore extends Store {
  /** Notes candidates; a path that is both a file and a directory (one replaced the other) keeps both. */
  add(job: number, candidates: readonly Candidate[]): void {
    const inputs = new Set(candidates.map(({ input }) => input));
    for (const input of inputs) {
      const files: ListedFile[] = [];
      const others: Candidate[] = [];
      const own = candidates.filter((candidate) => candidate.input === input);
      const noted = this.#noted(job, { input, candidates: own });
      for (const candidate of own) {
        const { path, file, directory } = candidate;
        if (file && !directory && !noted.has(path)) files.push([path, file.digest, file.size]);
        else others.push(candidate);
      }
      this.#addRows(job, others);
      this.#addLists(job, { input, files });
    }
  }

  #addRows(job: number, candidates: readonly Candidate[]): void {
    for (const { input, path, file, directory } of candidates) {
      const [flag, digest, size] = [directory ? 1 : 0, file?.digest ?? null, file?.size ?? null];
      this.sql.run`
        INSERT INTO touched (job, stage, input, path, kind, digest, size, directory)
        VALUES (${job}, ${FOUND}, ${input}, ${path}, NULL, ${digest}, ${size}, ${flag})
        ON CONFLICT DO UPDATE SET
          digest = coalesce(excluded.digest, digest), size = coalesce(excluded.size, size),
          directory = max(directory, excluded.directory)`;
    }
  }

  #addLists(job: number, { input, files }: { input: number; files: readonly ListedFile[] }): void {
    for (let start = 0; start < files.length; start += FILES_LISTED) {
      const some = files.slice(start, start + FILES_LISTED);
      this.sql.run`
        INSERT INTO touched (job, stage, input, path, directory, files)
        SELECT ${job}, ${LISTED}, ${input}, printf('%010d', ifnull(max(path), 0) + 1), 0, ${JSON.stringify(some)}
        FROM touched WHERE job = ${job} AND stage = ${LISTED} AND input = ${input}`;
    }
  }

  /** The paths among these that have rows of their own. */
  #noted(
    job: number,
    { input, candidates }: { input: number; candidates: readonly Candidate[] },
  ): Set<string> {
    const paths = JSON.stringify(candidates.map(({ path }) => path));
    const rows = this.sql.all<{ path: string }>`
      SELECT touched.path AS path FROM json_each(${paths}) AS asked
      CROSS JOIN touched ON job = ${job} AND stage = ${FOUND} AND input = ${input} AND touched.path = asked.value`;
    return new Set(rows.map(({ path }) => path));
  }

  found(job: number, limit: number): Touched[] {
    const found = this.sql.all<Touched>`
      SELECT input, path, digest, size, directory, NULL AS list FROM touched
      WHERE job = ${job} AND stage = ${FOUND} ORDER BY input, path LIMIT ${limit}`;
    let after = { input: -1, path: "" };
    while (found.length < limit) {
      const row = this.sql.first<{ input: number; path: string; files: string }>`
        SELECT input, path, files FROM touched
        WHERE job = ${job} AND stage = ${LISTED} AND (input, path) > (${after.input}, ${after.path})
        ORDER BY input, path LIMIT 1`;
      if (!row) break;
      after = row;
      const { input, path: list } = row;
      const files: ListedFile[] = JSON.parse(row.files);
      for (const [path, digest, size] of files.slice(0, limit - found.length))
        found.push({ input, path, digest, size, directory: 0, list });
    }
    return found;
  }

  /** The first of those that were found were compared: they are looked at no more. */
  compared(job: number, touched: readonly Touched[]): void {
    const lists = Map.groupBy(
      touched.filter(({ list }) => list !== null),
      ({ input, list }) => JSON.stringify([input, list]),
    );
    for (const { input, path, list } of touched) {
      if (list !== null) continue;
      this.sql
        .run`DELETE FROM touched WHERE job = ${job} AND stage = ${FOUND} AND input = ${input} AND path = ${path}`;
    }
    for (const [name, files] of lists) {
      const [input, path]: [number, string] = JSON.parse(name);
      this.#shorten(job, { input, path, by: files.length });
    }
  }

  #shorten(job: number, { input, path, by }: { input: number; path: string; by: number }): void {
    const row = this.sql.first<{ files: string }>`
      SELECT files FROM touched WHERE job = ${job} AND stage = ${LISTED} AND input = ${input} AND path = ${path}`;
    const rest: ListedFile[] = JSON.parse(row?.files ?? "[]").slice(by);
    if (rest.length > 0) {
      this.sql.run`
        UPDATE touched SET files = ${JSON.stringify(rest)}
        WHERE job = ${job} AND stage = ${LISTED} AND input = ${input} AND path = ${path}`;
    } else {
      this.sql
        .run`DELETE FROM touched WHERE job = ${job} AND stage = ${LISTED} AND input = ${input} AND path = ${path}`;
    }
  }

  /** There is a new element at a path that was compared. Returns false if that was known: it was listed twice. */
  stage(job: number, { input, element }: { input: number; element: Element }): boolean {
    const { path, kind, digest, size } = element;
    return this.sql.run`
      INSERT INTO touched (job, stage, input, path, kind, digest, size, directory)
      VALUES (${job}, ${TO_BE_BORN}, ${input}, ${path}, ${kind}, ${digest}, ${size}, 0) ON CONFLICT DO NOTHING`;
  }

  nextBirth(job: number): { input: number; element: Element } | undefined {
    const row = this.sql.first<Element & { input: number }>`
      SELECT input, path, kind, digest, size FROM touched
      WHERE job = ${job} AND stage = ${TO_BE_BORN} ORDER BY input, path LIMIT 1`;
    if (!row) return undefined;
    const { input, ...element } = row;
    return { input, element };
  }

  born(job: number, { input, path }: { input: number; path: string }): void {
    this.sql.run`
      DELETE FROM touched WHERE job = ${job} AND stage = ${TO_BE_BORN} AND input = ${input} AND path = ${path}`;
  }

  /** Forgets some of what a job would have looked at. Returns whether there may be more. */
  clear(job: number, limit: number): boolean {
    const rows = this.sql.all`
      DELETE FROM touched WHERE (job, stage, input, path) IN (
        SELECT job, stage, input, path FROM touched WHERE job = ${job} LIMIT ${limit})
      RETURNING 1`;
    return rows.length === limit;
  }
}
