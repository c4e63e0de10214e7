import { createHash } from "node:crypto";
import {
  MAX_CHECKED_DATUMS,
  MAX_PAIRS,
  MAX_PLANNED_EXAMPLES,
  type PipelineCheck,
  type PlanGroup,
  type PlanReason,
} from "../../../protocol/pipeline-check.ts";
import type { PipelineSpec, ResolvedInput } from "../../../protocol/spec.ts";
import type { Context } from "../../app.ts";
import type { BranchApi } from "../../branch/contract/api.ts";
import { axisOf, combinations } from "../../core/cross-product.ts";
import { type DatumPart, datumId } from "../../core/datums.ts";
import { parseGlob } from "../../core/glob.ts";
import { ableNodes, workerCount } from "../../core/parallelism.ts";
import { checkSpec, resolveSpec } from "../../core/spec.ts";
import type { PlanAnswer } from "../../pipeline/contract.ts";
import { type Look, LookBudget, lookAfter, lookAtInput } from "./look.ts";

/** What a good specification would lead to now: its workers and its first datums, and as an update what runs again. Makes nothing. */
export async function previewPipeline(
  context: Pick<Context, "catalogue" | "branch" | "pipeline">,
  { spec, update }: { spec: PipelineSpec; update?: { readonly reprocess: boolean } },
): Promise<PipelineCheck> {
  const nodes = await context.catalogue.nodes.alive(Date.now());
  const { container } = spec.transform;
  const checked = checkSpec(spec);
  const inputs = checked.ok ? checked.inputs : [];
  const budget = new LookBudget({ inputs });
  const looks = await Promise.all(inputs.map((input) => look(context, input, budget)));
  const { total, atLeast } = totalOf(looks);
  const plan = update && (await planUpdate(context, { spec, ...update, inputs, looks, total, atLeast }));
  return {
    spec: resolveSpec(spec),
    workers: {
      count: workerCount({ parallelism: spec.parallelism_spec, container }, nodes),
      liveNodes: ableNodes(nodes, container).length,
    },
    inputs: inputs.map((input, index) => checkedInput(input, looks[index] as Look)),
    datums: {
      first: firstDatums(inputs, looks),
      total,
      atLeast,
      limit: inputs.length > 1 ? MAX_PAIRS : null,
    },
    ...(plan && { plan }),
  };
}

async function look(
  context: Pick<Context, "branch">,
  { repo, branch, glob, from }: ResolvedInput,
  budget: LookBudget,
): Promise<Look> {
  const parsed = parseGlob(glob);
  if (!parsed.ok) throw new Error(`the glob '${glob}' of a checked specification ${parsed.problem}`);
  const there = context.branch({ repo, branch });
  return from === null
    ? await lookAtInput(there, parsed.glob, budget)
    : await lookAfter(there, { glob: parsed.glob, from }, budget);
}

function checkedInput(input: ResolvedInput, look: Look): PipelineCheck["inputs"][number] {
  const { commit, hasData, matches, complete } = look;
  return { ...input, commit, hasData, matches, complete };
}

/** In the order of a job: the first input varies fastest. An empty input leaves no datums. */
function firstDatums(
  inputs: readonly ResolvedInput[],
  looks: readonly Look[],
): PipelineCheck["datums"]["first"] {
  if (inputs.length === 0) return [{ inputs: [] }];
  const axes = looks.map(({ paths }) => axisOf(paths.map((path) => ({ path }))));
  const first: PipelineCheck["datums"]["first"] = [];
  for (const parts of combinations(axes, null)) {
    first.push({
      inputs: parts.map(({ path }, index) => ({ name: inputs[index]?.name ?? "", path: `/${path}` })),
    });
    if (first.length === MAX_CHECKED_DATUMS) break;
  }
  return first;
}

/**
 * How many datums the first job would have, as the product of what the globs match. `total` is null if that is not known, because
 * an input was not looked at to its end; `atLeast` is how many there are in any case. An input that has nothing makes both zero.
 */
function totalOf(looks: readonly Look[]): { total: number | null; atLeast: number } {
  if (looks.some(({ matches, complete }) => complete && matches === 0)) return { total: 0, atLeast: 0 };
  const product = looks.reduce((sofar, { matches }) => sofar * matches, 1);
  const isExact = Number.isSafeInteger(product) && looks.every(({ complete }) => complete);
  const atLeast = Math.min(product, Number.MAX_SAFE_INTEGER);
  return { total: isExact ? product : null, atLeast };
}

/**
 * What an update would run again, why, and what it would keep. It asks what a job asks: a datum whose id has a result under
 * the salt of the next version keeps it. So it is exact, as of the newest commits, for all datums that are counted; how many
 * those are has a bound, because each directory is one call to its branch. Of more, the first ones are counted.
 */

/** Most datums that are counted one by one. */
const MAX_PLANNED = 5000;
/** Most directories, whose fingerprints are asked for. */
const MAX_FINGERPRINTS = 500;
const FINGERPRINTS_AT_ONCE = 8;
/** Ids in one call to the pipeline. */
const IDS_AT_ONCE = 500;

interface Planned {
  readonly spec: PipelineSpec;
  readonly reprocess: boolean;
  readonly inputs: readonly ResolvedInput[];
  readonly looks: readonly Look[];
  /** Of the first job; null: not known. */
  readonly total: number | null;
  /** How many it has in any case. */
  readonly atLeast: number;
}

/** Undefined if the pipeline has gone meanwhile. */
export async function planUpdate(
  context: Pick<Context, "branch" | "pipeline">,
  planned: Planned,
): Promise<PipelineCheck["plan"]> {
  const { spec, reprocess, total, atLeast } = planned;
  const pipeline = context.pipeline(spec.pipeline.name);
  const first = await pipeline.specification.plan({ spec, reprocess, ids: [] });
  if (!first.ok) return undefined;
  const { changes, runsAll } = first;
  const tally = new Tally();
  let some: DatumPart[][] = [];
  const ask = async (): Promise<boolean> => {
    if (some.length === 0) return true;
    const ids = some.map((parts) => datumId(parts, sha256Hex));
    const paths = some.map((parts) => parts.map(({ path }) => path));
    const answer = await pipeline.specification.plan({ spec, reprocess, ids, paths });
    if (!answer.ok) return false;
    tally.add(some, answer);
    some = [];
    return true;
  };
  // If all run for one reason and they are not all looked at, that is all there is to say.
  const isPart = total === null || total > MAX_PLANNED || directoriesOf(planned) > MAX_FINGERPRINTS;
  const elements = runsAll && isPart ? [] : await elementsOf(context, planned);
  for (const parts of pairsOf(planned.inputs, elements)) {
    some.push(parts);
    if (some.length < IDS_AT_ONCE) continue;
    if (!(await ask())) return undefined;
    if (tally.seen >= MAX_PLANNED) break;
  }
  if (!(await ask())) return undefined;
  const all = tally.seen === total;
  if (!runsAll) return { changes, run: tally.run, kept: tally.kept, counted: all, why: tally.groups() };
  const why = all ? tally.groups() : [{ why: anew(changes), count: total, first: [] }];
  return { changes, run: total ?? atLeast, kept: 0, counted: total !== null, why };
}

/** Why all run: what is computed changes, or that was asked for. */
function anew(changes: readonly string[]): PlanReason {
  const fields = changes.filter((field) => field.startsWith("transform."));
  return fields.length > 0 ? { reason: "version", fields } : { reason: "reprocess" };
}

/** How many datums run and how many keep their results, and those that run by their reasons. */
class Tally {
  run = 0;
  kept = 0;
  readonly #groups = new Map<string, PlanGroup & { count: number }>();

  get seen(): number {
    return this.run + this.kept;
  }

  add(datums: readonly DatumPart[][], { kept, why }: Extract<PlanAnswer, { ok: true }>): void {
    for (const [index, isKept] of kept.entries()) {
      this[isKept ? "kept" : "run"]++;
      const reason = why?.[index];
      const parts = datums[index];
      if (isKept || !reason || !parts) continue;
      const key = JSON.stringify(reason);
      const group = this.#groups.get(key) ?? { why: reason, count: 0, first: [] };
      this.#groups.set(key, group);
      group.count++;
      if (group.first.length === MAX_PLANNED_EXAMPLES) continue;
      group.first.push({ inputs: parts.map(({ input, path }) => ({ name: input, path: `/${path}` })) });
    }
  }

  /** The largest first; of equal size as they were met. */
  groups(): PlanGroup[] {
    return [...this.#groups.values()].sort((a, b) => b.count - a.count);
  }
}

type Element = Omit<DatumPart, "input">;

function directoriesOf({ looks }: Pick<Planned, "looks">): number {
  return looks.reduce((sum, { paths, files }) => sum + paths.length - files.size, 0);
}

/** What the globs match, with what is in it. If there are too many directories to ask about, the first of each input. */
async function elementsOf({ branch }: Pick<Context, "branch">, planned: Planned): Promise<Element[][]> {
  const { inputs, looks } = planned;
  const most =
    directoriesOf(planned) > MAX_FINGERPRINTS ? Math.floor(MAX_FINGERPRINTS / inputs.length) : Infinity;
  const elements: Element[][] = [];
  for (const [index, { repo, branch: name }] of inputs.entries()) {
    const look = looks[index];
    if (!look) continue;
    const paths = upToDirectories(look, most);
    elements.push(await elementsIn(branch({ repo, branch: name }), { ...look, paths }));
  }
  return elements;
}

/** The first paths, with at most so many directories among them. */
function upToDirectories({ paths, files }: Pick<Look, "paths" | "files">, most: number): readonly string[] {
  let directories = 0;
  const end = paths.findIndex((path) => !files.has(path) && ++directories > most);
  return end === -1 ? paths : paths.slice(0, end);
}

async function elementsIn(branch: BranchApi, { paths, files, at }: Look): Promise<Element[]> {
  const found: Element[] = [];
  for (let start = 0; start < paths.length; start += FINGERPRINTS_AT_ONCE) {
    const some = paths.slice(start, start + FINGERPRINTS_AT_ONCE).map(async (path) => {
      const content = files.get(path) ?? (at && (await branch.feed.fingerprint({ ...at, path })));
      return content ? [{ path, digest: content.digest, size: content.size }] : [];
    });
    found.push(...(await Promise.all(some)).flat());
  }
  return found;
}

function* pairsOf(
  inputs: readonly ResolvedInput[],
  elements: readonly (readonly Element[])[],
): Generator<DatumPart[]> {
  if (inputs.length === 0) yield [];
  if (inputs.length === 0 || elements.length < inputs.length) return;
  for (const pair of combinations(elements.map(axisOf), null)) {
    yield pair.map(({ path, digest, size }, index) => ({
      ...{ input: inputs[index]?.name ?? "", path, digest, size },
    }));
  }
}

function sha256Hex(text: string): string {
  return createHash("sha256").update(new TextEncoder().encode(text)).digest("hex");
}
