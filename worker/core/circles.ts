import { type BranchAddress, bucketName } from "../../protocol/names.ts";
import { ERRORS_BRANCH } from "../../protocol/spec.ts";

/** What one pipeline reads and writes, as names of buckets. */
export interface Flow {
  readonly pipeline: string;
  readonly inputs: readonly string[];
  readonly output: string;
  /** It is only about to: it may be refused. */
  readonly isProposed?: boolean;
}

/** A pipeline and the branches that it writes to. */
interface Writer {
  readonly name: string;
  readonly output: BranchAddress;
  /** Whether it writes to its errors branch, too. */
  readonly errors: boolean;
}

/** The branches that a pipeline writes to. */
export function outputsOf({ name, output, errors }: Writer): readonly BranchAddress[] {
  return errors ? [output, { repo: name, branch: ERRORS_BRANCH }] : [output];
}

/** What a pipeline reads goes to each branch that it writes to. */
export function flowsOf(
  writer: Writer & { readonly inputs: readonly BranchAddress[]; readonly isProposed?: boolean },
): Flow[] {
  const { name, inputs, isProposed } = writer;
  return outputsOf(writer).map((output) => ({
    ...{ pipeline: name, inputs: inputs.map(bucketName), output: bucketName(output) },
    ...(isProposed !== undefined && { isProposed }),
  }));
}

/** Two places between which data would go in a circle. */
export interface Between {
  /** An input. */
  readonly from: string;
  /** The output that it may not be made of. */
  readonly to: string;
}

/**
 * The pipelines that make the bucket `from` out of `to`, in the order in which data passes through them; undefined if
 * none do. A pipeline may be among the flows more than once, as it is and as it is about to be.
 */
export function wayBack(flows: readonly Flow[], { from, to }: Between): Flow[] | undefined {
  const makers = new Map<string, Flow[]>();
  for (const flow of flows) makers.set(flow.output, [...(makers.get(flow.output) ?? []), flow]);
  /** By bucket: the flow that takes it one step nearer to `from`. */
  const nearer = new Map<string, { readonly flow: Flow; readonly made: string } | undefined>([
    [from, undefined],
  ]);
  for (const made of nearer.keys()) {
    if (made === to) return stepsFrom(nearer, to);
    for (const flow of makers.get(made) ?? []) {
      for (const input of flow.inputs) if (!nearer.has(input)) nearer.set(input, { flow, made });
    }
  }
  return undefined;
}

function stepsFrom(
  nearer: ReadonlyMap<string, { readonly flow: Flow; readonly made: string } | undefined>,
  start: string,
): Flow[] {
  const steps: Flow[] = [];
  for (let step = nearer.get(start); step; step = nearer.get(step.made)) steps.push(step.flow);
  return steps;
}
