import type { Refused, RequestOf } from "../contract/answers.ts";
import type { CommitEntry, CommitLog, HistoryCalls } from "../contract/history.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { pageOf } from "../read/page.ts";
import { isKept, type KeptStores, wasGivenBack } from "../retention/kept.ts";
import { IS_NAMED } from "../retention/name-store.ts";
import { annotationOfCommit } from "../tree/annotation.ts";
import type { Live } from "../tree/generation-store.ts";
import { summaries } from "./summary.ts";

type NotThere = Refused<"no-such-branch" | "no-such-version">;

/** Commits of the live generation, the newest first, those before `after`. */
export function listCommits(
  ledger: Ledger,
  { after, limit, summary = false }: RequestOf<HistoryCalls["list"]>,
): CommitLog | NotThere {
  const { live } = ledger;
  if (!live) return { ok: false, reason: "no-such-branch" };
  const before = after === undefined ? live.head.seq + 1 : beforeOf(ledger, { live, id: after });
  if (before === undefined) return { ok: false, reason: "no-such-version" };
  const { page, last } = pageOf(entriesBefore(ledger, { live, before, limit: limit + 1 }), limit);
  const summaryOf = summary ? summaries(ledger, { gen: live.gen, entries: page }) : undefined;
  const commits = page.map(({ seq, ...entry }) => ({
    ...entry,
    ...(summaryOf && { summary: summaryOf(seq) }),
  }));
  return { ok: true, commits, next: last?.id ?? null };
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
  if (!entry) return { ok: false, reason: "no-such-version" };
  const { seq: _, ...shown } = entry;
  return { ok: true, ...shown };
}

/** The number that all older commits are below of, also of a commit that was given back since it was listed. */
function beforeOf(ledger: Ledger, { live, id }: { live: Live; id: string }): number | undefined {
  const seq = seqOf(ledger, { live, id });
  if (seq !== undefined || !wasGivenBack(ledger, id)) return seq;
  return ledger.commits.seqUpTo(live.gen, id) + (ledger.commits.byId(id) ? 0 : 1);
}

/** The columns of an entry, of a commit that the query has as `named`. Its parent stays for the counts, if for nothing else. */
const ENTRY = `
  SELECT named.seq AS seq, named.id AS id, named.createdAt AS createdAt, named.births - ifnull(parent.births, 0) AS written,
    named.deaths - ifnull(parent.deaths, 0) AS ended, named.origin AS origin, authors.key AS "key", named.annotation AS annotation,
    parent.id AS parent`;
const PARENT = `
  LEFT JOIN commits AS parent ON parent.gen = named.gen AND parent.seq = named.seq - 1
  LEFT JOIN authors ON authors.number = named.author`;

/** Of (?1 gen, ?2 first seq, ?3 seq to end before, ?4 limit): commits of a range. */
const RANGE = `${ENTRY} FROM commits AS named ${PARENT}
  WHERE named.gen = ?1 AND named.seq >= ?2 AND named.seq < ?3 ORDER BY named.seq DESC LIMIT ?4`;

/** The same of what is not marked yet: those that something names. */
const NAMED_RANGE = `${ENTRY} FROM commits AS named ${PARENT}
  WHERE named.gen = ?1 AND named.seq >= ?2 AND named.seq < ?3 AND ${IS_NAMED} ORDER BY named.seq DESC LIMIT ?4`;

/** The same of what is marked. */
const HELD = `${ENTRY} FROM held CROSS JOIN commits AS named ON named.gen = held.gen AND named.seq = held.seq ${PARENT}
  WHERE held.gen = ?1 AND held.seq >= ?2 AND held.seq < ?3 AND ${IS_NAMED} ORDER BY held.seq DESC LIMIT ?4`;

interface LogRow {
  readonly seq: number;
  readonly id: string;
  readonly createdAt: number;
  readonly written: number;
  readonly ended: number;
  readonly parent: string | null;
  readonly origin: string | null;
  readonly key: string | null;
  readonly annotation: string | null;
}

/** An entry with the number of its commit. */
type NumberedEntry = CommitEntry & { readonly seq: number };

/** Those of the range that is kept, then those below it that are retained by name. */
function entriesBefore(
  { sql, horizons, imports }: Ledger,
  { live: { gen, uid }, before, limit }: { live: Live; before: number; limit: number },
): NumberedEntry[] {
  const { horizon, marked } = horizons.get(gen);
  const rows: LogRow[] = [];
  for (const [text, first, end] of [
    [RANGE, horizon, before],
    [NAMED_RANGE, marked, Math.min(before, horizon)],
    [HELD, 0, Math.min(before, marked)],
  ] as const) {
    const room = limit - rows.length;
    if (room > 0 && first < end) rows.push(...sql.query<LogRow>(text, [gen, first, end, room]));
  }
  const importedTo = rows.length === 0 ? 0 : (imports.of(uid)?.head ?? 0);
  return rows.map(({ seq, id, parent, createdAt, origin, written, ended, ...row }) => {
    const annotation = annotationOfCommit(row);
    return {
      ...{ seq, id, parent, createdAt, origin, changes: { written, ended } },
      ...(annotation && { annotation }),
      ...(seq <= importedTo && { imported: true }),
    };
  });
}

/** The number of a commit of the live generation; undefined if none of that id is kept. */
export function seqOf(ledger: KeptStores, { live, id }: { live: Live; id: string }): number | undefined {
  const commit = ledger.commits.byId(id);
  const isThere = commit?.gen === live.gen && commit.seq <= live.head.seq && isKept(ledger, commit);
  return isThere ? commit.seq : undefined;
}
