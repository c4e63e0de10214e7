import { type ContentId, contentName, parseContentName } from "../../../protocol/content.ts";
import type { AnswerOf, RequestOf } from "../contract/answers.ts";
import type { ByteHolder, ErasureCalls } from "../contract/erasures.ts";
import type { Ledger } from "../ledger/ledger.ts";

/** Rows that are looked at before others get their turn, and in one call. A row of an upload may be a list of a hundred contents. */
const ROWS = 2000;
const ROWS_OF_UPLOADS = 100;
const ROWS_A_CALL = 40_000;

/** What names contents, in this order. The mark of a page says where among which it is. */
const KINDS = ["version", "open-commit", "upload"] as const;
type Kind = (typeof KINDS)[number];

/** Of (?1 gen, ?2 path, ?3 number, ?4 limit) each: rows behind that place, in the order of their key. An upload's place is its id and a digest. */
const SCANS: Record<Kind, string> = {
  version: `
    SELECT path, born AS number, lower(hex(digest)) AS digest, size,
      (SELECT id FROM commits WHERE commits.gen = ?1 AND commits.seq = ifnull(version, born)) AS name
    FROM files WHERE gen = ?1 AND (path, born) > (?2, ?3) AND kind = 0 ORDER BY path, born LIMIT ?4`,
  "open-commit": `
    SELECT staged.path AS path, openCommit AS number, lower(hex(digest)) AS digest, size, open_commits.id AS name
    FROM staged CROSS JOIN open_commits ON open_commits.number = staged.openCommit
    WHERE (openCommit, staged.path) > (?3, ?2) AND gone = 0 AND open_commits.gen = ?1 AND open_commits.state < 2
    ORDER BY openCommit, staged.path LIMIT ?4`,
  upload: `
    SELECT upload || '/' || hex(digest) AS path, size AS number, lower(hex(digest)) AS digest, size,
      (SELECT path FROM multiparts WHERE multiparts.upload = holds.upload) AS name, names
    FROM holds
    WHERE (upload, digest, size) > (
        substr(?2, 1, instr(?2 || '/', '/') - 1), unhex(substr(?2, instr(?2 || '/', '/') + 1)), ?3)
      AND EXISTS (
        SELECT 1 FROM uploads WHERE isFresh IN (0, 1) AND uploads.id = holds.upload AND uploads.gen = ?1)
      AND NOT EXISTS (SELECT 1 FROM ended WHERE ended.upload = holds.upload)
    ORDER BY upload, digest, size LIMIT ?4`,
};

interface ScanRow {
  readonly path: string;
  readonly number: number;
  readonly digest: string;
  readonly size: number;
  readonly name: string | null;
  /** JSON of the names of several contents that the row has in place of one. */
  readonly names?: string | null;
}

interface Place {
  readonly kind: Kind;
  readonly path: string;
  readonly number: number;
}

/**
 * What in the live generation has some contents: versions of paths, operations of open commits, uploads. There is no index for
 * that, since only people who erase something ask it: the rows are gone through, some in each call.
 */
export async function readHolders(
  ledger: Pick<Ledger, "live" | "sql">,
  { contents, after, turn }: RequestOf<ErasureCalls["holders"]> & { turn: () => Promise<unknown> },
): Promise<AnswerOf<ErasureCalls["holders"]>> {
  const { live } = ledger;
  if (!live) return { ok: false, reason: "no-such-branch" };
  const wanted = new Set(contents.map(contentName));
  const holders: ByteHolder[] = [];
  const told = new Set<string>();
  let place = placeOf(after);
  for (let looked = 0; place && looked < ROWS_A_CALL; looked += ROWS) {
    if (looked > 0) await turn();
    const { kind, path, number } = place;
    const limit = kind === "upload" ? ROWS_OF_UPLOADS : ROWS;
    const rows: ScanRow[] = ledger.sql.query(SCANS[kind], [live.gen, path, number, limit]);
    for (const row of rows) {
      for (const of of contentsOf(row)) if (wanted.has(contentName(of))) add(holderOf(kind, row, of));
    }
    place = nextPlace(kind, rows, limit);
  }
  return { ok: true, holders, next: place ? JSON.stringify(place) : null };

  /** An upload may hold a content by several lists. */
  function add(holder: ByteHolder): void {
    const name = JSON.stringify(holder);
    if (!told.has(name)) holders.push(holder);
    told.add(name);
  }
}

function placeOf(after: string | undefined): Place | undefined {
  return after === undefined ? { kind: "version", path: "", number: 0 } : JSON.parse(after);
}

function contentsOf({ digest, size, names }: ScanRow): ContentId[] {
  if (!names) return [{ digest, size }];
  const listed: string[] = JSON.parse(names);
  return listed.flatMap((name) => parseContentName(name) ?? []);
}

function nextPlace(kind: Kind, rows: readonly ScanRow[], limit: number): Place | undefined {
  const last = rows.at(-1);
  if (last && rows.length === limit) return { kind, path: last.path, number: last.number };
  const next = KINDS[KINDS.indexOf(kind) + 1];
  return next && { kind: next, path: "", number: 0 };
}

function holderOf(kind: Kind, { path, name }: ScanRow, of: ContentId): ByteHolder {
  if (kind === "upload") return { kind, upload: path.split("/")[0] ?? "", path: name, ...of };
  if (kind === "open-commit") return { kind, path, openCommit: name ?? "", ...of };
  return { kind, path, version: name ?? "", ...of };
}
