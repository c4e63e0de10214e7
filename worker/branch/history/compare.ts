import type { AnswerOf, RequestOf } from "../contract/answers.ts";
import type { PathDifference } from "../contract/history.ts";
import {
  type CommitPosition,
  type ComparedPath,
  type FeedCalls,
  MAX_COMPARED,
} from "../contract/pipelines.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { filesAt } from "../read/tree.ts";
import { isReadable } from "../retention/kept.ts";
import type { Position } from "../tree/commit-store.ts";
import { type PathRange, rangeOf } from "../tree/path-ranges.ts";
import { CHANGED_IN_ONE } from "./diff.ts";

/** Most changes of one path that are told; most paths and most rows below it that are looked at for them. */
const TOLD = 5;
const LOOKED_AT = 50;
const SCANNED = 2000;
/** Pages that are looked at for anything below a path. */
const MAX_PAGES = 10;
/** Paths compared before others get their turn. */
const PATHS_PER_TURN = 10;

/** Of (?1 gen, ?2 lower, ?3 upper, ?4 limit): the first lives below. */
export const LIVES = `
  SELECT path, born, died FROM files
  WHERE gen = ?1 AND path >= ?2 AND path < ?3 ORDER BY path, born LIMIT ?4`;

/** Of (?1 gen, ?2 JSON of paths, ?3 seq): what is at each, in their order. */
export const STATES = `
  SELECT asked.value AS path, lower(hex(there.digest)) AS digest, there.size AS size, there.born AS born
  FROM json_each(?2) AS asked
  LEFT JOIN files AS there ON there.gen = ?1 AND there.path = asked.value
    AND (there.died IS NULL OR there.died > ?3) AND there.born = (
      SELECT max(born) FROM files WHERE gen = ?1 AND path = asked.value AND born <= ?3)
  ORDER BY asked.key`;

interface Span {
  readonly from: Position;
  readonly to: Position;
  readonly since: Position | undefined;
}

/**
 * What became of some paths between two positions of any generations, and of what is below them. It looks at a bounded
 * number of rows for each path, however large a directory is: what it did not look at is said.
 */
export async function comparePaths(
  ledger: Ledger,
  { paths, turn, ...span }: Span & { paths: readonly string[]; turn: () => Promise<unknown> },
): Promise<AnswerOf<FeedCalls["compare"]>> {
  const isKnown = (position: Position): boolean =>
    ledger.exists && ledger.generations.get(position.gen) !== undefined && isReadable(ledger, position);
  const areKnown = (): boolean => isKnown(span.from) && isKnown(span.to);
  if (!areKnown()) return null;
  const compared: ComparedPath[] = [];
  for (const [index, path] of paths.slice(0, MAX_COMPARED).entries()) {
    if (index > 0 && index % PATHS_PER_TURN === 0) {
      await turn();
      // In the turn of others the history may have been given back.
      if (!areKnown()) return null;
    }
    compared.push(compareOne(ledger, { ...span, path }));
  }
  return { paths: compared };
}

function compareOne(ledger: Ledger, { path, ...span }: Span & { path: string }): ComparedPath {
  // Below the root is everything, and the root is no file.
  const range = rangeOf(path === "" ? "" : `${path}/`);
  const touched = touchedBelow(ledger, { ...span, range });
  const own = path === "" ? [] : [path];
  const changes = differences(ledger, { ...span, paths: [...own, ...touched.paths] });
  const [first] = changes;
  const was =
    changes.some(({ before }) => before !== null) ||
    (path !== "" && first?.path !== path && isThere(ledger, { ...span, path })) ||
    holds(ledger, { ...span, prefix: range.lower });
  return { path, was, changes: changes.slice(0, TOLD), more: touched.more || changes.length > TOLD };
}

/** Paths below that may differ: the first ones, and whether there may be more. */
function touchedBelow(
  { sql }: Ledger,
  { from, to, range: { lower, upper } }: Span & { range: PathRange },
): { paths: string[]; more: boolean } {
  // Of another life of the branch everything is another's.
  if (from.gen !== to.gen) return { paths: [], more: true };
  const { gen } = to;
  if (to.seq === from.seq + 1) {
    const rows = sql.query<{ path: string }>(CHANGED_IN_ONE, [gen, lower, LOOKED_AT, to.seq, upper]);
    return { paths: rows.map(({ path }) => path), more: rows.length === LOOKED_AT };
  }
  const rows = sql.query<{ path: string; born: number; died: number | null }>(LIVES, [
    gen,
    lower,
    upper,
    SCANNED,
  ]);
  const isBetween = (seq: number | null): boolean => seq !== null && seq > from.seq && seq <= to.seq;
  const changed = rows.filter(({ born, died }) => isBetween(born) || isBetween(died));
  const paths = [...new Set(changed.map(({ path }) => path))];
  return {
    paths: paths.slice(0, LOOKED_AT),
    more: rows.length === SCANNED || paths.length > LOOKED_AT,
  };
}

/** Of these paths, those that have another content; what was written before the input starts does not belong to it. */
function differences(
  ledger: Ledger,
  { from, to, since, paths }: Span & { paths: readonly string[] },
): PathDifference[] {
  const [before, after] = [
    statesAt(ledger, { at: from, since, paths }),
    statesAt(ledger, { at: to, since, paths }),
  ];
  return paths.flatMap((path, index): PathDifference[] => {
    const [was, is] = [before[index] ?? null, after[index] ?? null];
    const isSame = was?.digest === is?.digest && was?.size === is?.size;
    return isSame ? [] : [{ path, before: was, after: is }];
  });
}

function statesAt(
  { sql }: Ledger,
  { at: { gen, seq }, since, paths }: { at: Position; since: Position | undefined; paths: readonly string[] },
): PathDifference["before"][] {
  const rows = sql.query<{ digest: string; size: number | null; born: number }>(STATES, [
    gen,
    JSON.stringify(paths),
    seq,
  ]);
  return rows.map(({ digest, size, born }) =>
    size === null || !belongs({ gen, seq: born }, since) ? null : { digest, size },
  );
}

function belongs({ gen, seq }: Position, since: Position | undefined): boolean {
  if (since === undefined || gen > since.gen) return true;
  return gen === since.gen && seq > since.seq;
}

function isThere(ledger: Ledger, { from, since, path }: Span & { path: string }): boolean {
  return statesAt(ledger, { at: from, since, paths: [path] })[0] !== null;
}

/** Whether anything was below at `from`. If that takes too long to say, it counts as if something was. */
function holds(ledger: Ledger, { from, since, prefix }: Span & { prefix: string }): boolean {
  let after: string | null = "";
  for (let pages = 0; after !== null && pages < MAX_PAGES; pages++) {
    const page: AnswerOf<FeedCalls["filesAt"]> = filesAt(ledger, {
      position: from,
      since,
      page: { prefix, after, limit: 1 },
    });
    if (page.files.length > 0) return true;
    after = page.next;
  }
  return after !== null;
}

/** What a call asks, as positions. */
export function spanOf({ from, to, since }: Omit<RequestOf<FeedCalls["compare"]>, "paths">): Span {
  return { from: positionOf(from), to: positionOf(to), since: since && positionOf(since) };
}

/** A position as calls have it. */
export function positionOf({ generation: gen, seq }: CommitPosition): Position {
  return { gen, seq };
}
