import type { Issue } from "../../protocol/errors.ts";
import { bucketName } from "../../protocol/names.ts";
import type { PipelineSpec } from "../../protocol/spec.ts";
import type { Catalogue } from "../catalogue/catalogue.ts";

/** Inputs whose repo is not there. Their branch need not be there yet. */
export async function missingRepoIssues(catalogue: Catalogue, spec: PipelineSpec): Promise<Issue[]> {
  const repos = spec.inputs.map(({ repo }) => repo.name);
  const there = new Map(
    await Promise.all(
      [...new Set(repos)].map(async (repo) => [repo, await catalogue.branches.hasRepo(repo)] as const),
    ),
  );
  return repos.flatMap((repo, index) => {
    if (there.get(repo)) return [];
    const message = `there is no repo '${repo}': create a bucket such as 'master.${repo}' first`;
    return [{ path: `inputs[${index}].repo.name`, message }];
  });
}

/** Whether what the pipeline would write comes back to it through other pipelines. */
export async function cycleIssue(catalogue: Catalogue, spec: PipelineSpec): Promise<Issue[]> {
  const rows = await catalogue.pipelines.list();
  const readsFrom = new Map(rows.map(({ output, inputs }) => [bucketName(output), inputs.map(bucketName)]));
  const own = bucketName({ repo: spec.pipeline.name, branch: spec.outputBranch });
  return spec.inputs.flatMap(({ repo, branch }, index) => {
    const start = bucketName({ repo: repo.name, branch });
    // Its own output as an input is a rule of the spec itself (core/spec.ts).
    if (start === own || !reaches(readsFrom, { from: start, to: own })) return [];
    const message = `'${start}' is itself made from '${own}', the output of this pipeline: pipelines can't go in a circle`;
    return [{ path: `inputs[${index}].repo.name`, message }];
  });
}

function reaches(
  readsFrom: ReadonlyMap<string, string[]>,
  { from, to }: { from: string; to: string },
): boolean {
  const seen = new Set<string>();
  const ahead = [from];
  for (let bucket = ahead.pop(); bucket !== undefined; bucket = ahead.pop()) {
    if (bucket === to) return true;
    if (seen.has(bucket)) continue;
    seen.add(bucket);
    ahead.push(...(readsFrom.get(bucket) ?? []));
  }
  return false;
}
