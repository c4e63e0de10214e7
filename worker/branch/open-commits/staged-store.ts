import type { Sql } from "../../objects/sql.ts";
import type { ContentStore } from "../contents/content-store.ts";
import { BranchStore } from "../store.ts";
import { type FileState, kindOf } from "../tree/file-store.ts";
import type { OpenCommit } from "./open-commit-store.ts";

/** What an open commit does to a path. */
interface StagedOperation {
  /** Null: it deletes it. */
  readonly state: FileState | null;
  /** What HEAD must still have there, as `preconditions.ts` says; null if no condition stands. */
  readonly precondition: number | null;
}

interface StagedPut extends StagedOperation {
  readonly path: string;
  readonly state: FileState;
  readonly keep: () => void;
}

/** Of a deletion, digest and size are null in the table. */
interface StoredRow {
  readonly gone: number;
  readonly path: string;
  readonly digest: string;
  readonly size: number;
  readonly attributes: string | null;
  readonly bytesAt: number | null;
}

/** What open commits hold: one operation per path. A put of a file keeps its content, as a file does. */
export class StagedStore extends BranchStore {
  readonly #contents: ContentStore;

  constructor(sql: Sql, contents: ContentStore) {
    super(sql);
    this.#contents = contents;
  }

  /** Whether it puts anything; if not, it only deletes. */
  hasPuts(openCommit: number): boolean {
    return this.sql.has`SELECT 1 FROM staged WHERE openCommit = ${openCommit} AND gone = 0 LIMIT 1`;
  }

  find(openCommit: number, path: string): StagedOperation | undefined {
    const row = this.sql.first<StoredRow & Pick<StagedOperation, "precondition">>`
      SELECT gone, path, lower(hex(digest)) AS digest, size, attributes, bytesAt, precondition FROM staged
      WHERE openCommit = ${openCommit} AND gone IN (0, 1) AND path = ${path}`;
    return row && { state: stateOf(row), precondition: row.precondition };
  }

  /**
   * Makes this put the open commit's operation on the path. `keep` lets a file have its content; it is not called if the
   * same is staged already. `added`: how many paths more the open commit has.
   */
  put(
    { number, gen }: Pick<OpenCommit, "number" | "gen">,
    { path, state, precondition, keep }: StagedPut,
  ): { added: number; changed: boolean } {
    const before = this.find(number, path);
    if (before?.state && isSame(before.state, state)) {
      if (before.precondition !== precondition) {
        this.sql.run`
          UPDATE staged SET precondition = ${precondition} WHERE openCommit = ${number} AND gone = 0 AND path = ${path}`;
      }
      return { added: 0, changed: false };
    }
    const isFile = kindOf(path) === "file";
    if (isFile) keep();
    if (before?.state && isFile) this.#contents.release({ ...before.state, gen });
    if (before?.state === null) {
      this.sql.run`DELETE FROM staged WHERE openCommit = ${number} AND gone = 1 AND path = ${path}`;
    }
    const { digest, size, attributes, bytesAt = null } = state;
    this.sql.run`
      INSERT OR REPLACE INTO staged (openCommit, gone, path, digest, size, attributes, bytesAt, precondition)
      VALUES (${number}, 0, ${path}, unhex(${digest}), ${size}, ${attributes}, ${bytesAt}, ${precondition})`;
    return { added: before ? 0 : 1, changed: true };
  }

  /** All operations of an open commit. Only for one that has no more of them than one transaction writes. */
  all(openCommit: number): Map<string, FileState | null> {
    const rows = this.sql.all<StoredRow>`
      SELECT gone, path, lower(hex(digest)) AS digest, size, attributes, bytesAt FROM staged
      WHERE openCommit = ${openCommit}`;
    return new Map(rows.map((row) => [row.path, stateOf(row)]));
  }

  /** Takes an open commit's operations away, but releases nothing: files have taken over what they kept. */
  clear(openCommit: number): void {
    this.sql.run`DELETE FROM staged WHERE openCommit = ${openCommit}`;
  }

  /** Takes some of an open commit's operations away and releases what they kept. Returns how many there were. */
  drop({ number, gen }: Pick<OpenCommit, "number" | "gen">, limit: number): number {
    const rows = this.sql.all<StoredRow>`
      SELECT gone, path, lower(hex(digest)) AS digest, size, attributes, bytesAt FROM staged
      WHERE openCommit = ${number} ORDER BY gone, path LIMIT ${limit}`;
    const last = rows.at(-1);
    if (!last) return 0;
    for (const row of rows) {
      const state = stateOf(row);
      if (state && kindOf(row.path) === "file") this.#contents.release({ ...state, gen });
    }
    this.sql.run`
      DELETE FROM staged WHERE openCommit = ${number} AND (gone, path) <= (${last.gone}, ${last.path})`;
    return rows.length;
  }
}

function stateOf({ digest, size, attributes, bytesAt, gone }: StoredRow): FileState | null {
  return gone ? null : { digest, size, attributes, bytesAt };
}

function isSame(one: FileState, other: FileState): boolean {
  const isAsOld = (one.bytesAt ?? null) === (other.bytesAt ?? null);
  const isContent = one.digest === other.digest && one.size === other.size;
  return isContent && isAsOld && one.attributes === other.attributes;
}
