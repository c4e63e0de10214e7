import { viewBucket } from "../../../protocol/names.ts";
import { UsageError } from "../../output/failure.ts";
import type { Address } from "../address.ts";
import type { Client } from "../client.ts";

/** The same place in a commit of the branch, if one is named. */
export async function atCommit(
  client: Client,
  address: Address,
  commit: string | undefined,
): Promise<Address> {
  if (commit === undefined) return address;
  const { repo, branch } = address;
  if (address.view !== undefined) {
    throw new UsageError(`s3://${address.bucket} is of one commit already: leave --commit out`);
  }
  // Only now: it loads the schemas of commits and jobs, which most commands about files never need.
  const { commitId } = await import("./ids.ts");
  const view = await commitId(client, address, commit);
  return { ...address, view, bucket: viewBucket({ repo, branch, view }) };
}
