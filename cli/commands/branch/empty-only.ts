import type { Command } from "commander";
import { BranchEmptyOnly } from "../../../protocol/repos.ts";
import { encodePath } from "../../../protocol/requests.ts";
import { parseBranch } from "../../gateway/commits.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type ClientOptions, onOrOff, withClientOptions } from "../../options.ts";
import { printJson, printLine } from "../../output/output.ts";

/** `sluice branch empty-only` */
export function addBranchEmptyOnly(group: Command): void {
  const command = group
    .command("empty-only")
    .description(
      "Sets whether S3 tools delete the bucket only while it is empty, as they do elsewhere: with 'on' their DeleteBucket answers BucketNotEmpty while the branch has a file, whatever its history has. 'sluice rb --force' and the console delete it all the same. Deleting the branch ends the setting. Needs the level admin.",
    )
    .argument("<branch>", "<branch>.<repo>, with or without s3://")
    .argument("<on|off>", "whether it has to be empty", onOrOff)
    .action((text: string, emptyOnly: boolean, options: ClientOptions) => {
      const { repo, branch, bucket } = parseBranch(text);
      return withClient(options, async (client) => {
        const path = `/repos/${encodePath(repo)}/branches/${encodePath(branch)}/empty-only`;
        const set = await client.call(BranchEmptyOnly, { method: "PUT", path, json: { emptyOnly } });
        if (options.json) return printJson(set);
        printLine(
          `S3 tools delete s3://${bucket} ${set.emptyOnly ? "only while it is empty" : "with its files"}`,
        );
      });
    });
  withClientOptions(
    command,
    "sluice branch empty-only master.images on",
    "sluice branch empty-only s3://master.images off",
  );
}
