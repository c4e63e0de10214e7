import type { Issue } from "../../../protocol/errors.ts";
import { bucketName } from "../../../protocol/names.ts";
import type { PipelineSpec } from "../../../protocol/spec.ts";
import type { Context } from "../../app.ts";
import type { Catalogue } from "../../catalogue/catalogue.ts";
import { flowsOf, outputsOf, wayBack } from "../../core/circles.ts";
import { nearest } from "../../core/nearest.ts";
import { type KeyScope, permits } from "../../core/permissions.ts";
import { writesTo } from "../../core/spec.ts";
import { type InputOutline, outlineOf, type SpecOutline } from "../../core/spec-outline.ts";
import type { Circle } from "../../pipeline/contract.ts";

/** What the rules over many pipelines and repos look at, and for whom: a key hears only of its own repos. */
export interface Surroundings {
  readonly catalogue: Catalogue;
  readonly scope: KeyScope;
}

/** So many missing repos get a hint with a similar name, each looked for among so many rows. */
const MAX_HINTS = 5;
const MAX_ROWS = 1000;

/** Inputs whose repo does not exist. Their branch need not exist yet. */
export async function missingRepoIssues(around: Surroundings, outline: SpecOutline): Promise<Issue[]> {
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
export async function cycleIssues(around: Surroundings, outline: SpecOutline): Promise<Issue[]> {
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
export async function unknownCommitIssues(
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
