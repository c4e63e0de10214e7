import type { ContentId } from "../../../protocol/content.ts";
import type { Tx } from "../../objects/transaction.ts";
import type {
  CommitRefused,
  CommitRequest,
  Committed,
  ConditionFailure,
  Operation,
  WriteCondition,
} from "../contract/files.ts";
import {
  type ChangedCondition,
  type ConditionsChanged,
  MAX_CHANGED_CONDITIONS,
} from "../contract/open-commits.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { type ConditionProgress, type FoundChanges, NONE_CHANGED } from "../open-commits/applying-store.ts";
import type { OpenCommit } from "../open-commits/open-commit-store.ts";
import type { Live } from "../tree/generation-store.ts";
import { pathOf } from "./admission.ts";

type LeftOut = NonNullable<Committed["leftOut"]>;

/** Why a write must not be done while `there` is at its path; undefined if it may be. */
export function failedCondition(
  { match, noneMatch }: WriteCondition,
  there: ContentId | undefined,
): ConditionFailure | undefined {
  if (match !== undefined) {
    if (!there) return "no-such-file";
    if (!isAmong(there, match)) return "condition-failed";
  }
  return noneMatch !== undefined && there && isAmong(there, noneMatch) ? "condition-failed" : undefined;
}

/**
 * The operations whose conditions hold, each by itself; `there` says what is at a path now. The others are left out if
 * the request wants that, else the first of them refuses all.
 */
export function holdingOperations(
  request: Pick<CommitRequest, "operations" | "onFailedCondition">,
  there: (path: string) => ContentId | undefined,
): { ok: true; operations: readonly Operation[]; leftOut: LeftOut } | CommitRefused {
  const { operations, onFailedCondition = "refuse" } = request;
  const holding: Operation[] = [];
  const leftOut: LeftOut[number][] = [];
  for (const operation of operations) {
    const path = pathOf(operation);
    const { condition } = operation;
    const reason = condition && failedCondition(condition, there(path));
    if (!reason) holding.push(operation);
    else if (onFailedCondition === "refuse") return { ok: false, reason, path };
    else leftOut.push({ path, reason });
  }
  return { ok: true, operations: holding, leftOut };
}

function isAmong(there: ContentId, asked: readonly ContentId[] | "any"): boolean {
  return asked === "any" || asked.some(({ digest, size }) => digest === there.digest && size === there.size);
}

/**
 * Conditions of writes into an open commit. A write is staged now and committed later, and the answer to it is given
 * now. So its condition is checked twice:
 *
 * 1. When it is staged, against what the open commit shows: its own operation on the path if it has one, else HEAD. If
 *    it fails, nothing is staged. If it was HEAD that it held for, the row of `staged` keeps which version HEAD had: the
 *    *precondition*.
 * 2. When the open commit is finished, in the transaction that commits it (of a large commit before its first slice is
 *    written, while other writers wait): HEAD must still have that version. Otherwise somebody else has written there
 *    meanwhile, and heard that it was done: the finish is refused, with the paths, and the open commit stays open.
 *
 * The first precondition stays: later conditions on the path are about the open commit's own operation, which stands or
 * falls with the first one. A write without a condition takes it away, since it says to overwrite whatever is there.
 */

/** A version of a path at HEAD: the commit that wrote it, or that there is nothing. */
type Precondition = number;
const NOTHING: Precondition = 0;

/** Of (?1 gen, ?2 open commit, ?3 path, ?4 last path): those after a path whose version at HEAD is not the precondition. */
const CHANGED = `
  SELECT staged.path AS path, precondition, there.born AS born
  FROM staged INDEXED BY staged_preconditions
  LEFT JOIN files AS there INDEXED BY head
    ON there.gen = ?1 AND there.path = staged.path AND there.died IS +NULL
  WHERE openCommit = ?2 AND precondition IS NOT NULL AND staged.path > ?3 AND staged.path <= ?4
    AND precondition <> ifnull(there.born, 0)
  ORDER BY staged.path`;

/** Of (?1 open commit, ?2 path, ?3 limit): the last of the next paths with preconditions; null if there are none. */
const NEXT_PRECONDITIONS = `
  SELECT max(path) AS last FROM (
    SELECT path FROM staged INDEXED BY staged_preconditions
    WHERE openCommit = ?1 AND precondition IS NOT NULL AND path > ?2 ORDER BY path LIMIT ?3
  )`;

/** What holds of a request, and the preconditions that its conditions leave, by path. */
interface Held {
  readonly ok: true;
  readonly operations: readonly Operation[];
  readonly leftOut: NonNullable<Committed["leftOut"]>;
  readonly preconditions: ReadonlyMap<string, Precondition>;
}

/** Checks the conditions of a request for an open commit against what that shows, and says which preconditions they leave. */
export function takePreconditions(
  ledger: Ledger,
  {
    live,
    openCommit,
    request,
  }: {
    live: Live;
    openCommit: OpenCommit;
    request: Pick<CommitRequest, "operations" | "onFailedCondition">;
  },
): Held | CommitRefused {
  const seen = new Map<string, Precondition | null>();
  const holding = holdingOperations(request, (path) => {
    const staged = ledger.staged.find(openCommit.number, path);
    const head = staged ? undefined : ledger.presentFile(live, path);
    seen.set(path, staged ? staged.precondition : (head?.born ?? NOTHING));
    return staged ? (staged.state ?? undefined) : head;
  });
  if (!holding.ok) return holding;
  const preconditions = new Map<string, Precondition>();
  for (const operation of holding.operations) {
    const version = operation.condition && seen.get(pathOf(operation));
    if (version !== undefined && version !== null) preconditions.set(pathOf(operation), version);
  }
  return { ...holding, preconditions };
}

/** Why preconditions do not hold any more; undefined if all of them do. For one that fits a transaction. */
export function changedConditions(
  _: Tx,
  { sql }: Ledger,
  { gen, number }: OpenCommit,
): ConditionsChanged | undefined {
  const last = sql.query<{ last: string | null }>(NEXT_PRECONDITIONS, [number, "", -1])[0]?.last ?? null;
  if (last === null) return undefined;
  const changes = changesWithin(sql, { gen, openCommit: number, after: "", last });
  return refusalOf(withMore(NONE_CHANGED, changes));
}

/**
 * Looks at some more conditions of an open commit. Returns how far it came, `hold` if none is left and all of them do, or
 * why they do not.
 */
export function checkConditions(
  { sql }: Ledger,
  {
    gen,
    openCommit,
    progress: { comparedTo: after, changed },
    limit,
  }: { gen: number; openCommit: number; progress: ConditionProgress; limit: number },
): ConditionProgress | "hold" | ConditionsChanged {
  const last =
    sql.query<{ last: string | null }>(NEXT_PRECONDITIONS, [openCommit, after, limit])[0]?.last ?? null;
  if (last === null) return refusalOf(changed) ?? "hold";
  const more = changesWithin(sql, { gen, openCommit, after, last });
  return { comparedTo: last, changed: withMore(changed, more) };
}

function changesWithin(
  sql: Ledger["sql"],
  { gen, openCommit, after, last }: { gen: number; openCommit: number; after: string; last: string },
): ChangedCondition[] {
  const rows = sql.query<{ path: string; precondition: Precondition; born: number | null }>(CHANGED, [
    gen,
    openCommit,
    after,
    last,
  ]);
  return rows.map(({ path, precondition, born }) => ({
    path,
    change: precondition === NOTHING ? "added" : born === null ? "deleted" : "changed",
  }));
}

function withMore({ changes, others }: FoundChanges, more: readonly ChangedCondition[]): FoundChanges {
  const all = [...changes, ...more];
  const named = all.slice(0, MAX_CHANGED_CONDITIONS);
  return { changes: named, others: others + all.length - named.length };
}

function refusalOf(found: FoundChanges): ConditionsChanged | undefined {
  return found.changes.length === 0 ? undefined : { ok: false, reason: "conditions-changed", ...found };
}
