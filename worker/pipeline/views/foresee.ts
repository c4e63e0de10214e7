import type { PlanReason } from "../../../protocol/pipeline-check.ts";
import type { PipelineSpec } from "../../../protocol/spec.ts";
import { datumKey } from "../../core/datums.ts";
import { checkSpec } from "../../core/spec.ts";
import type { PlanAnswer, PlanCall } from "../contract.ts";
import type { JobRow } from "../jobs/job-store.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Definition, InputRule } from "../lifecycle/definition.ts";
import { changedFields, specChange, transformFields } from "../lifecycle/spec-change.ts";
import { leftUndone } from "./why.ts";

/**
 * What an update would come to for these datums. It asks what a job asks: a datum whose id has a result under the salt of the
 * next version keeps it. Of one that has none, the newest job tells why: it had no such datum, or with another content, or
 * without a result. Undefined: there is no pipeline any more.
 */
export function foreseeUpdate(
  ledger: Ledger,
  { spec, reprocess, ids, paths }: PlanCall,
): PlanAnswer | undefined {
  const definition = ledger.pipeline.definition();
  if (!definition) return undefined;
  const change = specChange(definition.spec, spec);
  const runsAll = reprocess || change.transform;
  const has = ids.map((id) => ledger.results.has(id, definition.salt));
  const answer = {
    ...({ ok: true, changes: changedFields(definition.spec, spec), runsAll } as const),
    kept: has.map((one) => one && !runsAll),
  };
  if (!paths) return answer;
  const fields = transformFields(definition.spec, spec);
  const anew: PlanReason = fields.length > 0 ? { reason: "version", fields } : { reason: "reprocess" };
  const changed = changedInputs(definition, spec);
  const newest = ledger.jobs.newest();
  const why = ids.map((id, index): PlanReason | null => {
    if (has[index]) return runsAll ? anew : null;
    const datum = { id, paths: paths[index] ?? [] };
    return withoutResult(ledger, { ...datum, newest, changed: changed(datum.paths) });
  });
  return { ...answer, why };
}

interface Unknown {
  readonly id: string;
  readonly paths: readonly string[];
  readonly newest: JobRow | undefined;
  /** Fields of the update without which there is no such datum. */
  readonly changed: readonly string[];
}

function withoutResult(ledger: Ledger, { id, paths, newest, changed }: Unknown): PlanReason {
  if (changed.length > 0) return { reason: "inputs", fields: [...changed] };
  const there = newest && ledger.datums.at(datumKey(paths), newest.n);
  if (!newest || !there) return { reason: "new" };
  if (there.id !== id) return { reason: "changed" };
  const attempt = ledger.attempts.get(newest.n, id);
  if (attempt?.finishedAt === null) {
    // What an ended job has left is called off in the background.
    if (newest.finishedAt !== null) return { reason: "again", job: newest.id, state: "killed" };
    return { reason: "unfinished", job: newest.id };
  }
  return leftUndone(ledger, { id, previous: newest });
}

/** By the paths of a datum: the fields of inputs that the update changes, if there was no such datum before for them. */
function changedInputs(
  { inputs: before }: Definition,
  spec: PipelineSpec,
): (paths: readonly string[]) => string[] {
  const checked = checkSpec(spec);
  const after = checked.ok ? checked.inputs : [];
  const gone = before.filter(({ name }) => after.every((input) => input.name !== name));
  const fixed = [
    ...gone.map(({ name }) => `inputs.${name}`),
    ...after.flatMap((input) =>
      placeFields(
        before.find(({ name }) => name === input.name),
        input,
      ),
    ),
  ];
  if (fixed.length > 0) return () => fixed;
  return (paths) =>
    after.flatMap(({ name }, index) => {
      const was = before.find((input) => input.name === name);
      return was && !was.rule.matches(paths[index] ?? "") ? [`inputs.${name}.glob`] : [];
    });
}

const PLACE = ["repo", "branch", "from"] as const;

/** What says which files belong to an input, whatever the glob. */
function placeFields(
  was: InputRule | undefined,
  is: Pick<InputRule, "name" | (typeof PLACE)[number]>,
): string[] {
  if (!was) return [`inputs.${is.name}`];
  return PLACE.filter((field) => was[field] !== is[field]).map((field) => `inputs.${is.name}.${field}`);
}
