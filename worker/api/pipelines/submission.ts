import type { Issue } from "../../../protocol/errors.ts";
import { type BranchAddress, bucketName, holdsSeparator, SEPARATOR_FAULT } from "../../../protocol/names.ts";
import { ERRORS_BRANCH, PipelineSpec } from "../../../protocol/spec.ts";
import { ruleIssues } from "../../core/spec.ts";
import { outlineOf, type SpecOutline } from "../../core/spec-outline.ts";
import { ApiError, apiError } from "../answer/errors.ts";
import type { ApiRequest } from "../request/api-request.ts";
import { issuesOf, problems } from "../request/issues.ts";
import { cycleIssues, missingRepoIssues, unknownCommitIssues } from "./graph.ts";
import { otherField, otherValue } from "./pachyderm.ts";
import { submittedBody } from "./submitted-text.ts";

/** Largest specification, as JSON in UTF-8: a Pipeline object keeps it in one row of at most 2 MB. */
const MAX_SPEC_BYTES = 1_000_000;

/** A submitted specification, and the problems that the specification alone shows. */
export interface Submission {
  /** Undefined if it is not of the right form. */
  readonly spec: PipelineSpec | undefined;
  readonly outline: SpecOutline;
  readonly issues: readonly Issue[];
}

/** What a submission is to become: a pipeline, or the next version of one. */
export type Purpose = "create" | "update";

/** Why a specification that is good in itself can't exist beside what is there. */
interface Obstacle {
  readonly code: "AlreadyExists" | "NoSuchPipeline" | "InvalidSpec";
  readonly issue: Issue;
}

/**
 * The specification of a submission. Throws all of its problems at once. An obstacle (`obstacleTo`) is reported here only
 * together with other problems. An obstacle alone is left to the objects: only they can tell it without a race.
 */
export async function submittedSpec(asked: ApiRequest, purpose: Purpose): Promise<PipelineSpec> {
  const { spec, outline, issues: own } = readSubmission((await submittedBody(asked)).spec);
  const around = { catalogue: asked.context.catalogue, scope: asked.caller.scope };
  const others = await Promise.all([
    missingRepoIssues(around, outline),
    cycleIssues(around, outline),
    unknownCommitIssues(asked.context, outline),
  ]);
  const issues = [...own, ...(purpose === "create" ? newNameIssues(outline) : []), ...others.flat()];
  if (spec && issues.length === 0) return spec;
  const obstacle = await obstacleTo(purpose, { asked, outline });
  throw badSpec(obstacle ? [...issues, obstacle.issue] : issues);
}

function newNameIssues({
  pipeline = "",
  outputBranch = "",
}: Pick<SpecOutline, "pipeline" | "outputBranch">): Issue[] {
  const named = { "pipeline.name": pipeline, outputBranch };
  return Object.entries(named).flatMap(([path, name]) =>
    holdsSeparator(name) ? [{ path, message: SEPARATOR_FAULT }] : [],
  );
}

/** What stands in the way of a submission now; undefined if nothing does. */
export async function obstacleTo(
  purpose: Purpose,
  {
    asked: { context },
    outline: { pipeline, outputBranch, skips },
  }: {
    asked: Pick<ApiRequest, "context">;
    outline: Pick<SpecOutline, "pipeline" | "outputBranch" | "skips">;
  },
): Promise<Obstacle | undefined> {
  if (pipeline === undefined) return undefined;
  const found = await context.pipeline(pipeline).lifecycle.inspect();
  if (purpose === "update") {
    if (!found.ok) return { code: "NoSuchPipeline", issue: noPipeline(pipeline) };
    const same = outputBranch === undefined || outputBranch === found.pipeline.outputBranch;
    if (!same) return { code: "InvalidSpec", issue: OTHER_OUTPUT };
    const needsErrors = skips && found.pipeline.errorsBranch === undefined;
    return needsErrors ? await errorsObstacle(context, pipeline) : undefined;
  }
  if (found.ok) return { code: "AlreadyExists", issue: nameTaken(pipeline) };
  if (outputBranch === undefined) return undefined;
  const output = { repo: pipeline, branch: outputBranch };
  const branch = await context.branch(output).lifecycle.inspect();
  if (branch.ok) return { code: "AlreadyExists", issue: outputTaken(output) };
  return skips ? await errorsObstacle(context, pipeline) : undefined;
}

/** The branch that is to tell of failed datums is there already. */
async function errorsObstacle(
  context: Pick<ApiRequest["context"], "branch">,
  pipeline: string,
): Promise<Obstacle | undefined> {
  const branch = await context.branch({ repo: pipeline, branch: ERRORS_BRANCH }).lifecycle.inspect();
  return branch.ok ? { code: "AlreadyExists", issue: errorsTaken(pipeline) } : undefined;
}

export function nameTaken(pipeline: string): Issue {
  const message = `there is a pipeline '${pipeline}' already: update it, delete it first, or choose another name`;
  return { path: "pipeline.name", message };
}

export function outputTaken(output: BranchAddress): Issue {
  const message = `the branch '${bucketName(output)}' exists and is not this pipeline's: choose another outputBranch or pipeline.name`;
  return { path: "outputBranch", message };
}

export function errorsTaken(pipeline: string): Issue {
  const bucket = bucketName({ repo: pipeline, branch: ERRORS_BRANCH });
  const message = `with 'skip' the pipeline tells of failed datums in the branch '${bucket}', which exists and is not this pipeline's: delete that branch, or leave the field out`;
  return { path: "onDatumFailure", message };
}

function noPipeline(pipeline: string): Issue {
  const message = `there is no pipeline '${pipeline}' to update: 'sluice pipeline list' shows those there are`;
  return { path: "pipeline.name", message };
}

/** A commit was there when the specification was checked, and has gone since. */
export const COMMIT_GONE: Issue = {
  path: "inputs",
  message: "a commit to start after is not there any more: look at the branches, then submit again",
};

/** An update can't move a pipeline to another output branch. */
export const OTHER_OUTPUT: Issue = {
  path: "outputBranch",
  message: "can't be changed by an update: keep it, or make another pipeline",
};

/** The error for a good specification that can't exist beside what is there. */
export function obstructed({ code, issue }: Obstacle): ApiError {
  return new ApiError(code, `The pipeline is refused: ${issue.path}: ${issue.message}`, {
    issues: [issue],
  });
}

/** Reads a submission. Its problems are reported later, together with those of the rules that need the catalogue. */
export function readSubmission(value: unknown): Submission {
  const parsed = PipelineSpec.safeParse(value);
  const outline = outlineOf(value);
  return { spec: parsed.data, outline, issues: [...formIssues(value, parsed), ...ruleIssues(outline)] };
}

function formIssues(value: unknown, parsed: ReturnType<typeof PipelineSpec.safeParse>): Issue[] {
  if (Array.isArray(value)) return [LIST_OF_SPECS];
  if (parsed.success) return sizeIssues(parsed.data);
  const valueAt = (path: readonly PropertyKey[], held: unknown) => otherValue(path, { held, spec: value });
  return issuesOf(parsed.error, PipelineSpec, { submitted: value, field: otherField, value: valueAt });
}

const LIST_OF_SPECS: Issue = {
  path: "",
  message: "a specification is one object, not a list: submit the pipelines of a list one by one",
};

function sizeIssues(spec: PipelineSpec): Issue[] {
  const bytes = new TextEncoder().encode(JSON.stringify(spec)).length;
  if (bytes <= MAX_SPEC_BYTES) return [];
  const message = `the specification has ${bytes} bytes, and may have ${MAX_SPEC_BYTES}: put long scripts into the image or into an input`;
  return [{ path: "", message }];
}

/** The error for a specification with these problems. */
export function badSpec(issues: readonly Issue[]): ApiError {
  return apiError.InvalidSpec(`The pipeline specification has ${problems(issues)}.`, { issues });
}
