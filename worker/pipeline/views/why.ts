import { type BranchAddress, bucketName } from "../../../protocol/names.ts";
import type { PlanReason } from "../../../protocol/pipeline-check.ts";
import type { DatumPage, JobDatum, KnownWhy } from "../../../protocol/pipelines.ts";
import type { PipelineSpec } from "../../../protocol/spec.ts";
import { type CommitPosition, type ComparedPath, MAX_COMPARED } from "../../branch/contract/pipelines.ts";
import { datumKey } from "../../core/datums.ts";
import { checkSpec } from "../../core/spec.ts";
import type { PipelineContext } from "../context.ts";
import type { PlanAnswer, PlanCall } from "../contract.ts";
import type { Position } from "../inputs/source-store.ts";
import { type JobRow, oldestShown } from "../jobs/job-store.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Definition, InputRule } from "../lifecycle/definition.ts";
import { changedFields, specChange, transformFields } from "../lifecycle/spec-change.ts";

/**
 * Why a job ran its datums, worked out when somebody asks. A datum is run if nobody has a result of its id. So what is
 * told is why the job before had none: its paths were not there, they had another content, another version computed
 * something else, or it was left undone. What the paths had is asked of the branches, which keep it: one call for each
 * input of a page whose branch has moved. Nothing is written down for it while jobs run.
 */

/** Most datums of one page, since each may be asked about. */
export const MAX_EXPLAINED = MAX_COMPARED;
/** So many jobs back it is looked for who left a datum undone, and so many versions back for what changed. */
const JOBS_BACK = 20;
const VERSIONS_BACK = 50;

export async function explained(
  context: PipelineContext,
  { job, page }: { job: JobRow; page: DatumPage },
): Promise<DatumPage> {
  const { ledger, peers } = context;
  const definition = ledger.pipeline.versionOf(job);
  if (job.n < oldestShown(ledger.jobs, peers.keptJobs)) return withWhy(page, () => [{ reason: "not-kept" }]);
  const [previous] = ledger.jobs.before(job.id, { limit: 1 });
  const before = previous && ledger.pipeline.versionOf(previous);
  if (!previous || !before) {
    return withWhy(page, (datum) => [
      ranElsewhere(ledger, { definition, job, datum }) ?? isNew(datum.inputs),
    ]);
  }
  const span: Span = { definition, job, before, previous };
  const asked = page.datums.filter(
    (datum) => datum.state !== "skipped" && !wasThere(ledger, { previous, datum }),
  );
  const compared = await compareInputs(context, { ...span, datums: asked });
  return withWhy(page, (datum) => reasonsOf(ledger, { ...span, datum, compared }));
}

function withWhy(page: DatumPage, whyOf: (datum: JobDatum) => KnownWhy[]): DatumPage {
  return { ...page, datums: page.datums.map((datum) => ({ ...datum, why: whyOf(datum) })) };
}

interface Span {
  readonly definition: Definition;
  readonly job: JobRow;
  readonly before: Definition;
  readonly previous: JobRow;
}

function reasonsOf(
  ledger: Ledger,
  { datum, compared, ...span }: Span & { datum: JobDatum; compared: Compared },
): KnownWhy[] {
  const { definition, job, before, previous } = span;
  const elsewhere = ranElsewhere(ledger, { definition, job, datum });
  if (elsewhere) return [elsewhere];
  const inputs = wasThere(ledger, { previous, datum })
    ? []
    : datum.inputs.map(({ name, path }) => ({ name, path, ...compared(name, path) }));
  if (inputs.some(({ found }) => found === "not-kept")) return [{ reason: "not-kept" }];
  const absent = inputs.filter(({ found }) => found === "absent");
  if (absent.length > 0) {
    const fields = absent.flatMap(({ name }) => inputFields(span, name));
    const change = fields.length > 0 ? [versionChange(span, fields)] : [];
    return [isNew(absent), ...change];
  }
  const changed = inputs.flatMap(({ name, found }) =>
    typeof found === "object" && (found.changes.length > 0 || found.more) ? [{ name, ...found }] : [],
  );
  const reasons: KnownWhy[] = [];
  if (changed.length > 0) {
    const changes = changed.flatMap(({ name, changes }) =>
      changes.map((change) => ({ input: name, ...change })),
    );
    reasons.push({ reason: "changed", changes, more: changed.some(({ more }) => more) });
  }
  if (definition.salt !== before.salt) reasons.push(saltChange(ledger, span));
  return reasons.length > 0 ? reasons : [leftUndone(ledger, { id: datum.id, previous })];
}

/**
 * The job has the result of another one. Undefined: it ran the datum, or was to. One that was killed before it took over what
 * the jobs before left undone has no attempt of that, and a later one may have a result by now.
 */
function ranElsewhere(
  { results, datums, jobs }: Ledger,
  { definition, job, datum: { id, state } }: { definition: Definition; job: JobRow; datum: JobDatum },
): KnownWhy | undefined {
  if (state !== "skipped") return undefined;
  const salt = datums.saltAt(id, job.n) ?? definition.salt;
  const origin = results.origin({ id, salt });
  if (origin && origin.job > job.n && job.state === "killed") return undefined;
  const ran = origin && origin.job !== job.n ? jobs.get(origin.job) : undefined;
  return ran ? { reason: "result", job: ran.id } : { reason: "not-kept" };
}

/** A datum of the same id was there before this job: what it reads has not changed. */
function wasThere(
  { datums }: Ledger,
  { previous, datum: { id } }: { previous: JobRow; datum: JobDatum },
): boolean {
  return datums.saltAt(id, previous.n) !== undefined;
}

function isNew(inputs: readonly { readonly name: string; readonly path: string }[]): KnownWhy {
  return { reason: "new", inputs: inputs.map(({ name, path }) => ({ name, path })) };
}

/** What changed of an input that had nothing at a path: fields of the specification, if the branch had it. */
function inputFields({ definition, before }: Span, name: string): string[] {
  if (definition.revision === before.revision) return [];
  const [was, is] = [before.inputs, definition.inputs].map((inputs) =>
    inputs.find((one) => one.name === name),
  );
  if (!was || !is) return [`inputs.${name}`];
  const fields = ["repo", "branch", "glob", "from"] as const;
  return fields.filter((field) => was[field] !== is[field]).map((field) => `inputs.${name}.${field}`);
}

function versionChange(
  { before, definition }: Pick<Span, "before" | "definition">,
  fields: string[],
): KnownWhy {
  return { reason: "version", from: before.revision, to: definition.revision, fields: [...new Set(fields)] };
}

/** Results of before count no more: a field says something else, or that was asked for. */
function saltChange({ pipeline }: Ledger, { before, definition }: Span): KnownWhy {
  const fields = new Set<string>();
  let later: Definition = definition;
  const last = Math.max(before.revision, definition.revision - VERSIONS_BACK);
  for (let revision = definition.revision - 1; revision >= last; revision--) {
    const earlier = pipeline.definitionAt(revision);
    if (!earlier) break;
    for (const field of transformFields(earlier.spec, later.spec)) fields.add(field);
    later = earlier;
  }
  // Versions between the two may be kept no more, or be too many to look at: then what the ends differ in is told.
  if (later.revision > before.revision) {
    for (const field of transformFields(before.spec, later.spec)) fields.add(field);
  }
  if (fields.size === 0) return { reason: "reprocess", version: definition.revision };
  return versionChange({ before, definition }, [...fields].sort());
}

/** Nothing of it changed: an earlier job had it without a result in the end, or the result is gone. */
function leftUndone(
  { attempts, jobs }: Ledger,
  { id, previous }: { id: string; previous: JobRow },
): Extract<KnownWhy, { reason: "again" }> {
  const unknown = { reason: "again", job: null, state: null } as const;
  for (let n = previous.n; n > 0 && n > previous.n - JOBS_BACK; n--) {
    const attempt = attempts.get(n, id);
    if (!attempt || attempt.state === "skipped") continue;
    const { state } = attempt;
    const job = jobs.get(n);
    return job && (state === "failed" || state === "killed")
      ? { reason: "again", job: job.id, state }
      : unknown;
  }
  return unknown;
}

/** What became of a path of an input since the job before. */
type Found = "absent" | "same" | "not-kept" | Pick<ComparedPath, "changes" | "more">;
type Compared = (input: string, path: string) => { readonly found: Found };

interface Asked {
  readonly address: BranchAddress;
  readonly from: CommitPosition;
  readonly to: CommitPosition;
  readonly since: CommitPosition | null;
  readonly paths: Set<string>;
}

/** Asks the branches what became of the paths that these datums read. */
async function compareInputs(
  { peers }: PipelineContext,
  { datums, ...span }: Span & { datums: readonly JobDatum[] },
): Promise<Compared> {
  const calls = new Map<string, Asked>();
  for (const { name, path } of datums.flatMap(({ inputs }) => inputs)) {
    const moved = movedInput(span, { name, path });
    if (typeof moved === "string") continue;
    const key = callKey(moved);
    const asked = calls.get(key) ?? { ...moved, paths: new Set<string>() };
    asked.paths.add(path);
    calls.set(key, asked);
  }
  const found = new Map<string, Map<string, ComparedPath> | null>();
  await Promise.all(
    [...calls].map(async ([key, { address, paths, since, ...positions }]) => {
      const answer = await peers
        .branch(address)
        .feed.compare({ ...positions, ...(since && { since }), paths: [...paths] });
      found.set(key, answer && new Map(answer.paths.map((one) => [one.path, one])));
    }),
  );
  return (name, path) => {
    const moved = movedInput(span, { name, path });
    if (typeof moved === "string") return { found: moved };
    const compared = found.get(callKey(moved))?.get(path);
    if (!compared) return { found: "not-kept" };
    return { found: compared.was ? compared : "absent" };
  };
}

function callKey({ address, from, to, since }: Omit<Asked, "paths">): string {
  return JSON.stringify([bucketName(address), from, to, since]);
}

/** What to ask a branch about a path of an input; or what is known without asking. */
function movedInput(
  { definition, job, before, previous }: Span,
  { name, path }: { name: string; path: string },
): Omit<Asked, "paths"> | "absent" | "same" {
  const [was, is] = [before.inputs, definition.inputs].map((inputs) =>
    inputs.find((one) => one.name === name),
  );
  if (!was || !is || PLACE.some((field) => was[field] !== is[field]) || !was.rule.matches(path))
    return "absent";
  const [from, to] = [previous.positions[was.source], job.positions[is.source]];
  // Before the first commit, and after the branch was deleted, there is nothing.
  if (!from || !to || from.commit === null) return "absent";
  if (from.generation === to.generation && from.seq === to.seq) return "same";
  const { repo, branch, start: since } = is;
  return { address: { repo, branch }, from: placeOf(from), to: placeOf(to), since };
}

function placeOf({ generation, seq }: Position): CommitPosition {
  return { generation, seq };
}

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
