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
  const view = await wholeId(client, address, commit);
  return { ...address, view, bucket: viewBucket({ repo, branch, view }) };
}

/** The whole id of a commit. What finds it loads the schemas of commits and jobs, which most commands about files never need. */
export async function wholeId(client: Client, address: Address, commit: string): Promise<string> {
  const { commitId } = await import("./ids.ts");
  return await commitId(client, address, commit);
}
