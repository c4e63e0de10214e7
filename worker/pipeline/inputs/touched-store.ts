import { Store } from "../../objects/store.ts";
import type { Candidate } from "./candidates.ts";
import type { Element } from "./element-store.ts";

/** A path that a job touches: its element may differ from the job before. */
export interface Touched {
  readonly input: number;
  readonly path: string;
  /** The file that is there now; null: none is, or only something below changed. */
  readonly digest: string | null;
  readonly size: number | null;
  /** 1: something under this directory changed. */
  readonly directory: number;
}

const FOUND = 0;
const TO_BE_BORN = 1;

/** What a job has yet to look at: rows come and go with its fill. */
export class TouchedStore extends Store {
  /** Notes candidates; a path that is both a file and a directory (one replaced the other) keeps both. */
  add(job: number, candidates: Iterable<Candidate>): void {
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

  found(job: number, limit: number): Touched[] {
    return this.sql.all<Touched>`
      SELECT input, path, digest, size, directory FROM touched
      WHERE job = ${job} AND stage = ${FOUND} ORDER BY input, path LIMIT ${limit}`;
  }

  /** Compared: there is no element any more, or the same one. */
  drop(job: number, { input, path }: { input: number; path: string }): void {
    this.sql.run`
      DELETE FROM touched WHERE job = ${job} AND stage = ${FOUND} AND input = ${input} AND path = ${path}`;
  }

  /** Compared: there is a new element. */
  stage(job: number, { input, element }: { input: number; element: Element }): void {
    this.drop(job, { input, path: element.path });
    this.sql.run`
      INSERT INTO touched (job, stage, input, path, kind, digest, size, directory)
      VALUES (${job}, ${TO_BE_BORN}, ${input}, ${element.path}, ${element.kind}, ${element.digest}, ${element.size}, 0)`;
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
