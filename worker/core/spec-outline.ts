import { DEFAULT_BRANCH, Name } from "../../protocol/names.ts";
import { COMMIT_ID_PATTERN, MAX_INPUTS } from "../../protocol/spec.ts";

/**
 * What could be read of a specification, whatever is wrong with the rest of it. The rules that need more than one field
 * look at this, so that their problems are reported together with those of single fields. A part that is missing or wrong
 * is undefined; the schema reports its own problem.
 */
export interface SpecOutline {
  readonly pipeline: string | undefined;
  readonly outputBranch: string | undefined;
  /** One for each entry of `inputs`, in order. */
  readonly inputs: readonly InputOutline[];
  readonly egress: EgressOutline;
  /** Whether jobs may succeed without failed datums, which the branch `errors` then tells of. */
  readonly skips: boolean;
}

interface EgressOutline {
  readonly url: string | undefined;
  readonly hasEndpoint: boolean;
  readonly hasSecret: boolean;
}

export interface InputOutline {
  /** The input's name, its own or its repo's. */
  readonly name: string | undefined;
  /** The field of the specification that gives the name. */
  readonly namedBy: "name" | "repo.name";
  readonly repo: string | undefined;
  readonly branch: string | undefined;
  readonly glob: string | undefined;
  /** The commit that it starts after. */
  readonly from: FromOutline;
}

interface FromOutline {
  readonly repo: string | undefined;
  /** Has the form of a commit's id. */
  readonly id: string | undefined;
}

/** Reads what it can of any value. */
export function outlineOf(value: unknown): SpecOutline {
  const { pipeline, outputBranch, inputs, egress, onDatumFailure } = fieldsOf(value);
  return {
    pipeline: nameOf(fieldsOf(pipeline).name),
    outputBranch: branchOf(outputBranch),
    inputs: Array.isArray(inputs) ? inputs.slice(0, MAX_INPUTS).map(inputOf) : [],
    egress: egressOf(egress),
    skips: onDatumFailure === "skip",
  };
}

function egressOf(value: unknown): EgressOutline {
  const { URL: url, endpoint, secret } = fieldsOf(value);
  return {
    url: typeof url === "string" ? url : undefined,
    hasEndpoint: endpoint !== undefined,
    hasSecret: secret !== undefined,
  };
}

function inputOf(value: unknown): InputOutline {
  const { name, repo, branch, glob, from } = fieldsOf(value);
  const repoName = nameOf(fieldsOf(repo).name);
  return {
    name: name === undefined ? repoName : nameOf(name),
    namedBy: name === undefined ? "repo.name" : "name",
    repo: repoName,
    branch: branchOf(branch),
    glob: typeof glob === "string" && glob !== "" ? glob : undefined,
    from: fromOf(from),
  };
}

function fromOf(value: unknown): FromOutline {
  const { repo, ID } = fieldsOf(value);
  return {
    repo: nameOf(fieldsOf(repo).name),
    id: typeof ID === "string" && COMMIT_ID_PATTERN.test(ID) ? ID : undefined,
  };
}

function branchOf(value: unknown): string | undefined {
  return value === undefined ? DEFAULT_BRANCH : nameOf(value);
}

function nameOf(value: unknown): string | undefined {
  const parsed = Name.safeParse(value);
  return parsed.success ? parsed.data : undefined;
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}
