import type { ContentId } from "../../../protocol/content.ts";
import { readBody, type StoredBody } from "../contents/stored-body.ts";
import type { BranchContext } from "../context.ts";
import type { AnswerOf, CheckedName, ContentToCheck, NamedRow, RequestOf } from "../contract.ts";
import type { Ledger } from "../ledger/ledger.ts";

/** Most rows that one slice goes through: what takes some milliseconds. */
const ROWS = 2000;
/** Most contents of one answer, and about the most bytes of their bodies as they are stored. */
const CONTENTS = 200;
const BODY_BYTES = 2 * 1024 * 1024;

/** Of (?1 gen, ?2 path, ?3 born, ?4 limit): the rows of files after one, of any generation, and whether their content is not there. */
const NAMES = `
  SELECT gen, path, born, ifnull(version, born) AS writtenBy, kind = 0 AND NOT EXISTS (
    SELECT 1 FROM contents
    WHERE contents.digest = files.digest AND contents.size = files.size AND contents.gen = files.gen
  ) AS lacks
  FROM files WHERE (gen, path, born) > (?1, ?2, ?3) ORDER BY gen, path, born LIMIT ?4`;

/** Of (?1 gen, ?2 path, ?3 born, ?4 limit): the same rows, with what they have. */
const CONTENTS_OF_NAMES = `
  SELECT gen, path, born, ifnull(version, born) AS writtenBy, lower(hex(digest)) AS digest, size FROM files
  WHERE gen = ?1 AND (path, born) > (?2, ?3) ORDER BY path, born LIMIT ?4`;

type Checking = Pick<BranchContext, "ledger" | "turn">;

/** The calls of BranchApi that a check of all names and bytes is made of. */
export class CheckCalls {
  readonly #context: Checking;

  constructor(context: Checking) {
    this.#context = context;
  }

  /** A slice of the names, of all commits and generations. */
  names({ after }: RequestOf<"checkNames">): AnswerOf<"checkNames"> {
    const { ledger } = this.#context;
    if (!ledger.exists) return { ok: false, reason: "no-such-branch" };
    const { gen, path, born } = after ?? { gen: 0, path: "", born: 0 };
    const rows = ledger.sql.query<VersionRow & { readonly lacks: 0 | 1 }>(NAMES, [gen, path, born, ROWS]);
    const lacking = rows.filter(({ lacks }) => lacks === 1).map((row) => checkedName(ledger, row));
    const last = rows.at(-1);
    const next = last && rows.length === ROWS ? { gen: last.gen, path: last.path, born: last.born } : null;
    return { ok: true, checked: rows.length, lacking, next };
  }

  /** Some of the contents that anything keeps, in the order of their rows. */
  contents({ after }: RequestOf<"checkContents">): AnswerOf<"checkContents"> {
    const { ledger } = this.#context;
    if (!ledger.exists) return { ok: false, reason: "no-such-branch" };
    const contents: ContentToCheck[] = [];
    let row = after;
    let room = BODY_BYTES;
    // One at a time: rows may be large.
    while (contents.length < CONTENTS && room > 0) {
      const found = ledger.sql.first<StoredBody & ContentToCheckRow>`
        SELECT rowid AS row, lower(hex(digest)) AS digest, size, gen, kind, body, octet_length(body) AS bytes
        FROM contents WHERE rowid > ${row} AND refs > 0 ORDER BY rowid LIMIT 1`;
      if (!found) return { ok: true, contents, last: this.#last(), more: false };
      const { kind, body, bytes, ...content } = found;
      contents.push({ ...content, body: readBody({ kind, body }) });
      room -= bytes;
      row = found.row;
    }
    return { ok: true, contents, last: this.#last(), more: true };
  }

  /** Some names of a content. It has no index: the rows of its generation are gone through in slices. */
  async namesOf({ digest, size, gen, limit }: RequestOf<"namesOf">): Promise<AnswerOf<"namesOf">> {
    const { ledger, turn } = this.#context;
    const names: CheckedName[] = [];
    if (!ledger.exists) return names;
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

  /** The buckets of forks that a content is pinned for. */
  pinnedFor(content: RequestOf<"pinnedFor">): string[] {
    const { ledger } = this.#context;
    if (!ledger.exists) return [];
    return ledger.pins.forksOf(content).flatMap((fork) => ledger.roots.find(fork)?.bucket ?? []);
  }

  #last(): number {
    const { sql } = this.#context.ledger;
    return sql.first<{ row: number | null }>`SELECT max(rowid) AS row FROM contents`?.row ?? 0;
  }
}

type ContentToCheckRow = Omit<ContentToCheck, "body"> & { readonly bytes: number };

interface VersionRow extends NamedRow {
  /** The commit whose id the version has. */
  readonly writtenBy: number;
}

function checkedName(
  { commits }: Pick<Ledger, "commits">,
  { gen, path, writtenBy }: VersionRow,
): CheckedName {
  return { path, commit: commits.at({ gen, seq: writtenBy })?.id ?? null };
}
