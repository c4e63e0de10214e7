import { comparePaths } from "../../core/path-order.ts";
import type { Refused } from "../contract/answers.ts";
import type { CommitDiff, PathDifference } from "../contract/history.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Live } from "../tree/generation-store.ts";
import { pageOf } from "./page.ts";

interface StagedPath {
  readonly path: string;
  readonly digest: string | null;
  readonly size: number | null;
  readonly attributes: string | null;
}

/**
 * What an open commit would change if it were finished now, by path: what it has staged, compared with HEAD. What it has
 * staged and is the same there is left out, so a page may be short.
 */
export function openCommitChanges(
  ledger: Ledger,
  { openCommit: id, after, limit }: { openCommit: string; after: string; limit: number },
): CommitDiff | Refused<"no-such-open-commit"> {
  const { live, openCommits } = ledger;
  const openCommit = live ? openCommits.findOpen(id, live.gen) : undefined;
  if (!live || !openCommit) return { ok: false, reason: "no-such-open-commit" };
  // Puts and deletions are apart in the index: of each as many as the page could need.
  const staged = (gone: 0 | 1) => ledger.sql.all<StagedPath>`
    SELECT path, lower(hex(digest)) AS digest, size, attributes FROM staged
    WHERE openCommit = ${openCommit.number} AND gone = ${gone} AND path > ${after} ORDER BY path LIMIT ${limit + 1}`;
  const all = [...staged(0), ...staged(1).map((row) => ({ ...row, digest: null }))];
  const rows = all.toSorted((one, other) => comparePaths(one.path, other.path));
  const { page, last } = pageOf(rows, limit);
  const changes = page.flatMap((row) => differenceOf(ledger, live, row));
  return { ok: true, changes, next: last?.path ?? null };
}

function differenceOf(
  ledger: Ledger,
  live: Live,
  { path, digest, size, attributes }: StagedPath,
): PathDifference[] {
  const head = ledger.presentFile(live, path);
  const before = head ? { digest: head.digest, size: head.size } : null;
  const after = digest === null ? null : { digest, size: size ?? 0 };
  const isSameFile = before?.digest === after?.digest && before?.size === after?.size;
  return isSameFile && (head?.attributes ?? null) === attributes ? [] : [{ path, before, after }];
}
