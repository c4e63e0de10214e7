import { parseDuration } from "../../../protocol/duration.ts";
import type { BranchAddress } from "../../../protocol/names.ts";
import { ERRORS_BRANCH, type PipelineSpec, type ResolvedInput } from "../../../protocol/spec.ts";
import type { CommitPosition } from "../../branch/contract/pipelines.ts";
import { type Glob, parseGlob } from "../../core/glob.ts";
import { checkSpec } from "../../core/spec.ts";

/** An input, ready to be matched. Its index among the inputs by name is what rows call `input`. */
export interface InputRule extends ResolvedInput {
  /** Index among the pipeline's distinct branches. */
  readonly source: number;
  readonly rule: Glob;
  /** Only what was written after this belongs to the input: the place that its `from` names; null: all of the branch. */
  readonly start: CommitPosition | null;
}

/** The inputs that see the same files: those of one branch that start at one place in its history. */
export interface View {
  readonly source: number;
  readonly start: CommitPosition | null;
  /** Indices of the inputs. */
  readonly inputs: readonly number[];
}

/** Who submitted a version of a specification, and what it was read from. */
export interface Submission {
  /** The id of the key; null: it is not known. */
  readonly key: string | null;
  /** The text that the specification was read from; null: none was sent. */
  readonly text: string | null;
}

/** One version of a specification, as it was written down. */
export interface Revision {
  readonly revision: number;
  readonly spec: PipelineSpec;
  /** Results are good for every version that has the salt they were made under. */
  readonly salt: string;
  /** Where each input's `from` stands, in order of the inputs' names: written down once, with the version. */
  readonly starts: readonly (CommitPosition | null)[];
  /** Whether the key that submitted it was limited to repos. */
  readonly limited: boolean;
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
  /** What a job reads that reads its inputs whole, by source. */
  readonly views: readonly View[];
  /** How long a job may take from its turn on, in milliseconds; null: as long as it likes. */
  readonly jobTimeoutMs: number | null;
}

/** Resolves a spec that was checked before it came here. */
export function define(
  revision: Revision,
  { uid, createdAt }: { uid: string; createdAt: number },
): Definition {
  const { spec } = revision;
  const checked = checkSpec(spec);
  if (!checked.ok) throw new Error(`bad spec: ${checked.issues.map((issue) => issue.message).join("; ")}`);
  const { inputs, sources } = resolve(checked.inputs, revision.starts);
  const { name } = spec.pipeline;
  return {
    ...revision,
    name,
    uid,
    createdAt,
    output: { repo: name, branch: spec.outputBranch },
    inputs,
    sources,
    views: viewsOf(inputs),
    jobTimeoutMs: spec.jobTimeout === undefined ? null : (parseDuration(spec.jobTimeout) ?? null),
  };
}

function resolve(
  inputs: readonly ResolvedInput[],
  starts: Revision["starts"],
): Pick<Definition, "inputs" | "sources"> {
  const sources: BranchAddress[] = [];
  const rules = inputs.map((input, index): InputRule => {
    const glob = parseGlob(input.glob);
    if (!glob.ok) throw new Error(`bad glob '${input.glob}': ${glob.problem}`);
    let source = sources.findIndex(({ repo, branch }) => repo === input.repo && branch === input.branch);
    if (source === -1) source = sources.push({ repo: input.repo, branch: input.branch }) - 1;
    return { ...input, source, rule: glob.glob, start: starts[index] ?? null };
  });
  return { inputs: rules, sources };
}

function viewsOf(inputs: readonly InputRule[]): View[] {
  const views = new Map<string, View & { readonly inputs: number[] }>();
  for (const [index, { source, start }] of inputs.entries()) {
    const key = `${source} ${start?.generation} ${start?.seq}`;
    const view = views.get(key) ?? { source, start, inputs: [] };
    view.inputs.push(index);
    views.set(key, view);
  }
  return [...views.values()].sort((a, b) => a.source - b.source);
}

/** The branch that tells of a pipeline's bad datums, if it is claimed. */
export function errorsOf({ name }: Pick<Definition, "name">): BranchAddress {
  return { repo: name, branch: ERRORS_BRANCH };
}

/** The marker of a pipeline, which is there before anybody is told that it is made. It goes when the pipeline is deleted: the catalogue knows that one. */
export function pipelineMarker(pipeline: string): string {
  return `m/pipelines/${pipeline}`;
}
