import type { CorsRule } from "../../core/cors.ts";
import { Store } from "../../sqlite/store.ts";
import type { Writer } from "../contract.ts";

/** What a life of the branch is set to. */
export interface Settings {
  /** Grows with each change; 0 if nothing was ever set. */
  readonly revision: number;
  readonly isPublic: boolean;
  readonly cors: readonly CorsRule[] | null;
  /** Who alone may write; null: nobody is kept out. */
  readonly writer: Writer | null;
}

interface StoredRow {
  readonly revision: number;
  readonly public: number;
  readonly cors: string | null;
  readonly writer: string | null;
}

const NOTHING_SET: Settings = { revision: 0, isPublic: false, cors: null, writer: null };

/**
 * The settings of the branch, a row a generation: a branch that is deleted and made again begins with nothing set. Those
 * of one generation are kept in memory, since each write asks, and each read without a signature.
 */
export class SettingsStore extends Store {
  #known: { readonly gen: number; readonly settings: Settings } | undefined;

  of(gen: number): Settings {
    if (this.#known?.gen !== gen) {
      const row = this.sql
        .first<StoredRow>`SELECT revision, public, cors, writer FROM settings WHERE gen = ${gen}`;
      this.#known = { gen, settings: row ? settingsOf(row) : NOTHING_SET };
    }
    return this.#known.settings;
  }

  save(gen: number, { revision, isPublic, ...settings }: Settings): void {
    const [cors, writer] = [textOf(settings.cors), textOf(settings.writer)];
    this.sql.run`
      INSERT INTO settings (gen, revision, public, cors, writer)
      VALUES (${gen}, ${revision}, ${isPublic ? 1 : 0}, ${cors}, ${writer})
      ON CONFLICT DO UPDATE SET
        revision = excluded.revision, public = excluded.public, cors = excluded.cors, writer = excluded.writer`;
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

function settingsOf({ revision, public: isPublic, cors, writer }: StoredRow): Settings {
  return {
    revision,
    isPublic: isPublic === 1,
    cors: cors === null ? null : JSON.parse(cors),
    writer: writer === null ? null : JSON.parse(writer),
  };
}
