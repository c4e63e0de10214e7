import type { ContentId } from "../../../protocol/content.ts";
import { contentOf } from "../contents/content-store.ts";
import type {
  CheckedName,
  ContentsToCheck,
  ContentToCheck,
  NamedRow,
  NamesChecked,
} from "../contract/admin.ts";
import type { Ledger } from "../ledger/ledger.ts";

/** Most rows that one slice goes through: what takes some milliseconds. */
const ROWS = 2000;
/** Most contents of one answer, and about the most bytes of their bodies as they are stored. */
const CONTENTS = 200;
const BODY_BYTES = 2 * 1024 * 1024;

/** Of (?1 gen, ?2 path, ?3 born, ?4 limit): the rows of files after one, of any generation, and whether their content is not there. */
const NAMES = `
  SELECT files.gen AS gen, path, born, ifnull(version, born) AS writtenBy, files.kind = 0 AND contents.gen IS NULL AS lacks
  FROM files LEFT JOIN ${contentOf("files")}
  WHERE (files.gen, path, born) > (?1, ?2, ?3) ORDER BY files.gen, path, born LIMIT ?4`;

/** Of (?1 gen, ?2 path, ?3 born, ?4 limit): the same rows, with what they have. */
const CONTENTS_OF_NAMES = `
  SELECT gen, path, born, ifnull(version, born) AS writtenBy, lower(hex(digest)) AS digest, size FROM files
  WHERE gen = ?1 AND (path, born) > (?2, ?3) ORDER BY path, born LIMIT ?4`;

/** A slice of the names, of all commits and generations. */
export function checkNames(ledger: Ledger, after: NamedRow | null): NamesChecked {
  const { gen, path, born } = after ?? { gen: 0, path: "", born: 0 };
  const rows = ledger.sql.query<VersionRow & { readonly lacks: 0 | 1 }>(NAMES, [gen, path, born, ROWS]);
  const lacking = rows.filter(({ lacks }) => lacks === 1).map((row) => checkedName(ledger, row));
  const last = rows.at(-1);
  const next = last && rows.length === ROWS ? { gen: last.gen, path: last.path, born: last.born } : null;
  return { ok: true, checked: rows.length, lacking, next };
}

/** Some of the contents that anything keeps, in the order of their rows. */
export function checkContents({ contents }: Ledger, after: number): ContentsToCheck {
  const some: ContentToCheck[] = [];
  let row = after;
  let room = BODY_BYTES;
  let more = true;
  // One at a time: rows may be large.
  while (more && some.length < CONTENTS && room > 0) {
    const found = contents.after(row);
    more = found !== undefined;
    if (!found) break;
    const { bytes, ...content } = found;
    some.push(content);
    room -= bytes;
    row = found.row;
  }
  return { ok: true, contents: some, last: contents.lastRow(), more };
}

/** Some names of a content. It has no index: the rows of its generation are gone through in slices. */
export async function namesOf(
  ledger: Ledger,
  { content: { digest, size }, gen, limit, turn }: NamesOf,
): Promise<CheckedName[]> {
  const names: CheckedName[] = [];
  let after = { path: "", born: 0 };
  for (;;) {
    const values = [gen, after.path, after.born, ROWS];
    const rows = ledger.sql.query<VersionRow & ContentId>(CONTENTS_OF_NAMES, values);
    for (const row of rows) {
      if (row.digest !== digest || row.size !== size) continue;
      names.push(checkedName(ledger, row));
      if (names.length >= limit) return names;
    }
    const last = rows.at(-1);
    if (!last || rows.length < ROWS) return names;
    after = last;
    await turn();
  }
}

interface NamesOf {
  readonly content: ContentId;
  readonly gen: number;
  readonly limit: number;
  readonly turn: () => Promise<unknown>;
}

interface VersionRow extends NamedRow {
  /** The commit whose id the version has. */
  readonly writtenBy: number;
}

function checkedName({ commits }: Ledger, { gen, path, writtenBy }: VersionRow): CheckedName {
  return { path, commit: commits.at({ gen, seq: writtenBy })?.id ?? null };
}
