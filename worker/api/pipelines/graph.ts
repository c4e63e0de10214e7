import type { Issue } from "../../../protocol/errors.ts";
import { bucketName } from "../../../protocol/names.ts";
import type { Catalogue } from "../../catalogue/catalogue.ts";
import type { PipelineRow } from "../../catalogue/pipelines.ts";
import { nearest } from "../../core/nearest.ts";
import type { KeyScope } from "../../core/permissions.ts";
import { permits } from "../../core/permissions.ts";
import type { SpecOutline } from "../../core/spec-outline.ts";

/** What the rules over many pipelines and repos are held against, and for whom: a key hears of its own repos alone. */
export interface Surroundings {
  readonly catalogue: Catalogue;
  readonly scope: KeyScope;
}

/** For so many missing repos one with a name that is near is looked for, each time among so many rows. */
const MAX_HINTS = 5;
const MAX_ROWS = 1000;

/** Inputs whose repo is not there. Their branch need not be there yet. */
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

/** Those of the repos that are not there, with what to do about it. */
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

/** Repos that the key may see: the first ones, and where there are many, those that begin like this one. */
async function reposAround({ catalogue, scope }: Surroundings, repo: string): Promise<Set<string>> {
  const query = { limit: MAX_ROWS, ...(scope.repos && { repos: scope.repos }) };
  const rows = await catalogue.branches.list(query);
  if (rows.length === MAX_ROWS) {
    const alike = await catalogue.branches.list({ ...query, after: { repo: repo.slice(0, 2), branch: "" } });
    rows.push(...alike);
  }
  return new Set(rows.map((row) => row.repo));
}

/** Inputs by which what the pipeline would write comes back to it through other pipelines. */
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

/** The repo of a pipeline has its name; of what a key may not read it does not hear the name either. */
function named(pipelines: readonly string[], scope: KeyScope): string {
  const names = pipelines.map((name) =>
    permits(scope, { permission: "read", repo: name }) ? `'${name}'` : "another pipeline",
  );
  return names.join(" and then ");
}
