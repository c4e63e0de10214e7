import type { CorsRule } from "../../core/cors.ts";
import type { Sql } from "../../objects/sql.ts";
import type { Writer } from "../contract/answers.ts";
import type { Keep, Lifecycle, ModifiedOf } from "../contract/settings.ts";
import { BranchStore } from "../store.ts";

/** What a life of the branch is set to. */
export interface Settings {
  /** Grows with each change; 0 if nothing was ever set. */
  readonly revision: number;
  readonly isPublic: boolean;
  readonly cors: readonly CorsRule[] | null;
  /** Who alone may write; null: nobody is kept out. */
  readonly writer: Writer | null;
  readonly lifecycle: Lifecycle | null;
  /** How much of the history stays; null: all of it. */
  readonly keep: Keep | null;
  /** Whose time Last-Modified is; null: what the gateway is set to. */
  readonly modified: ModifiedOf | null;
  /** Whether DeleteBucket leaves it alone while HEAD has a file. */
  readonly emptyOnly: boolean;
  /** Whether what is read of HEAD may be some seconds old. */
  readonly nearReads: boolean;
}

interface StoredRow {
  readonly revision: number;
  readonly public: number;
  readonly cors: string | null;
  readonly writer: string | null;
  readonly lifecycle: string | null;
  readonly keep: string | null;
  readonly modified: string | null;
  readonly emptyOnly: number;
  readonly nearReads: number;
}

const NOTHING_SET: Settings = {
  revision: 0,
  isPublic: false,
  cors: null,
  writer: null,
  lifecycle: null,
  keep: null,
  modified: null,
  emptyOnly: false,
  nearReads: false,
};

/**
 * The settings of the branch, a row a generation: a branch that is deleted and made again begins with nothing set. Those
 * of one generation are kept in memory, since each write asks, and each read without a signature.
 */
export class SettingsStore extends BranchStore {
  readonly #gatewayModified: ModifiedOf;
  #known: { readonly gen: number; readonly settings: Settings } | undefined;

  /** `gatewayModified`: whose time Last-Modified is in branches that do not say. */
  constructor(sql: Sql, gatewayModified: ModifiedOf) {
    super(sql);
    this.#gatewayModified = gatewayModified;
  }

  /** Whose time Last-Modified is in a generation. */
  modifiedOf(gen: number): ModifiedOf {
    return this.of(gen).modified ?? this.#gatewayModified;
  }

  of(gen: number): Settings {
    if (this.#known?.gen !== gen) {
      const row = this.sql.first<StoredRow>`
          SELECT revision, public, cors, writer, lifecycle, keep, modified, emptyOnly, nearReads
          FROM settings WHERE gen = ${gen}`;
      this.#known = { gen, settings: row ? settingsOf(row) : NOTHING_SET };
    }
    return this.#known.settings;
  }

  save(gen: number, { revision, isPublic, modified, emptyOnly, nearReads, ...settings }: Settings): void {
    const [cors, writer] = [textOf(settings.cors), textOf(settings.writer)];
    const [lifecycle, keep] = [textOf(settings.lifecycle), textOf(settings.keep)];
    this.sql.run`
      INSERT INTO settings (gen, revision, public, cors, writer, lifecycle, keep, modified, emptyOnly, nearReads)
      VALUES (
        ${gen}, ${revision}, ${isPublic ? 1 : 0}, ${cors}, ${writer}, ${lifecycle}, ${keep}, ${modified},
        ${emptyOnly ? 1 : 0}, ${nearReads ? 1 : 0}
      )
      ON CONFLICT DO UPDATE SET
        revision = excluded.revision, public = excluded.public, cors = excluded.cors, writer = excluded.writer,
        lifecycle = excluded.lifecycle, keep = excluded.keep, modified = excluded.modified,
        emptyOnly = excluded.emptyOnly, nearReads = excluded.nearReads`;
    this.wake("history GC");
    this.forget();
  }

  /** What is in memory may not be what is written. */
  forget(): void {
    this.#known = undefined;
  }
}

function textOf(value: object | null): string | null {
  return value === null ? null : JSON.stringify(value);
}

function settingsOf({ revision, modified, emptyOnly, nearReads, ...row }: StoredRow): Settings {
  return {
    revision,
    isPublic: row.public === 1,
    cors: JSON.parse(row.cors ?? "null"),
    writer: JSON.parse(row.writer ?? "null"),
    lifecycle: JSON.parse(row.lifecycle ?? "null"),
    keep: JSON.parse(row.keep ?? "null"),
    // What a later release may have written there is not known here, and counts as nothing.
    modified: modified === "branch" || modified === "file" ? modified : null,
    emptyOnly: emptyOnly === 1,
    nearReads: nearReads === 1,
  };
}

/** A pipeline's claim on the branch: it is the pipeline's output, and only its jobs write to it. */
interface Claim {
  readonly uid: string;
  readonly pipeline: string;
  /** Grows with each claim, so that the holder of an earlier one is told apart. */
  readonly epoch: number;
}

/** The claim on the branch, if there is one. Kept in memory, since each commit asks. */
export class ClaimStore extends BranchStore {
  /** Null: there is none; undefined: not loaded. */
  #claim: Claim | null | undefined;

  get(): Claim | null {
    if (this.#claim === undefined) {
      const row = this.sql.first<Claim>`SELECT epoch, uid, pipeline FROM writer WHERE uid IS NOT NULL`;
      this.#claim = row ?? null;
    }
    return this.#claim;
  }

  /** Returns the new epoch. */
  take({ uid, pipeline }: { uid: string; pipeline: string }): number {
    const epoch = this.sql.number`
      UPDATE writer SET epoch = epoch + 1, uid = ${uid}, pipeline = ${pipeline} WHERE one = 1 RETURNING epoch`;
    this.forget();
    return epoch;
  }

  release(): void {
    this.sql.run`UPDATE writer SET uid = NULL, pipeline = NULL WHERE one = 1`;
    this.forget();
  }

  /** What is in memory may not be what is written. */
  forget(): void {
    this.#claim = undefined;
  }
}
