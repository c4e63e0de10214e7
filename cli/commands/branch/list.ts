import type { Command } from "commander";
import { bucketName } from "../../../protocol/names.ts";
import { BranchList, type Forking } from "../../../protocol/repos.ts";
import { encodePath, withClient } from "../../gateway/client.ts";
import { type ClientOptions, name, withClientOptions } from "../../options.ts";
import { printJson, printTable, showTime } from "../../output/output.ts";
import { showWriter } from "./protect.ts";

/** `sluice branch list` */
export function addBranchList(group: Command): void {
  const command = group
    .command("list")
    .description(
      "Lists the branches of a repo. One that is made from a commit of another branch is shown with how far it is until it can be read.",
    )
    .argument("<repo>", "the repo", name)
    .action((repo: string, options: ClientOptions) =>
      withClient(options, async (client) => {
        const path = `/repos/${encodePath(repo)}/branches`;
        const list = await client.call(BranchList, { method: "GET", path });
        if (options.json) return printJson(list);
        const rows = list.branches.map(({ name: branch, createdAt, public: isPublic, writer, forking }) => [
          branch,
          `s3://${bucketName({ repo, branch })}`,
          showTime(createdAt),
          isPublic ? "yes" : "-",
          writer ? showWriter(writer) : "-",
          forking ? showForking(forking) : "ready",
        ]);
        printTable([["NAME", "BUCKET", "CREATED", "PUBLIC", "WRITTEN BY", "STATE"], ...rows]);
      }),
    );
  withClientOptions(
    command,
    "sluice branch list images",
    "sluice branch list images --json | jq '.branches[].name'",
  );
}

/** How far a branch is that is made from a commit of another one. */
function showForking({ copied, total }: Forking): string {
  return `forking ${copied.toLocaleString("en")} of ${total.toLocaleString("en")}`;
}
