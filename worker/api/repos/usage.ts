import { z } from "zod";
import { type BranchAddress, bucketName, parseBucketName } from "../../../protocol/names.ts";
import {
  type BranchSum,
  type BranchSums,
  type BranchUsage,
  type CatalogueUsage,
  MAX_SUMMED_BRANCHES,
  type RepoUsage,
} from "../../../protocol/repos.ts";
import type { Holder } from "../../branch/contract/admin.ts";
import { apiError, isRetryable } from "../answer/errors.ts";
import { slowJson } from "../answer/slow.ts";
import { type ApiRequest, mayRead, nameParam, readQuery } from "../request/api-request.ts";
import { invalidField } from "../request/issues.ts";
import { branchesOf } from "./repos.ts";

type Asked = Pick<ApiRequest, "context" | "caller">;

const DAY_MS = 24 * 60 * 60 * 1000;
const HOUR_MS = 60 * 60 * 1000;

/** An object that can't be read says so in this time. */
const FAILS_WITHIN_MS = 1000;

const UsageQuery = z.strictObject({
  /** Only how large the databases are, which costs next to nothing. */
  sizes: z.enum(["true", "false"], { error: "must be true or false" }).optional(),
});

/** `GET /usage`: what the catalogue takes up. */
export async function catalogueUsage(asked: ApiRequest): Promise<Response> {
  return Response.json({ catalogue: await asked.context.catalogue.space() } satisfies CatalogueUsage);
}

/**
 * `GET /repos/{repo}/usage`: what each branch of a repo takes up, and what holds most of it back. Deleted ones are among them as
 * long as something of them is there, also if the repo has no other any more.
 */
export async function repoUsage(asked: ApiRequest): Promise<Response> {
  const { sizes } = readQuery(asked, UsageQuery);
  const { context } = asked;
  const repo = nameParam(asked, "repo");
  const names: string[] = [];
  for await (const { branch } of branchesOf(context.catalogue, [repo])) names.push(branch);
  const exists = names.length > 0;
  if (sizes !== "true") names.push(...(await context.catalogue.branches.deletedOf(repo)));
  const isLeaving = { at: false };
  const used = async (): Promise<RepoUsage> => {
    const branches: BranchUsage[] = [];
    for (const branch of names) {
      if (isLeaving.at) break;
      const usage = await branchUsage(asked, { address: { repo, branch }, sizes: sizes === "true" });
      if (usage) branches.push(usage);
    }
    return { branches, pipeline: await context.pipeline(repo).admin.space() };
  };
  if (!exists) {
    const left = await used();
    if (left.branches.length === 0) throw apiError.NoSuchRepo(`There is no repo '${repo}'.`);
    return Response.json(left);
  }
  const answer = used();
  // An answer that has begun can't be an error any more.
  await Promise.race([answer, scheduler.wait(FAILS_WITHIN_MS)]);
  return slowJson(answer, async () => {
    isLeaving.at = true;
  });
}

const SumsQuery = z.strictObject({ buckets: z.string().default("") });

/** `GET /repos/sums`: what the newest state of some branches has, of those that the key may read. One that can't be asked is left out. */
export async function branchSums(asked: ApiRequest): Promise<Response> {
  const buckets = readQuery(asked, SumsQuery).buckets.split(",").filter(Boolean);
  if (buckets.length > MAX_SUMMED_BRANCHES)
    throw invalidField("buckets", `must be at most ${MAX_SUMMED_BRANCHES}`);
  const addresses = [...new Set(buckets)].flatMap((bucket) => parseBucketName(bucket) ?? []);
  const sums = await Promise.all(
    addresses
      .filter(({ repo }) => mayRead(asked, repo))
      .map(async (address): Promise<BranchSum[]> => {
        const found = await asked.context
          .branch(address)
          .admin.sums()
          .catch((error) => {
            console.error(`sums of branch ${bucketName(address)} failed:`, error);
          });
        if (!found?.ok) return [];
        const { ok: _, claimedBy, ...sum } = found;
        return [{ ...address, ...sum, pipeline: claimedBy }];
      }),
  );
  return Response.json({ branches: sums.flat() } satisfies BranchSums);
}

/** Undefined: it was deleted and nothing of it is left, or its rows are still on their way. */
async function branchUsage(
  asked: Asked,
  { address, sizes }: { address: BranchAddress; sizes: boolean },
): Promise<BranchUsage | undefined> {
  const found = await asked.context
    .branch(address)
    .admin.usage({ sizes })
    .catch((error) => {
      if (isRetryable(error)) throw error;
      console.error(`usage of branch ${bucketName(address)} failed:`, error);
      throw apiError.InternalError(
        `The branch '${address.branch}' can't be read: the log of the gateway says why.`,
      );
    });
  if (!found.ok) return undefined;
  const { database, contents, deleted } = found;
  if (!contents) return { name: address.branch, database, contents: null };
  const { holder, forkHolds, ...amounts } = contents;
  const shown = holder && {
    kind: holder.kind,
    what: await holderText(asked, { holder, address }),
    versions: holder.count,
  };
  return {
    name: address.branch,
    ...(deleted && { deleted }),
    database,
    contents: {
      ...amounts,
      holder: shown,
      pins: forkHolds.map(({ bucket, count, bytes }) => ({ what: forkText(asked, bucket), count, bytes })),
    },
  };
}

/** Who holds most back, in words that say what to look at. They name nothing of repos that the caller may not read. */
function holderText(
  asked: Asked,
  { holder, address }: { holder: Holder; address: BranchAddress },
): string | Promise<string> {
  switch (holder.kind) {
    case "keep":
      return keepText(holder, address);
    case "export":
      return `an export that is under way${ageText(holder.since)}`;
    case "commit":
      return commitText(asked, holder);
    case "pipeline":
      return pipelineText(asked, holder);
  }
}

type HolderOf<Kind extends Holder["kind"]> = Extract<Holder, { kind: Kind }>;

function commitText(
  asked: Asked,
  { commit, deleted, since, names, forks, pipelines }: HolderOf<"commit">,
): string {
  const named = [
    ...names,
    ...forks.map((bucket) => forkText(asked, bucket)),
    ...pipelines.map((pipeline) => {
      const isShown = mayRead(asked, pipeline);
      return `${isShown ? `the pipeline ${pipeline}` : "a pipeline that you may not read"}, starting after it`;
    }),
  ];
  const by = named.join(", ") || "something that is just let go";
  return `the commit ${commit}${deleted ? ", from before the branch was deleted" : ""}, which ${by} names${ageText(since)}`;
}

/** A branch that was made from this one, or from a commit of it. */
function forkText(asked: Asked, bucket: string): string {
  const isShown = mayRead(asked, parseBucketName(bucket)?.repo ?? "");
  return `${isShown ? `the branch ${bucket}` : "a branch of another repo"}, made from it`;
}

async function pipelineText(asked: Asked, { pipeline, job, since }: HolderOf<"pipeline">): Promise<string> {
  const age = ageText(since);
  // A pipeline's repo has its name.
  if (!mayRead(asked, pipeline)) return `a pipeline that you may not read, which needs it still${age}`;
  if (job === null) return `the pipeline ${pipeline}, which has not read on${age}`;
  const [waiting] = await asked.context
    .pipeline(pipeline)
    .jobs.unfinished([job])
    .catch(() => []);
  const reason = waiting?.reason;
  return `the job ${job} of the pipeline ${pipeline}${age}${reason ? `: ${reason}` : ""}`;
}

function keepText({ keep }: HolderOf<"keep">, address: BranchAddress): string {
  if (!keep)
    return `the whole history, which is kept: 'sluice branch keep ${bucketName(address)} --commits N' keeps less`;
  const parts = [
    ...(keep.commits === undefined ? [] : [`--commits ${keep.commits}`]),
    ...(keep.days === undefined ? [] : [`--days ${keep.days}`]),
  ];
  return `what 'sluice branch keep ${parts.join(" ")}' keeps`;
}

/** How long it is held already; empty if nobody knows. */
function ageText(since: number | null): string {
  if (since === null) return "";
  const ms = Date.now() - since;
  const [count, unit] = ms >= 2 * DAY_MS ? [ms / DAY_MS, "day"] : [ms / HOUR_MS, "hour"];
  const whole = Math.max(Math.floor(count), 0);
  return `, for ${whole} ${unit}${whole === 1 ? "" : "s"}`;
}
