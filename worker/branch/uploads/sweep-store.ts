import { BLOB_FOLDERS } from "../../blobs/blob-name.ts";
import type { Sql } from "../../objects/sql.ts";
import type { ContentStore } from "../contents/content-store.ts";
import type { SweepTotals } from "../contract/admin.ts";
import { BranchStore, standsFor } from "../store.ts";

/**
 * How long after its cause a sweep begins; milliseconds. A body that still comes under an upload that has ended hears of
 * that when it renews it, every third of the upload's lease: by then it has removed its blobs itself.
 */
export const SWEEP_AFTER_MS = 30 * 60 * 1000;
/** How long after a sweep the next one begins at the earliest, unless somebody asks for it; milliseconds. */
export const BETWEEN_SWEEPS_MS = 6 * 60 * 60 * 1000;
/** So many orphans are proved and removed before more names are listed, so that what a sweep writes down is bounded. */
const PROVED_AT_ONCE = 5000;

const PHASES = ["names", "lists", "manifests", "doomed", "remove"] as const;

/**
 * Of a sweep: names are listed; then what others name of the orphans is spared, which lists of contents, their manifests,
 * and manifests that are pending deletion say; then what is left goes.
 */
type Phase = (typeof PHASES)[number];

/** A sweep that is under way. */
export interface Sweep {
  readonly uid: string;
  readonly beganAt: number;
  readonly removes: boolean;
  readonly phase: Phase;
  /** The folder that is listed next, of BLOB_FOLDERS; as many if all were. */
  readonly folder: number;
  /** The last name that was listed of it; "" if none was. */
  readonly listed: string;
  /** The row of the content, or the manifest pending deletion, that is looked at next, and how many of its pages were. */
  readonly content: number;
  readonly doomed: string;
  readonly pages: number;
  /** How often orphans could not be deleted since it began. */
  readonly tries: number;
}

type SweepRow = Omit<Sweep, "removes" | "phase"> & { readonly removes: 0 | 1; readonly phase: number };

/**
 * Which generations may have left blobs in the store that nothing names, how far the look for them is, and what it has
 * found. One is under way at a time.
 */
export class SweepStore extends BranchStore {
  readonly #contents: ContentStore;

  constructor(sql: Sql, contents: ContentStore) {
    super(sql);
    this.#contents = contents;
  }

  /** The generation may have left something. */
  mark(gen: number, now: number): void {
    const due = now + SWEEP_AFTER_MS;
    const marked = this.sql.first<{ due: number }>`
      INSERT INTO sweeps (uid, due, removes, phase, folder, listed, content, doomed, pages, seen, found, foundBytes)
      SELECT uid, ${due}, 1, 0, 0, '', 0, '', 0, 0, 0, 0 FROM (
        SELECT uid FROM generations WHERE gen = ${gen} UNION SELECT uid FROM imports WHERE gen = ${gen}
      ) WHERE true
      ON CONFLICT DO UPDATE SET
        again = CASE WHEN beganAt IS NULL THEN NULL ELSE ifnull(again, ${now + BETWEEN_SWEEPS_MS}) END,
        due = ifnull(due, max(excluded.due, ifnull(endedAt, 0) + ${BETWEEN_SWEEPS_MS})),
        removes = CASE WHEN beganAt IS NULL THEN 1 ELSE removes END
      RETURNING due`;
    if (marked) this.wake("orphan scan", marked.due);
  }

  /** Somebody wants all generations swept from the beginning, now. A sweep that was to remove comes after one that counts. */
  ask({ removes, now }: { removes: boolean; now: number }): void {
    this.sql.run`UPDATE sweeps SET beganAt = NULL, due = ${now} WHERE beganAt IS NOT NULL`;
    this.sql.run`
      INSERT INTO sweeps (
        uid, due, askedAt, removes, phase, folder, listed, content, doomed, pages, seen, found, foundBytes
      )
      SELECT uid, ${now}, ${now}, ${Number(removes)}, 0, 0, '', 0, '', 0, 0, 0, 0 FROM generations WHERE true
      ON CONFLICT DO UPDATE SET due = excluded.due, askedAt = excluded.askedAt,
        again = CASE WHEN excluded.removes = 1 THEN NULL WHEN removes = 1 THEN ifnull(again, due) ELSE again END,
        removes = excluded.removes`;
    this.wake("orphan scan");
  }

  /** When the one under way goes on, or else the next one begins; undefined if there is none. */
  nextDue(): number | undefined {
    return this.#next()?.due;
  }

  /** The sweep that there is something to do for now: the one under way, before any other, or one that begins. */
  current(now: number): Sweep | undefined {
    const next = this.#next();
    if (!next || next.due > now) return undefined;
    if (next.beganAt === null) this.#begin(next.uid, now);
    return this.#get(next.uid);
  }

  /** Of the names that were listed in the store, those that neither a content nor an upload that is open accounts for. */
  unaccounted(names: readonly string[], bucket: string): string[] {
    const unowned = this.#contents.unowned(names);
    if (unowned.length === 0) return [];
    return this.sql.all<{ name: string }>`
      SELECT listed.value AS name FROM json_each(${JSON.stringify(unowned)}) AS listed
      WHERE NOT EXISTS (
        SELECT 1 FROM uploads
        WHERE uploads.isFresh IN (0, 1) AND uploads.id = ${bucket} || substr(listed.value, -27) AND uploads.lost = 0
      )`.map(({ name }) => name);
  }

  /**
   * Spares what lists of contents name that list blobs of others, of about so many characters of lists from a row on.
   * Returns the row to go on from; undefined if that was all.
   */
  spareListed(row: number, length: number): number | undefined {
    for (let [next, room] = [row, length]; ; ) {
      const found = this.#contents.listFrom(next);
      if (!found) return undefined;
      if (room <= 0) return found.row;
      room -= found.body.length;
      next = found.row + 1;
      this.sql.run`
        DELETE FROM orphans WHERE blob IN (SELECT value ->> 'blob' FROM json_each(${found.body}))`;
    }
  }

  /** Names were listed, and these are not accounted for. */
  listed(
    { uid }: Sweep,
    page: { folder: number; listed: string; seen: number; orphans: readonly string[] },
  ): void {
    const { folder, listed, seen, orphans } = page;
    if (orphans.length > 0) {
      this.sql.run`
        INSERT INTO orphans (blob) SELECT value FROM json_each(${JSON.stringify(orphans)}) WHERE true
        ON CONFLICT DO NOTHING`;
    }
    const enough = folder >= BLOB_FOLDERS || this.#orphanCount() >= PROVED_AT_ONCE;
    this.sql.run`
      UPDATE sweeps SET folder = ${folder}, listed = ${listed}, seen = seen + ${seen} WHERE uid = ${uid}`;
    if (enough) this.#enter(uid, "lists");
  }

  /** These are named after all. */
  spare(blobs: readonly string[]): void {
    this.sql.run`DELETE FROM orphans WHERE blob IN (SELECT value FROM json_each(${JSON.stringify(blobs)}))`;
  }

  /** How far its phase is. */
  advance({ uid }: Sweep, { content, doomed, pages }: Pick<Sweep, "content" | "doomed" | "pages">): void {
    this.sql.run`
      UPDATE sweeps SET content = ${content}, doomed = ${doomed}, pages = ${pages} WHERE uid = ${uid}`;
  }

  /** Its phase is through. */
  nextPhase({ uid, phase }: Sweep): void {
    this.#enter(uid, standsFor(PHASES, PHASES.indexOf(phase) + 1, "remove"));
  }

  /** The same sweep is still under way: it was not begun anew. */
  isUnderWay({ uid, beganAt }: Sweep): boolean {
    return this.sql.has`SELECT 1 FROM sweeps WHERE uid = ${uid} AND beganAt = ${beganAt}`;
  }

  hasOrphans(): boolean {
    return this.sql.has`SELECT 1 FROM orphans LIMIT 1`;
  }

  orphans(limit: number): string[] {
    return this.sql.all<{ blob: string }>`SELECT blob FROM orphans ORDER BY blob LIMIT ${limit}`.map(
      ({ blob }) => blob,
    );
  }

  /** These were found to be named by nothing, and are gone if the sweep removes. */
  settled({ uid }: Sweep, blobs: readonly string[], bytes: number): void {
    this.spare(blobs);
    this.sql.run`
      UPDATE sweeps SET found = found + ${blobs.length}, foundBytes = foundBytes + ${bytes} WHERE uid = ${uid}`;
  }

  /** Nothing is left of what was found so far: goes on listing, or ends. */
  round({ uid, folder }: Sweep, now: number): void {
    if (folder < BLOB_FOLDERS) {
      this.#enter(uid, "names");
      return;
    }
    this.sql.run`
      UPDATE sweeps SET beganAt = NULL, endedAt = ${now}, due = again, again = NULL, removes = 1
      WHERE uid = ${uid}`;
  }

  /** Some orphans could not be deleted: they are tried again. */
  retry({ uid }: Sweep, due: number): void {
    this.sql.run`UPDATE sweeps SET due = ${due}, tries = tries + 1 WHERE uid = ${uid} AND due IS NOT NULL`;
  }

  /** It goes on without these. They are for another sweep. */
  leave({ uid }: Sweep, blobs: readonly string[], now: number): void {
    this.sql.run`DELETE FROM orphans WHERE blob IN (SELECT value FROM json_each(${JSON.stringify(blobs)}))`;
    this.sql.run`UPDATE sweeps SET again = ifnull(again, ${now + BETWEEN_SWEEPS_MS}) WHERE uid = ${uid}`;
  }

  /** It can't go on now. */
  postpone({ uid }: Sweep, due: number): void {
    this.sql.run`UPDATE sweeps SET due = ${due} WHERE uid = ${uid} AND due IS NOT NULL`;
  }

  /** How those stand that were asked for at a time, or after it. */
  totals(since: number): SweepTotals {
    const { open, ...found } = this.sql.one<Omit<SweepTotals, "done"> & { open: number }>`
      SELECT ifnull(sum(endedAt IS NULL OR endedAt < askedAt), 0) AS open, ifnull(sum(seen), 0) AS seen,
        ifnull(sum(found), 0) AS found, ifnull(sum(foundBytes), 0) AS foundBytes
      FROM sweeps WHERE askedAt >= ${since}`;
    return { done: open === 0, ...found };
  }

  #next(): { readonly uid: string; readonly due: number; readonly beganAt: number | null } | undefined {
    const underWay = this.sql.first<{ uid: string; due: number; beganAt: number }>`
      SELECT uid, due, beganAt FROM sweeps INDEXED BY sweeps_under_way WHERE beganAt IS NOT NULL LIMIT 1`;
    if (underWay) return underWay;
    return this.sql.first<{ uid: string; due: number; beganAt: null }>`
      SELECT uid, due, NULL AS beganAt FROM sweeps INDEXED BY sweeps_by_due WHERE due >= 0 ORDER BY due LIMIT 1`;
  }

  #begin(uid: string, now: number): void {
    this.sql.run`DELETE FROM orphans`;
    this.sql.run`
      UPDATE sweeps SET beganAt = ${now}, phase = 0, folder = 0, listed = '', seen = 0, found = 0,
        foundBytes = 0, tries = 0
      WHERE uid = ${uid}`;
  }

  #get(uid: string): Sweep | undefined {
    const row = this.sql.first<SweepRow>`
      SELECT uid, beganAt, removes, phase, folder, listed, content, doomed, pages, tries
      FROM sweeps WHERE uid = ${uid}`;
    return row && { ...row, removes: row.removes === 1, phase: standsFor(PHASES, row.phase, "names") };
  }

  #enter(uid: string, phase: Phase): void {
    this.sql.run`
      UPDATE sweeps SET phase = ${PHASES.indexOf(phase)}, content = 0, doomed = '', pages = 0 WHERE uid = ${uid}`;
  }

  #orphanCount(): number {
    return this.sql.number`SELECT count(*) AS n FROM orphans`;
  }
}
