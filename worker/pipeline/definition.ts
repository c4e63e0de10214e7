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

/** What does not change while a pipeline lives. */
export interface Definition {
  readonly name: string;
  readonly uid: string;
  readonly salt: string;
  readonly createdAt: number;
  readonly spec: PipelineSpec;
  readonly output: BranchAddress;
  readonly inputs: readonly InputRule[];
  /** The distinct branches of the inputs. */
  readonly sources: readonly BranchAddress[];
}

/** Resolves a spec that was checked before it came here. */
export function define({
  uid,
  salt,
  createdAt,
  spec,
}: {
  uid: string;
  salt: string;
  createdAt: number;
  spec: PipelineSpec;
}): Definition {
  const checked = checkSpec(spec);
  if (!checked.ok) throw new Error(`bad spec: ${checked.issues.map((issue) => issue.message).join("; ")}`);
  const sources: BranchAddress[] = [];
  const inputs = checked.inputs.map((input): InputRule => {
    const glob = parseGlob(input.glob);
    if (!glob.ok) throw new Error(`bad glob '${input.glob}': ${glob.problem}`);
    let source = sources.findIndex(({ repo, branch }) => repo === input.repo && branch === input.branch);
    if (source === -1) source = sources.push({ repo: input.repo, branch: input.branch }) - 1;
    return { ...input, source, rule: glob.glob };
  });
  const { name } = spec.pipeline;
  return {
    name,
    uid,
    salt,
    createdAt,
    spec,
    output: { repo: name, branch: spec.outputBranch },
    inputs,
    sources,
  };
}
