import type { Issue } from "../../../protocol/errors.ts";
import { bucketName } from "../../../protocol/names.ts";
import type { Context } from "../../app.ts";
import type { Catalogue } from "../../catalogue/catalogue.ts";
import type { PipelineRow } from "../../catalogue/pipelines.ts";
import { nearest } from "../../core/nearest.ts";
import { type KeyScope, permits } from "../../core/permissions.ts";
import type { InputOutline, SpecOutline } from "../../core/spec-outline.ts";

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
  const { pipeline, outputBranch } = outline;
  // Its own output as an input is a rule of the spec itself (core/spec.ts).
  const wanted = outline.inputs.map(({ repo, branch }) =>
    repo === pipeline && branch === outputBranch ? undefined : repo,
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
  const query = { limit: MAX_ROWS, ...(scope.repos && { repos: scope.repos }) };
  const rows = await catalogue.branches.list(query);
  if (rows.length === MAX_ROWS) {
    const alike = await catalogue.branches.list({ ...query, after: { repo: repo.slice(0, 2), branch: "" } });
    rows.push(...alike);
  }
  return new Set(rows.map((row) => row.repo));
}

/** Inputs through which the pipeline's own output would come back to it by way of other pipelines. */
export async function cycleIssues(around: Surroundings, outline: SpecOutline): Promise<Issue[]> {
  const { pipeline, outputBranch, inputs } = outline;
  if (pipeline === undefined || outputBranch === undefined) return [];
  const own = bucketName({ repo: pipeline, branch: outputBranch });
  const rows = await around.catalogue.pipelines.list();
  const makers = new Map(rows.map((row) => [bucketName(row.output), row]));
  return inputs.flatMap(({ repo, branch }, index) => {
    if (repo === undefined || branch === undefined) return [];
    const start = bucketName({ repo, branch });
    const way = start === own ? undefined : wayBack(makers, { from: start, to: own });
    if (!way) return [];
    const message = `pipelines can't go in a circle: '${start}' is made from '${own}', the output of this pipeline, by ${named(way, around.scope)}`;
    return [{ path: `inputs[${index}].repo.name`, message }];
  });
}

/** The pipelines that make one bucket from another, in the order in which data passes through them. */
function wayBack(
  makers: ReadonlyMap<string, PipelineRow>,
  { from, to }: { from: string; to: string },
): string[] | undefined {
  const cameBy = new Map<string, string | undefined>([[from, undefined]]);
  for (const bucket of cameBy.keys()) {
    if (bucket === to) return namesBack(makers, cameBy, to);
    for (const input of makers.get(bucket)?.inputs ?? []) {
      const next = bucketName(input);
      if (!cameBy.has(next)) cameBy.set(next, bucket);
    }
  }
  return undefined;
}

function namesBack(
  makers: ReadonlyMap<string, PipelineRow>,
  cameBy: ReadonlyMap<string, string | undefined>,
  end: string,
): string[] {
  const names: string[] = [];
  for (let bucket = cameBy.get(end); bucket !== undefined; bucket = cameBy.get(bucket)) {
    names.push(makers.get(bucket)?.name ?? bucket);
  }
  return names;
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
  if (await context.branch(address).position({ commit: from.id })) return undefined;
  const bucket = bucketName(address);
  return `'${bucket}' has no commit '${from.id}': 'sluice commit list ${bucket}' shows those it has`;
}
