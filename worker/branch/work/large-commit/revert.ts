import type { Tx } from "../../../objects/transaction.ts";
import type { Moment } from "../../context.ts";
import type { Committed } from "../../contract/files.ts";
import { differences } from "../../history/diff.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import type { Applying, RevertProgress } from "../../open-commits/applying-store.ts";
import { stageBatch } from "../../staging/stage.ts";
import { withTags } from "../../tree/attributes.ts";
import type { FileState } from "../../tree/file-store.ts";
import { writeOrBegin } from "../../write/finish.ts";

/**
 * A commit that goes back to an earlier one, of any size. What it changes is worked out in slices: each path at which
 * something was born or died since the target is compared with what the target has, and what differs is staged in an
 * open commit that nobody fills. So it costs what changed since and not what there is. Then it is a commit like any
 * other: in one transaction, or applied in slices if it is large.
 *
 * The gate is closed from the first transaction on, so HEAD stays where it was: a write is either in it, and reverted, or
 * comes after.
 */

/** Most rows that one slice goes through: what a transaction of some tens of milliseconds takes. */
const ROWS = 500;

/** Of (?1 gen, ?2 seq and ?3 path to begin behind, ?4 last seq, ?5 limit): what was born, in the order of the index. */
const BORN_AFTER = `
  SELECT born AS seq, path FROM files INDEXED BY by_born
  WHERE gen = ?1 AND (born, path) > (?2, ?3) AND born <= ?4 ORDER BY born, path LIMIT ?5`;

/** The same of what died. */
const DIED_AFTER = `
  SELECT died AS seq, path FROM files INDEXED BY by_died
  WHERE gen = ?1 AND died IS NOT NULL AND (died, path) > (?2, ?3) AND died <= ?4 ORDER BY died, path LIMIT ?5`;

/** A job's commit has no conditions, and neither has this. */
const NO_CONDITIONS: ReadonlyMap<string, number> = new Map();

/** Stages some more of what a revert changes. Returns whether it went through all of it. */
export function stageRevert(
  tx: Tx,
  ledger: Ledger,
  { applying, now }: { applying: Applying; now: number },
): boolean {
  const { gen } = applying;
  const progress = ledger.applying.revert();
  if (!progress) throw new Error("a revert has no row of its own");
  const { walk, target, head } = progress;
  if (walk === "through") return true;
  const rows = touchedSince(ledger, { gen, progress });
  const paths = [...new Set(rows.map(({ path }) => path))];
  const changes = differences(ledger, { gen, older: head, newer: target, paths });
  const states = new Map(
    changes.map(({ path, after }) => [path, after ? stateAt(ledger, { gen, head, target, path }) : null]),
  );
  const openCommit = ledger.openCommits.get(applying.openCommit);
  const staged = stageBatch(tx, ledger, { openCommit, states, preconditions: NO_CONDITIONS });
  if (!staged.ok) throw new Error(`what a commit has is not there: ${JSON.stringify(staged)}`);
  ledger.openCommits.written(openCommit, { added: staged.added, now });
  const last = rows.at(-1);
  if (last && rows.length === ROWS) ledger.applying.saveRevert({ walk, ...last });
  else if (walk === "births") ledger.applying.saveRevert({ walk: "deaths", seq: target + 1, path: "" });
  else ledger.applying.saveRevert({ walk: "through", seq: head, path: "" });
  return false;
}

/** What the target has at a path. If HEAD has other tags there and nothing else, its bytes stay as old as they are. */
function stateAt(
  { files }: Ledger,
  { gen, head, target, path }: { gen: number; head: number; target: number; path: string },
): FileState | null {
  const now = files.at({ gen, seq: head }, path);
  const then = files.at({ gen, seq: target }, path);
  if (!then) return null;
  const { digest, size, attributes } = then;
  const isTagging =
    now?.digest === digest && now.size === size && withTags(now.attributes, []) === withTags(attributes, []);
  const bytesAt = isTagging ? files.versionAt({ gen, seq: now.born }, path).writtenAt : null;
  return { digest, size, attributes, bytesAt };
}

/** Writes what is staged, or lets it be applied. If nothing differs, there is no commit. */
export function concludeRevert(
  tx: Tx,
  ledger: Ledger,
  { applying, moment }: { applying: Applying; moment: Moment },
): Committed | { readonly ok: false } {
  const live = ledger.generations.live();
  const openCommit = ledger.openCommits.get(applying.openCommit);
  if (live?.gen !== applying.gen) throw new Error(`generation ${applying.gen} is gone while it is reverted`);
  ledger.applying.clear();
  const { now } = moment;
  if (ledger.isFull(openCommit.operations)) {
    const refusal = { ok: false, reason: "branch-full" } as const;
    ledger.openCommits.reopen(openCommit.number, { refusal, now });
    return refusal;
  }
  const answer = writeOrBegin(tx, ledger, { live, openCommit, moment, annotation: openCommit.annotation });
  if (!answer.ok && answer.reason !== "applying")
    throw new Error(`a revert is refused: ${JSON.stringify(answer)}`);
  return answer;
}

function touchedSince(
  { sql }: Ledger,
  { gen, progress: { walk, seq, path, head } }: { gen: number; progress: RevertProgress },
): { seq: number; path: string }[] {
  return sql.query(walk === "births" ? BORN_AFTER : DIED_AFTER, [gen, seq, path, head, ROWS]);
}
