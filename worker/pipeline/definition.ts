import { parseDuration } from "../../protocol/duration.ts";
import type { BranchAddress } from "../../protocol/names.ts";
import type { PipelineSpec, ResolvedInput } from "../../protocol/spec.ts";
import { type Glob, parseGlob } from "../core/glob.ts";
import { checkSpec } from "../core/spec.ts";

/** An input, ready to be matched. Its index among the inputs by name is what rows call `input`. */
export interface InputRule extends ResolvedInput {
  /** Index among the pipeline's distinct branches. */
  readonly source: number;
  readonly rule: Glob;
}

/** One version of a specification, as it was written down. */
export interface Revision {
  readonly revision: number;
  readonly spec: PipelineSpec;
  /** Results are good for every version that has the salt they were made under. */
  readonly salt: string;
}

/** What a pipeline is, from one update to the next. */
export interface Definition extends Revision {
  readonly name: string;
  readonly uid: string;
  readonly createdAt: number;
  readonly output: BranchAddress;
  readonly inputs: readonly InputRule[];
  /** The distinct branches of the inputs. */
  readonly sources: readonly BranchAddress[];
  /** How long a job may take from its turn on, in milliseconds; null: as long as it likes. */
  readonly jobTimeoutMs: number | null;
}

/** Resolves a spec that was checked before it came here. */
export function define({
  uid,
  createdAt,
  revision,
}: {
  uid: string;
  createdAt: number;
  revision: Revision;
}): Definition {
  const { spec } = revision;
  const checked = checkSpec(spec);
  if (!checked.ok) throw new Error(`bad spec: ${checked.issues.map((issue) => issue.message).join("; ")}`);
  const { inputs, sources } = resolve(checked.inputs);
  const { name } = spec.pipeline;
  return {
    ...revision,
    name,
    uid,
    createdAt,
    output: { repo: name, branch: spec.outputBranch },
    inputs,
    sources,
    jobTimeoutMs: spec.jobTimeout === undefined ? null : (parseDuration(spec.jobTimeout) ?? null),
  };
}

function resolve(inputs: readonly ResolvedInput[]): Pick<Definition, "inputs" | "sources"> {
  const sources: BranchAddress[] = [];
  const rules = inputs.map((input): InputRule => {
    const glob = parseGlob(input.glob);
    if (!glob.ok) throw new Error(`bad glob '${input.glob}': ${glob.problem}`);
    let source = sources.findIndex(({ repo, branch }) => repo === input.repo && branch === input.branch);
    if (source === -1) source = sources.push({ repo: input.repo, branch: input.branch }) - 1;
    return { ...input, source, rule: glob.glob };
  });
  return { inputs: rules, sources };
}
