import { z } from "zod";
import type { Issue } from "../../../protocol/errors.ts";
import { type BranchAddress, bucketName, holdsSeparator, SEPARATOR_FAULT } from "../../../protocol/names.ts";
import { ERRORS_BRANCH, PipelineSpec } from "../../../protocol/spec.ts";
import { readSpecText, specTextFault } from "../../../protocol/spec-text.ts";
import type { Context } from "../../app.ts";
import type { Catalogue } from "../../catalogue/catalogue.ts";
import { flowsOf, outputsOf, wayBack } from "../../core/circles.ts";
import { nearest } from "../../core/nearest.ts";
import { type KeyScope, permits } from "../../core/permissions.ts";
import { ruleIssues, sortedJson, writesTo } from "../../core/spec.ts";
import { type InputOutline, outlineOf, type SpecOutline } from "../../core/spec-outline.ts";
import type { Circle } from "../../pipeline/contract.ts";
import { ApiError, apiError } from "../answer/errors.ts";
import { type ApiRequest, readQuery } from "../request/api-request.ts";
import { checked, invalidField, issuesOf, problems } from "../request/issues.ts";
import { otherField, otherValue } from "./pachyderm.ts";

/** Largest specification, as JSON in UTF-8: a Pipeline object keeps it in one row of at most 2 MB. */
const MAX_SPEC_BYTES = 1_000_000;

/** A submitted specification, and the problems that the specification alone shows. */
interface Submission {
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

const NOT_MADE = { ok: false } as const;

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
  // On Cloudflare a call makes the object, here for good: one that is only looked at is not called unless somebody made it.
  const mayBe = purpose === "update" || (await context.catalogue.pipelines.isKnown(pipeline));
  const found = mayBe ? await context.pipeline(pipeline).lifecycle.inspect() : NOT_MADE;
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

const Flag = z.enum(["true", "false"]).default("false");

/** How a specification is submitted. */
export const SubmitQuery = z
  .strictObject({
    dryRun: Flag,
    update: Flag,
    reprocess: Flag,
    /** The body has the specification as `spec`, and as `text` what it was read from. */
    text: Flag,
  })
  .refine(({ update, reprocess }) => update === "true" || reprocess === "false", {
    path: ["reprocess"],
    error: "is for an update: send update=true with it",
  });

const WithText = z.strictObject({ spec: z.unknown(), text: z.string() });

/** What a submission brings: the specification, which nobody looked at yet, and the text that it was read from. */
export async function submittedBody(asked: ApiRequest): Promise<{ spec: unknown; text?: string }> {
  const body = await asked.json();
  return readQuery(asked, SubmitQuery).text === "true" ? checked(WithText, body) : { spec: body };
}

/**
 * Throws InvalidRequest unless a text comes to a specification that was checked: who reads it later must not take something
 * else for what ran. It is read by the code that the command line reads it by.
 */
export function checkText(text: string, spec: PipelineSpec): void {
  const fault = specTextFault(text);
  if (fault !== undefined) throw invalidField("text", `${fault}: send the specification without it`);
  const read = readSpecText(text);
  if (!read.ok) {
    const why = read.fault === "not-yaml" ? read.why : `another document begins at line ${read.line}`;
    throw invalidField(
      "text",
      `is neither JSON nor YAML (${why}): send the text that the specification was read from`,
    );
  }
  const parsed = PipelineSpec.safeParse(read.value);
  if (parsed.success && sortedJson(parsed.data) === sortedJson(spec)) return;
  throw invalidField(
    "text",
    "comes to another specification than 'spec': send the text that it was read from",
  );
}

/** What the rules over many pipelines and repos look at, and for whom: a key hears only of its own repos. */
interface Surroundings {
  readonly catalogue: Catalogue;
  readonly scope: KeyScope;
}

/** So many missing repos get a hint with a similar name, each looked for among so many rows. */
const MAX_HINTS = 5;
const MAX_ROWS = 1000;

/** Inputs whose repo does not exist. Their branch need not exist yet. */
async function missingRepoIssues(around: Surroundings, outline: SpecOutline): Promise<Issue[]> {
  // Its own output as an input is a rule of the spec itself (core/spec.ts).
  const wanted = outline.inputs.map(({ repo, branch }) =>
    repo !== undefined && branch !== undefined && writesTo(outline, { repo, branch }) ? undefined : repo,
  );
  const messages = await missingRepos(around, new Set(wanted.filter((repo) => repo !== undefined)));
  return wanted.flatMap((repo, index) => {
    const message = repo === undefined ? undefined : messages.get(repo);
    return message === undefined ? [] : [{ path: `inputs[${index}].repo.name`, message }];
  });
}

/** The missing ones of the repos, with what to do about each. */
async function missingRepos(
  around: Surroundings,
  wanted: ReadonlySet<string>,
): Promise<ReadonlyMap<string, string>> {
  const repos = [...wanted];
  const there = await Promise.all(repos.map((repo) => around.catalogue.branches.hasRepo(repo)));
  const messages = repos
    .filter((_, index) => !there[index])
    .map(async (repo, index) => {
      const known = index < MAX_HINTS ? await reposAround(around, repo) : [];
      return [repo, missingRepo(repo, nearest(repo, known))] as const;
    });
  return new Map(await Promise.all(messages));
}

function missingRepo(repo: string, near: string | undefined): string {
  const remedy =
    near === undefined ? `create a bucket such as 'master.${repo}' first` : `did you mean '${near}'?`;
  return `there is no repo '${repo}': ${remedy}`;
}

/** Repos that the key may see: the first ones, and if there are many, also those that begin like this one. */
async function reposAround({ catalogue, scope }: Surroundings, repo: string): Promise<Set<string>> {
  const query = { limit: MAX_ROWS, repos: scope.repos ?? undefined };
  const rows = await catalogue.branches.list(query);
  if (rows.length === MAX_ROWS) {
    const alike = await catalogue.branches.list({ ...query, after: { repo: repo.slice(0, 2), branch: "" } });
    rows.push(...alike);
  }
  return new Set(rows.map((row) => row.repo));
}

/** Inputs through which the pipeline's own output would come back to it by way of other pipelines. */
async function cycleIssues(around: Surroundings, outline: SpecOutline): Promise<Issue[]> {
  const { pipeline, outputBranch, inputs, skips } = outline;
  if (pipeline === undefined || outputBranch === undefined) return [];
  const output = { repo: pipeline, branch: outputBranch };
  const outputs = outputsOf({ name: pipeline, output, errors: skips }).map(bucketName);
  const rows = await around.catalogue.pipelines.list();
  const flows = rows.flatMap((row) => flowsOf(row));
  return inputs.flatMap(({ repo, branch }, index) => {
    if (repo === undefined || branch === undefined) return [];
    const start = bucketName({ repo, branch });
    if (outputs.includes(start)) return [];
    for (const own of outputs) {
      const way = wayBack(flows, { from: start, to: own });
      if (!way) continue;
      const through = way.map((flow) => flow.pipeline);
      const message = circleMessage({ start, own, through, scope: around.scope });
      return [{ path: inputPath(index), message }];
    }
    return [];
  });
}

/** The same as the Pipeline object found it, which alone can tell it without a race. */
export function circleIssue(spec: PipelineSpec, circle: Circle, scope: KeyScope): Issue {
  const start = bucketName(circle.input);
  const own = bucketName(circle.made);
  const index = outlineOf(spec).inputs.findIndex(
    ({ repo, branch }) => repo === circle.input.repo && branch === circle.input.branch,
  );
  const message = circleMessage({ start, own, through: circle.through, scope });
  const hint = " (as a submission of this very moment has it: if that is refused, too, submit again)";
  return { path: inputPath(index), message: circle.isProposed ? message + hint : message };
}

function inputPath(index: number): string {
  return `inputs[${index}].repo.name`;
}

interface FoundCircle {
  readonly start: string;
  readonly own: string;
  readonly through: readonly string[];
  readonly scope: KeyScope;
}

function circleMessage({ start, own, through, scope }: FoundCircle): string {
  if (through.length === 0) return `the pipeline would read its own output, '${own}': read another repo`;
  return `pipelines can't go in a circle: '${start}' is made from '${own}', the output of this pipeline, by ${named(through, scope)}`;
}

/** A pipeline's repo has its name. A key that may not read the repo does not learn the name either. */
function named(pipelines: readonly string[], scope: KeyScope): string {
  const names = pipelines.map((name) =>
    permits(scope, { permission: "read", repo: name }) ? `'${name}'` : "another pipeline",
  );
  return names.join(" and then ");
}

/** Inputs that are to start after a commit that their branch does not have. */
async function unknownCommitIssues(
  context: Pick<Context, "branch">,
  { inputs }: SpecOutline,
): Promise<Issue[]> {
  const found = inputs.map(async (input, index): Promise<Issue[]> => {
    const message = await unknownCommit(context, input);
    return message === undefined ? [] : [{ path: `inputs[${index}].from.ID`, message }];
  });
  return (await Promise.all(found)).flat();
}

async function unknownCommit(
  context: Pick<Context, "branch">,
  { repo, branch, from }: InputOutline,
): Promise<string | undefined> {
  // core/spec.ts says it if the commit is of another repo.
  if (repo === undefined || branch === undefined || from.id === undefined || from.repo !== repo)
    return undefined;
  const address = { repo, branch };
  if (await context.branch(address).feed.position({ commit: from.id })) return undefined;
  const bucket = bucketName(address);
  return `'${bucket}' has no commit '${from.id}': 'sluice commit list ${bucket}' shows those it has`;
}
