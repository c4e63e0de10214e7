import type { CommitEntry, CommitLog, Refused } from "../contract.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Live } from "../tree/generation-store.ts";
import { noteOfCommit } from "../tree/note.ts";

type LogStores = Pick<Ledger, "live" | "commits" | "sql">;
type NotThere = Refused<"no-such-branch" | "no-such-version">;

/** Commits of the live generation, the newest first, those before `after`. */
export function listCommits(
  ledger: LogStores,
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
  ledger: LogStores,
  { commit }: { commit: string },
): ({ ok: true } & CommitEntry) | NotThere {
  const { live } = ledger;
  if (!live) return { ok: false, reason: "no-such-branch" };
  const seq = seqOf(ledger, { live, id: commit });
  const entry = seq && entriesBefore(ledger, { live, before: seq + 1, limit: 1 })[0];
  return entry ? { ok: true, ...entry } : { ok: false, reason: "no-such-version" };
}

interface LogRow {
  readonly id: string;
  readonly createdAt: number;
  readonly births: number;
  readonly deaths: number;
  readonly origin: string | null;
  readonly key: string | null;
  readonly said: string | null;
}

function entriesBefore(
  { sql }: Pick<Ledger, "sql">,
  { live, before, limit }: { live: Live; before: number; limit: number },
): CommitEntry[] {
  // One row more: what a commit changed is told by the counts of the one before it.
  const rows = sql.all<LogRow>`
    SELECT id, created_at AS createdAt, births, deaths, origin, key_id AS "key", note AS said
    FROM commits LEFT JOIN authors ON authors.number = commits.author
    WHERE gen = ${live.gen} AND seq < ${before} ORDER BY seq DESC LIMIT ${limit + 1}`;
  return rows.slice(0, limit).map(({ id, createdAt, births, deaths, origin, ...row }, index) => {
    const parent = rows[index + 1];
    const changes = { written: births - (parent?.births ?? 0), ended: deaths - (parent?.deaths ?? 0) };
    const note = noteOfCommit(row);
    return { id, parent: parent?.id ?? null, createdAt, origin, changes, ...(note && { note }) };
  });
}

/** The number of a commit of the live generation; undefined if it has none of that id. */
export function seqOf(
  ledger: Pick<Ledger, "commits">,
  { live, id }: { live: Live; id: string },
): number | undefined {
  const commit = ledger.commits.byId(id);
  const isThere = commit?.kind === "commit" && commit.gen === live.gen && commit.seq <= live.head.seq;
  return isThere ? commit.seq : undefined;
}
