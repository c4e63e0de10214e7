import type { FilePlace } from "../../../protocol/archives.ts";
import type { Imported, ImportSettings } from "../contract/archives.ts";
import { BranchStore, standsFor } from "../store.ts";

/** The state of an import, by the number in its row. */
const STATES = ["coming", "made", "purging"] as const;
type ImportState = (typeof STATES)[number];
const [COMING, MADE, PURGING] = [0, 1, 2];

/** A generation that comes out of an archive, and how far that is. work/importer.ts tells the states. */
export interface Import {
  /** That of the generation. */
  readonly uid: string;
  readonly gen: number;
  readonly archive: string;
  readonly state: ImportState;
  /** The upload by which its contents come. */
  readonly upload: string;
  /** Of the generation; milliseconds since 1970. */
  readonly createdAt: number;
  /** Number of the newest commit that it is to have. */
  readonly head: number;
  /** Commits before this one are kept only if a tag names them. */
  readonly horizon: number;
  readonly settings: ImportSettings;
  /** The last commit, tag and row of files that came. */
  readonly seq: number;
  readonly tag: string;
  readonly place: FilePlace;
  /** How many came. */
  readonly commits: number;
  readonly tags: number;
  readonly files: number;
}

type StoredRow = Omit<Import, "state" | "place" | "settings"> &
  FilePlace & { readonly state: number; readonly settings: string };

const SELECT = `
  SELECT uid, gen, archive, state, upload, createdAt, head, horizon, settings, seq, tag, path, born, commits, tags,
    files
  FROM imports`;
const BY_UID = `${SELECT} WHERE uid = ?`;
const IN_STATE = `${SELECT} WHERE state = ? ORDER BY gen DESC LIMIT 1`;

/** The generations of this branch that came out of archives, or are on their way. */
export class ImportStore extends BranchStore {
  begin(
    {
      uid,
      gen,
      archive,
      upload,
      createdAt,
      head,
      horizon,
      settings,
    }: Pick<Import, "uid" | "gen" | "archive" | "upload" | "createdAt" | "head" | "horizon" | "settings">,
    due: number,
  ): void {
    this.sql.run`
      INSERT INTO imports (uid, gen, archive, state, due, upload, createdAt, head, horizon, settings, seq, tag, path, born, commits,
        tags, files)
      VALUES (${uid}, ${gen}, ${archive}, ${COMING}, ${due}, ${upload}, ${createdAt}, ${head}, ${horizon},
        ${JSON.stringify(settings)}, 0, '', '', 0, 0, 0, 0)`;
    this.wake("imports", due);
  }

  get(uid: string): Import | undefined {
    return this.#query(BY_UID, uid)[0];
  }

  /** The one whose rows come. */
  coming(): Import | undefined {
    return this.#query(IN_STATE, COMING)[0];
  }

  /** One that was given up, and whose rows are to go. */
  purging(): Import | undefined {
    return this.#query(IN_STATE, PURGING)[0];
  }

  /** The greatest number that a generation out of an archive has or had. */
  newestGen(): number {
    return this.sql.number`SELECT max(gen) AS gen FROM imports`;
  }

  /** More has come. */
  advance({ uid, seq, tag, place, commits, tags, files }: Import, due: number): void {
    this.sql.run`
      UPDATE imports SET seq = ${seq}, tag = ${tag}, path = ${place.path}, born = ${place.born}, commits = ${commits},
        tags = ${tags}, files = ${files}, due = ${due}
      WHERE uid = ${uid}`;
  }

  setUpload(uid: string, { upload, due }: { upload: string; due: number }): void {
    this.sql.run`UPDATE imports SET upload = ${upload}, due = ${due} WHERE uid = ${uid}`;
  }

  /** It is the branch. `by`: the access key that finished it, if that is known. */
  made(uid: string, { at, by }: { at: number; by: string | null }): void {
    this.sql.run`
      UPDATE imports SET state = ${MADE}, due = NULL, at = ${at}, "by" = ${by} WHERE uid = ${uid}`;
    this.wake("history GC");
  }

  /** How a generation came out of an archive; undefined if it did not. */
  of(uid: string): Imported | undefined {
    return this.sql.first<Imported>`
      SELECT at, "by", head FROM imports WHERE uid = ${uid} AND state = ${MADE}`;
  }

  /** The last path that came is of no use once the branch is there, and may be erased. */
  forgetPlace(uid: string): void {
    this.sql.run`UPDATE imports SET path = '' WHERE uid = ${uid} AND state = ${MADE} AND path <> ''`;
  }

  giveUp(uid: string): void {
    this.sql.run`UPDATE imports SET state = ${PURGING}, due = NULL WHERE uid = ${uid}`;
    this.wake("imports");
  }

  remove(uid: string): void {
    this.sql.run`DELETE FROM imports WHERE uid = ${uid}`;
  }

  /** One to which nothing came for too long. */
  expired(now: number): Import | undefined {
    const row = this.sql.first<{ uid: string }>`
      SELECT uid FROM imports INDEXED BY imports_by_due WHERE due IS NOT NULL AND due <= ${now} LIMIT 1`;
    return row && this.get(row.uid);
  }

  /** When the next one is given up; undefined if none is. */
  nextDue(): number | undefined {
    return this.sql.first<{ due: number }>`
      SELECT due FROM imports INDEXED BY imports_by_due WHERE due IS NOT NULL ORDER BY due LIMIT 1`?.due;
  }

  #query(text: string, value: string | number): Import[] {
    return this.sql.query<StoredRow>(text, [value]).map(({ path, born, settings, state, ...row }) => ({
      ...row,
      place: { path, born },
      settings: JSON.parse(settings),
      state: standsFor(STATES, state, "purging"),
    }));
  }
}
