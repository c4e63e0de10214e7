import type { BranchAddress } from "../../protocol/names.ts";
import {
  BranchDetail,
  CatalogueUsage,
  type CreateBranch,
  type Space,
  TOLD_FROM,
} from "../../protocol/repos.ts";
import { encodePath } from "../../protocol/requests.ts";
import { CliError } from "../output/failure.ts";
import { type Address, branchPath } from "./address.ts";
import { type Client, GatewayError, unlessRefused } from "./client.ts";
import type { CommitAddress } from "./commits.ts";

/** Calls of the control API about branches. */

/** Makes a branch, empty or from a commit of another one. Of that, one that was made of the same before is the answer. */
export function createBranch(
  client: Client,
  {
    address,
    from,
    region,
  }: { address: BranchAddress; from: CommitAddress | undefined; region?: string | undefined },
): Promise<BranchDetail> {
  const source = from && { repo: from.repo, branch: from.branch, commit: from.commit };
  return client.post(BranchDetail, `/repos/${encodePath(address.repo)}/branches`, {
    json: { name: address.branch, from: source, region },
    ...(from && ({ repeatable: true } as const)),
  });
}

/** What most S3 tools take for granted of a bucket. */
const PLAIN = { lastModified: "object", keep: { days: 1 }, emptyOnly: true } as const satisfies Omit<
  CreateBranch,
  "name"
>;

/** Makes an empty branch that is to S3 tools what a bucket is elsewhere, in one call: it is never there without that. */
export async function createPlainBranch(
  client: Client,
  { repo, branch }: BranchAddress,
  region?: string,
): Promise<BranchDetail> {
  return await client.post(BranchDetail, `/repos/${encodePath(repo)}/branches`, {
    json: { name: branch, ...PLAIN, region },
  });
}

/** Deletes a branch, with all that it has, or `onlyEmpty` if it has no file, which the gateway judges as it deletes it. */
export async function deleteBranch(
  client: Client,
  { repo, branch, bucket }: Address,
  { onlyEmpty }: { onlyEmpty: boolean },
): Promise<void> {
  try {
    await client.delete(branchPath({ repo, branch }), { empty: onlyEmpty || undefined });
  } catch (error) {
    if (!(error instanceof GatewayError && error.code === "NotEmpty")) throw error;
    throw new CliError(`s3://${bucket} holds files: add --force to remove them with it`);
  }
}

export function inspectBranch(client: Client, { repo, branch }: BranchAddress): Promise<BranchDetail> {
  return client.get(BranchDetail, branchPath({ repo, branch }));
}

/** What the catalogue takes up; undefined if the key is for some repos alone. */
export async function catalogueSpace(client: Client): Promise<Space | undefined> {
  return (await unlessRefused(client.get(CatalogueUsage, "/usage"), 403))?.catalogue;
}

/** Whether so much of a database is taken that its operator should hear of it. */
export function isAlmostFull({ usedBytes, limitBytes }: Space): boolean {
  return usedBytes >= TOLD_FROM * limitBytes;
}
