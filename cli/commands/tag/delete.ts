import type { Command } from "commander";
import { parseBranch, tagPath } from "../../gateway/commits.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type ClientOptions, withClientOptions } from "../../options.ts";
import { printJson, printLine } from "../../output/output.ts";
import { tagName } from "./create.ts";

/** `sluice tag delete` */
export function addTagDelete(group: Command): void {
  const command = group
    .command("delete")
    .description(
      "Deletes a tag, which takes admin or the key that the branch is protected for. The commit is found by its id; if nothing else keeps it, it goes after 24 hours.",
    )
    .argument("<name>", "the tag", tagName)
    .argument("<bucket>", "<branch>.<repo>, with or without s3://")
    .action((name: string, text: string, options: ClientOptions) => {
      const branch = parseBranch(text);
      return withClient(options, async (client) => {
        const answer = await client.send({
          method: "DELETE",
          path: `/api/v1${tagPath(branch, name)}`,
        });
        await answer.body.dump();
        if (options.json) printJson({ deleted: name });
        else printLine(`deleted ${name}`);
      });
    });
  withClientOptions(command, "sluice tag delete v1 master.images");
}
