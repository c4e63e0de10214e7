import type { Command } from "commander";
import { bucketName } from "../../../protocol/names.ts";
import { BranchList } from "../../../protocol/repos.ts";
import { encodePath, withClient } from "../../gateway/client.ts";
import { type ClientOptions, name, withClientOptions } from "../../options.ts";
import { printJson, printTable, showTime } from "../../output/output.ts";

/** `sluice branch …` */
export function addBranch(program: Command): void {
  const group = program
    .command("branch")
    .summary("list the branches of a repo")
    .helpCommand(false)
    .description("Branches: each is a bucket, s3://<branch>.<repo>.");
  const command = group
    .command("list")
    .description("Lists the branches of a repo.")
    .argument("<repo>", "the repo", name)
    .action((repo: string, options: ClientOptions) =>
      withClient(options, async (client) => {
        const path = `/repos/${encodePath(repo)}/branches`;
        const list = await client.call(BranchList, { method: "GET", path });
        if (options.json) return printJson(list);
        const rows = list.branches.map(({ name: branch, createdAt }) => [
          branch,
          `s3://${bucketName({ repo, branch })}`,
          showTime(createdAt),
        ]);
        printTable([["NAME", "BUCKET", "CREATED"], ...rows]);
      }),
    );
  withClientOptions(
    command,
    "sluice branch list images",
    "sluice branch list images --json | jq '.branches[].name'",
  );
}
