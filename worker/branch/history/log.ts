import type {
  CommitDiff,
  CommitEntry,
  CommitLog,
  DiffCommits,
  PathDifference,
  Refused,
} from "../contract.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Live } from "../tree/generation-store.ts";
import { justAfter } from "../tree/path-ranges.ts";
import { CHANGED_IN_ONE, CHANGED_IN_SPAN, DIFFERENCES, differencesOf, EVERY_PATH } from "./diff-queries.ts";

/** Changes between two commits that are sorted anew for each page; beyond so many it goes from path to path. */
const SORTED_CHANGES = 50_000;
/** Rounds of one page: a span in which little differs costs no more than so many. */
const MAX_ROUNDS = 5;

type NotThere = Refused<"no-such-branch" | "no-such-version">;

/** Commits of the live generation, the newest first, those before `after`. */
export function listCommits(
  ledger: Ledger,
  { after, limit }: { after?: string; limit: number },
): CommitLog | NotThere {
  const { live } = ledger;
  if (!live) return { ok: false, reason: "no-such-branch" };
  const before = after === undefined ? live.head.seq + 1 : seqOf(ledger, { live, id: after });
  if (before === undefined) return { ok: false, reason: "no-such-version" };
  const commits = entriesBefore(ledger, { live, before, limit: limit + 1 });
  const page = commits.slice(0, limit);
  return { ok: true, commits: page, next: commits.length > limit ? (page.at(-1)?.id ?? null) : null };
}

/** One commit of the live generation. */
export function inspectCommit(
  ledger: Ledger,
  { commit }: { commit: string },
): ({ ok: true } & CommitEntry) | NotThere {
  const { live } = ledger;
  if (!live) return { ok: false, reason: "no-such-branch" };
  const seq = seqOf(ledger, { live, id: commit });
  const entry = seq && entriesBefore(ledger, { live, before: seq + 1, limit: 1 })[0];
  return entry ? { ok: true, ...entry } : { ok: false, reason: "no-such-version" };
}

/**
 * What differs between two commits of the live generation, by path: births and deaths in between, reduced to what
 * each path was and is. A commit and its parent, and spans with few changes, cost what changed; a span with many, the
 * paths it passes.
 */
export function diffCommits(ledger: Ledger, { from, to, after, limit }: DiffCommits): CommitDiff | NotThere {
  const { live } = ledger;
  if (!live) return { ok: false, reason: "no-such-branch" };
  const newer = seqOf(ledger, { live, id: to });
  const older = from === null ? 0 : seqOf(ledger, { live, id: from });
  if (newer === undefined || older === undefined) return { ok: false, reason: "no-such-version" };
  const span = { gen: live.gen, older, newer };
  const found: PathDifference[] = [];
  let next: string | null = after;
  for (let rounds = 0; next !== null && found.length < limit && rounds < MAX_ROUNDS; rounds++) {
    const paths = touchedPaths(ledger, { ...span, after: next, limit: limit - found.length });
    found.push(...differences(ledger, { ...span, paths: paths.paths }));
    next = paths.next;
  }
  return { ok: true, changes: found, next };
}

interface Span {
  readonly gen: number;
  readonly older: number;
  readonly newer: number;
}

/** Paths at which something was written or deleted in a span, or may have been, in order. */
function touchedPaths(
  ledger: Ledger,
  { gen, older, newer, after, limit }: Span & { after: string; limit: number },
): { paths: string[]; next: string | null } {
  const [first, last] = older < newer ? [older, newer] : [newer, older];
  if (first === last) return { paths: [], next: null };
  const lower = after === "" ? "" : justAfter(after);
  const { text, values } = pathQuery(ledger, { gen, older: first, newer: last });
  const rows = ledger.sql
    .query<{ path: string }>(text, [gen, lower, limit + 1, ...values])
    .map(({ path }) => path);
  const paths = rows.slice(0, limit);
  return { paths, next: rows.length > limit ? (paths.at(-1) ?? null) : null };
}

function pathQuery(ledger: Ledger, { gen, older, newer }: Span): { text: string; values: number[] } {
  if (newer === older + 1) return { text: CHANGED_IN_ONE, values: [newer] };
  const [before, after] = [older, newer].map((seq) => ledger.commits.at({ gen, seq }));
  const births = (after?.births ?? 0) - (before?.births ?? 0);
  const deaths = (after?.deaths ?? 0) - (before?.deaths ?? 0);
  if (births + deaths > SORTED_CHANGES) return { text: EVERY_PATH, values: [] };
  return { text: CHANGED_IN_SPAN, values: [older, newer] };
}

function differences(
  ledger: Ledger,
  { gen, older, newer, paths }: Span & { paths: readonly string[] },
): PathDifference[] {
  return differencesOf(ledger.sql.query(DIFFERENCES, [gen, older, newer, JSON.stringify(paths)]));
}

interface LogRow {
  readonly id: string;
  readonly createdAt: number;
  readonly births: number;
  readonly deaths: number;
  readonly origin: string | null;
}

function entriesBefore(
  ledger: Ledger,
  { live, before, limit }: { live: Live; before: number; limit: number },
): CommitEntry[] {
  // One row more: what a commit changed is told by the counts of the one before it.
  const rows = ledger.sql.all<LogRow>`
    SELECT id, created_at AS createdAt, births, deaths, origin FROM commits
    WHERE gen = ${live.gen} AND seq < ${before} ORDER BY seq DESC LIMIT ${limit + 1}`;
  return rows.slice(0, limit).map(({ id, createdAt, births, deaths, origin }, index) => {
    const parent = rows[index + 1];
    const changes = { written: births - (parent?.births ?? 0), ended: deaths - (parent?.deaths ?? 0) };
    return { id, parent: parent?.id ?? null, createdAt, origin, changes };
  });
}

function seqOf(ledger: Ledger, { live, id }: { live: Live; id: string }): number | undefined {
  const commit = ledger.commits.byId(id);
  const isThere = commit?.kind === "commit" && commit.gen === live.gen && commit.seq <= live.head.seq;
  return isThere ? commit.seq : undefined;
}
