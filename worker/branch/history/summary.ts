import type { ChangeSummary } from "../../../protocol/commits.ts";
import { comparePaths } from "../../core/path-order.ts";
import type { CommitEntry } from "../contract/history.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { PLACEHOLDER } from "../tree/file-store.ts";

/**
 * Of (?1 gen, ?2 JSON of numbers of commits, ?3 the kind that is no file): what each wrote, and what it replaced or deleted, as
 * JSON: rows, files, their bytes, the first path, and of what it wrote how many files were there before.
 */
const SUMMARIES = `
  SELECT asked.value AS seq,
    (SELECT json_array(count(*), total(f.kind < ?3), total(f.size), min(iif(f.kind < ?3, f.path, NULL)),
        total(f.kind < ?3 AND EXISTS (
          SELECT 1 FROM files AS other INDEXED BY by_died
          WHERE other.gen = ?1 AND other.died = asked.value AND other.path = f.path
        )))
      FROM files AS f INDEXED BY by_born WHERE f.gen = ?1 AND f.born = asked.value) AS written,
    (SELECT json_array(count(*), total(f.kind < ?3), total(f.size), min(iif(f.kind < ?3, f.path, NULL)))
      FROM files AS f INDEXED BY by_died WHERE f.gen = ?1 AND f.died = asked.value) AS ended
  FROM json_each(?2) AS asked`;

/** Most changes that one page adds up: some ten milliseconds. */
const MAX_CHANGES = 10_000;

interface SummaryRow {
  readonly seq: number;
  readonly written: string;
  readonly ended: string;
}

type Sum = readonly [rows: number, files: number, bytes: number, path: string | null, replaced?: number];

/**
 * What commits of a page changed, by their numbers. Null: with those before it in the page it is too much to add up, or rows
 * that it ended were given back, so that a sum would be of a part.
 */
export function summaries(
  { sql }: Ledger,
  {
    gen,
    entries,
  }: { gen: number; entries: readonly (Pick<CommitEntry, "changes"> & { readonly seq: number })[] },
): (seq: number) => ChangeSummary | null {
  let left = MAX_CHANGES;
  const asked = entries.filter(({ changes: { written, ended } }) => {
    const isWithin = written + ended <= left;
    if (isWithin) left -= written + ended;
    return isWithin;
  });
  const changes = new Map(asked.map((entry) => [entry.seq, entry.changes]));
  const rows = sql.query<SummaryRow>(SUMMARIES, [gen, JSON.stringify([...changes.keys()]), PLACEHOLDER]);
  const found = new Map<number, ChangeSummary>();
  for (const { seq, ...row } of rows) {
    const [births, written, bytes, firstWritten, replaced = 0]: Sum = JSON.parse(row.written);
    const [deaths, ended, endedBytes, firstEnded]: Sum = JSON.parse(row.ended);
    const told = changes.get(seq);
    if (births !== told?.written || deaths !== told.ended) continue;
    const [path = null] = [firstWritten, firstEnded].filter((path) => path !== null).sort(comparePaths);
    const counts = { added: written - replaced, changed: replaced, deleted: ended - replaced };
    found.set(seq, { path, ...counts, bytes: bytes - endedBytes });
  }
  return (seq) => found.get(seq) ?? null;
}
