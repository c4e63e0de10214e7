import type { Command } from "commander";
import { BranchPublic } from "../../../protocol/repos.ts";
import { encodePath } from "../../../protocol/requests.ts";
import { parseBranch } from "../../gateway/commits.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type ClientOptions, onOrOff, withClientOptions } from "../../options.ts";
import { printJson, printLine } from "../../output/output.ts";

/** `sluice branch public` */
export function addBranchPublic(group: Command): void {
  const command = group
    .command("public")
    .description(
      "Makes a branch public, or ends that. Anybody reads and lists a public branch without a key, and its commits and tags, so also what was deleted there; but no open commits. 'off' holds at once. Deleting the branch ends it, too.\n\nBrowsers show its files in a sandbox if the gateway's own address is used. Which pages from elsewhere may read them is said by the CORS rules of the bucket ('aws s3api put-bucket-cors').",
    )
    .argument("<branch>", "<branch>.<repo>, with or without s3://")
    .argument("<on|off>", "whether everybody may read it", onOrOff)
    .action((text: string, isPublic: boolean, options: ClientOptions) => {
      const { repo, branch, bucket } = parseBranch(text);
      return withClient(options, async (client) => {
        const path = `/repos/${encodePath(repo)}/branches/${encodePath(branch)}/public`;
        const set = await client.call(BranchPublic, { method: "PUT", path, json: { public: isPublic } });
        if (options.json) return printJson(set);
        printLine(
          set.public
            ? `s3://${bucket} is public: everybody may read it without a key`
            : `s3://${bucket} is not public: only keys read it`,
        );
      });
    });
  withClientOptions(
    command,
    "sluice branch public master.docs on",
    "sluice branch public s3://master.docs off",
  );
}
