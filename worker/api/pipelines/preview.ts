import { MAX_CHECKED_DATUMS, MAX_PAIRS, type PipelineCheck } from "../../../protocol/pipeline-check.ts";
import { NODE_TTL_MS } from "../../../protocol/runner.ts";
import type { PipelineSpec, ResolvedInput } from "../../../protocol/spec.ts";
import type { Context } from "../../app.ts";
import { axisOf, combinations } from "../../core/cross-product.ts";
import { parseGlob } from "../../core/glob.ts";
import { ableNodes, workerCount } from "../../core/parallelism.ts";
import { checkSpec, resolveSpec } from "../../core/spec.ts";
import { type Look, LookBudget, lookAfter, lookAtInput } from "./look.ts";
import { planUpdate } from "./plan.ts";

/** What a good specification would lead to now: its workers and its first datums, and as an update what runs again. Makes nothing. */
export async function previewPipeline(
  context: Pick<Context, "catalogue" | "branch" | "pipeline">,
  { spec, update }: { spec: PipelineSpec; update?: { readonly reprocess: boolean } },
): Promise<PipelineCheck> {
  const nodes = await context.catalogue.nodes.seenSince(Date.now() - NODE_TTL_MS);
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
