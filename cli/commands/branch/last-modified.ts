import { Argument, type Command } from "commander";
import { BranchLastModified, LAST_MODIFIED } from "../../../protocol/repos.ts";
import { encodePath } from "../../../protocol/requests.ts";
import { parseBranch } from "../../gateway/commits.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type ClientOptions, withClientOptions } from "../../options.ts";
import { printJson, printLine } from "../../output/output.ts";

const WORDS = {
  object: "the time when it was last written",
  branch: "the time of the branch's newest commit",
} as const;

/** `sluice branch last-modified` */
export function addBranchLastModified(group: Command): void {
  const command = group
    .command("last-modified")
    .description(
      "Sets what Last-Modified of an object of the branch is: with 'object' the time when it was last written, as tools expect that compare times, such as 'aws s3 sync'; with 'branch' that of the branch's newest commit. 'default' is what the gateway is set to (SLUICE_LAST_MODIFIED). Deleting the branch ends the setting.",
    )
    .argument("<branch>", "<branch>.<repo>, with or without s3://")
    .addArgument(
      new Argument("<object|branch|default>", "whose time it is").choices([...LAST_MODIFIED, "default"]),
    )
    .action((text: string, whose: (typeof LAST_MODIFIED)[number] | "default", options: ClientOptions) => {
      const { repo, branch, bucket } = parseBranch(text);
      return withClient(options, async (client) => {
        const path = `/repos/${encodePath(repo)}/branches/${encodePath(branch)}/last-modified`;
        const json = { lastModified: whose === "default" ? null : whose };
        const set = await client.call(BranchLastModified, { method: "PUT", path, json });
        if (options.json) return printJson(set);
        printLine(`Last-Modified in s3://${bucket} is ${showLastModified(set.lastModified)}`);
      });
    });
  withClientOptions(
    command,
    "sluice branch last-modified master.images object",
    "sluice branch last-modified s3://master.images default",
  );
}

/** Whose time Last-Modified is, in words. */
export function showLastModified(whose: BranchLastModified["lastModified"]): string {
  return whose === null ? "what the gateway is set to" : WORDS[whose];
}
