import { BranchDetail } from "../../protocol/repos.ts";
import type { Address } from "./address.ts";
import { type Client, encodePath } from "./client.ts";
import type { CommitAddress } from "./commits.ts";

/** Calls of the control API about branches. */

type Branch = Pick<Address, "repo" | "branch">;

/** Makes a branch, empty or from a commit of another one. Of that, one that was made of the same before is the answer. */
export function createBranch(
  client: Client,
  { address, from }: { address: Branch; from: CommitAddress | undefined },
): Promise<BranchDetail> {
  const source = from && { repo: from.repo, branch: from.branch, commit: from.commit };
  return client.call(BranchDetail, {
    method: "POST",
    path: `/repos/${encodePath(address.repo)}/branches`,
    json: { name: address.branch, from: source },
    ...(from && ({ repeatable: true } as const)),
  });
}

export function inspectBranch(client: Client, { repo, branch }: Branch): Promise<BranchDetail> {
  const path = `/repos/${encodePath(repo)}/branches/${encodePath(branch)}`;
  return client.call(BranchDetail, { method: "GET", path });
}
