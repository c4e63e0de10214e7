import type { Command } from "commander";
import { type BranchAddress, bucketName } from "../../../protocol/names.ts";
import { type BranchDetail, BranchList, type Forking } from "../../../protocol/repos.ts";
import { encodePath } from "../../../protocol/requests.ts";
import { inspectBranch } from "../../gateway/branches.ts";
import { type Client, GatewayError } from "../../gateway/client.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type ClientOptions, name, withClientOptions } from "../../options.ts";
import { printJson, printTable, showTime } from "../../output/output.ts";
import { showKeep } from "./keep.ts";
import { showWriter } from "./protect.ts";

/** `sluice branch list` */
export function addBranchList(group: Command): void {
  const command = group
    .command("list")
    .description(
      "Lists the branches of a repo, with how much of its history each keeps. One that is made from a commit of another branch is shown with how far it is until it can be read.",
    )
    .argument("<repo>", "the repo", name)
    .action((repo: string, options: ClientOptions) =>
      withClient(options, async (client) => {
        const path = `/repos/${encodePath(repo)}/branches`;
        const list = await client.call(BranchList, { method: "GET", path });
        const branches = await withKeep(client, { repo, branches: list.branches });
        if (options.json) return printJson({ ...list, branches });
        const rows = branches.map(({ name: branch, createdAt, public: isPublic, writer, keep, forking }) => [
          branch,
          `s3://${bucketName({ repo, branch })}`,
          showTime(createdAt),
          isPublic ? "yes" : "-",
          writer ? showWriter(writer) : "-",
          keep === undefined ? "-" : showKeep(keep),
          forking ? showForking(forking) : "ready",
        ]);
        printTable([["NAME", "BUCKET", "CREATED", "PUBLIC", "WRITTEN BY", "KEEPS", "STATE"], ...rows]);
      }),
    );
  withClientOptions(
    command,
    "sluice branch list images",
    "sluice branch list images --json | jq '.branches[].name'",
  );
}

type Listed = BranchList["branches"][number];

/** Branches that are asked at once. */
const ASKED_AT_ONCE = 16;

/**
 * Each branch with how much of its history it keeps, which the branch itself knows: the gateway's list does not. Undefined if it
 * was deleted meanwhile, or its gateway is of a release that has no such setting.
 */
async function withKeep(
  client: Client,
  { repo, branches }: { repo: string; branches: readonly Listed[] },
): Promise<(Listed & Pick<BranchDetail, "keep">)[]> {
  const asked = [...branches];
  const keeps = new Map<string, BranchDetail["keep"]>();
  const ask = async (): Promise<void> => {
    for (let next = asked.pop(); next; next = asked.pop()) {
      keeps.set(next.name, await keepOf(client, { repo, branch: next.name }));
    }
  };
  await Promise.all(Array.from({ length: ASKED_AT_ONCE }, ask));
  return branches.map((branch) => ({ ...branch, keep: keeps.get(branch.name) }));
}

async function keepOf(client: Client, branch: BranchAddress): Promise<BranchDetail["keep"]> {
  try {
    return (await inspectBranch(client, branch)).keep;
  } catch (error) {
    if (error instanceof GatewayError && error.status === 404) return undefined;
    throw error;
  }
}

/** How far a branch is that is made from a commit of another one. */
export function showForking({ copied, total }: Forking): string {
  return `forking ${copied.toLocaleString("en")} of ${total.toLocaleString("en")}`;
}
