import type { ContentId } from "../../../protocol/content.ts";
import type {
  CommitRefused,
  CommitRequest,
  Committed,
  ConditionFailure,
  Operation,
  WriteCondition,
} from "../contract/files.ts";
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
