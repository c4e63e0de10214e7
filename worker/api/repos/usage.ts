import { z } from "zod";
import { type BranchAddress, bucketName } from "../../../protocol/names.ts";
import type { BranchUsage, CatalogueUsage, RepoUsage } from "../../../protocol/repos.ts";
import type { Context } from "../../app.ts";
import type { Holder } from "../../branch/contract.ts";
import { ApiError } from "../answer/errors.ts";
import { slowJson } from "../answer/slow.ts";
import { type ApiRequest, nameParam, noQuery, readQuery } from "../request/api-request.ts";
import { branchesOf } from "./repos.ts";

const DAY_MS = 24 * 60 * 60 * 1000;
const HOUR_MS = 60 * 60 * 1000;

const UsageQuery = z.strictObject({
  /** Only how large the databases are, which costs next to nothing. */
  sizes: z.enum(["true", "false"], { error: "must be true or false" }).optional(),
});

/** `GET /usage`: what the catalogue takes up. */
export async function catalogueUsage(asked: ApiRequest): Promise<Response> {
  noQuery(asked);
  return Response.json({ catalogue: await asked.context.catalogue.space() } satisfies CatalogueUsage);
}

/** `GET /repos/{repo}/usage`: what each branch of a repo takes up, and what holds most of it back. */
export async function repoUsage(asked: ApiRequest): Promise<Response> {
  const { sizes } = readQuery(asked, UsageQuery);
  const { context } = asked;
  const repo = nameParam(asked, "repo");
  const names: string[] = [];
  for await (const { branch } of branchesOf(context.catalogue, [repo])) names.push(branch);
  if (names.length === 0) throw new ApiError("NoSuchRepo", `There is no repo '${repo}'.`);
  const isLeaving = { at: false };
  const used = async (): Promise<RepoUsage> => {
    const branches: BranchUsage[] = [];
    for (const branch of names) {
      if (isLeaving.at) break;
      const usage = await branchUsage(context, { address: { repo, branch }, sizes: sizes === "true" });
      if (usage) branches.push(usage);
    }
    return { branches, pipeline: await context.pipeline(repo).space() };
  };
  return slowJson(used(), async () => {
    isLeaving.at = true;
  });
}

/** Undefined: it was deleted meanwhile, or its rows are still on their way. */
async function branchUsage(
  context: Context,
  { address, sizes }: { address: BranchAddress; sizes: boolean },
): Promise<BranchUsage | undefined> {
  const found = await context.branch(address).usage({ sizes });
  if (!found.ok) return undefined;
  const { database, contents } = found;
  if (!contents) return { name: address.branch, database, contents: null };
  const { holder, ...amounts } = contents;
  const shown = holder && {
    kind: holder.kind,
    what: await holderText(context, { holder, address }),
    versions: holder.count,
  };
  return { name: address.branch, database, contents: { ...amounts, holder: shown } };
}

/** Who holds most back, in words that say what to look at. */
async function holderText(
  context: Context,
  { holder, address }: { holder: Holder; address: BranchAddress },
): Promise<string> {
  if (holder.kind === "keep") return keepText(holder, address);
  const since = holder.since === null ? "" : `, for ${ageText(Date.now() - holder.since)}`;
  if (holder.kind === "commit") {
    const named = holder.names.length === 0 ? "something that is just let go" : holder.names.join(", ");
    return `the commit ${holder.commit}, which ${named} names${since}`;
  }
  const { pipeline, job } = holder;
  if (job === null) return `the pipeline ${pipeline}, which has not read on${since}`;
  const [waiting] = await context
    .pipeline(pipeline)
    .unfinished([job])
    .catch(() => []);
  const reason = waiting?.reason;
  return `the job ${job} of the pipeline ${pipeline}${since}${reason ? `: ${reason}` : ""}`;
}

function keepText({ keep }: Extract<Holder, { kind: "keep" }>, address: BranchAddress): string {
  if (!keep)
    return `all commits are kept: 'sluice branch keep ${bucketName(address)} --commits N' keeps fewer`;
  const parts = [
    ...(keep.commits === undefined ? [] : [`--commits ${keep.commits}`]),
    ...(keep.days === undefined ? [] : [`--days ${keep.days}`]),
  ];
  return `what 'sluice branch keep ${parts.join(" ")}' keeps`;
}

function ageText(ms: number): string {
  const [count, unit] = ms >= 2 * DAY_MS ? [ms / DAY_MS, "day"] : [ms / HOUR_MS, "hour"];
  const whole = Math.max(Math.floor(count), 0);
  return `${whole} ${unit}${whole === 1 ? "" : "s"}`;
}
