import { contentName } from "../../../../protocol/content.ts";
import type { Tx } from "../../../objects/transaction.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import { NO_VERSION } from "../../tree/file-store.ts";

/** Most rows of files that one slice removes: what a transaction of some milliseconds takes. */
const FILES = 300;

interface FileRow {
  readonly path: string;
  readonly born: number;
  readonly digest: string;
  readonly size: number;
  /** 0: a file, which keeps its content. */
  readonly kind: number;
  readonly version: number | null;
}

/** Of (?1 gen, ?2 limit): rows of a generation, in the order of their key. */
const FIRST_FILES = `
  SELECT path, born, version, lower(hex(digest)) AS digest, size, kind FROM files WHERE gen = ?1 ORDER BY path, born LIMIT ?2`;

/** Of (?1 gen, ?2 and ?3 the last of them). */
const FORGET = "DELETE FROM files WHERE gen = ?1 AND (path, born) <= (?2, ?3)";

/** Of (?1 gen, ?2 JSON of versions, paths and births): rows that were current again are gone. */
const FORGET_REVIVED = `
  DELETE FROM revived WHERE gen = ?1 AND (version, path, born) IN (
    SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?2))`;

/** Removes some rows of a generation that nobody reads any more, and what its files alone kept. Returns whether there were any. */
export function purgeSlice(tx: Tx, ledger: Ledger, { gen, now }: { gen: number; now: number }): boolean {
  const { sql, contents } = ledger;
  const rows = sql.query<FileRow>(FIRST_FILES, [gen, FILES]);
  const last = rows.at(-1);
  if (!last) return false;
  const refs = new Map<string, number>();
  for (const { kind, digest, size } of rows) {
    if (kind !== 0) continue;
    const name = contentName({ digest, size });
    refs.set(name, (refs.get(name) ?? 0) + 1);
  }
  sql.execute(FORGET, [gen, last.path, last.born]);
  const revived = rows.flatMap(({ path, born, version }) => (version ? [[version, path, born]] : []));
  if (revived.length > 0) sql.execute(FORGET_REVIVED, [gen, JSON.stringify(revived)]);
  // News of what was erased has its name.
  if (rows.some(({ version }) => version === NO_VERSION)) ledger.oweRewrite(tx, now);
  contents.releaseMany([...refs], gen);
  // One by one they need not be given back: the parent is told that the whole fork is gone (forker.ts).
  contents.forgetUnkept(gen);
  contents.removeDead(now);
  return true;
}
