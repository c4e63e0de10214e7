import type { Command } from "commander";
import { CommitRedacted } from "../../../protocol/commits.ts";
import { commitsPath, parseCommitAddress } from "../../gateway/commits.ts";
import { commitId } from "../../gateway/ids/ids.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type ClientOptions, withClientOptions } from "../../options.ts";
import { UsageError } from "../../output/failure.ts";
import { printJson, printLine, showTime } from "../../output/output.ts";

/** `sluice commit redact` */
export function addCommitRedact(group: Command): void {
  const command = group
    .command("redact")
    .description(
      "Takes the message and the metadata out of a commit for good, such as a name or a password in them. Its id, its time, its key and its files stay, and it shows who redacted it and when. Needs admin; of a protected branch, its writer. On one machine the file of the branch has the message until the gateway starts again, or until 'sluice admin scrub'.\n\nExports that are under way end. Archives that were made before still have the message, and so has whoever has read it.",
    )
    .argument("<bucket@commit>", "<branch>.<repo>@<commit or tag>, with or without s3://")
    .action((text: string, options: ClientOptions) => {
      const { repo, branch, bucket, commit: named } = parseCommitAddress(text);
      if (named === undefined) {
        throw new UsageError(
          `'${text}' must name the commit: <branch>.<repo>@<commit or tag>; 'sluice commit list ${bucket}' shows those there are`,
        );
      }
      return withClient(options, async (client) => {
        const target = await commitId(client, { repo, branch }, named);
        const done = await client.call(CommitRedacted, {
          method: "POST",
          path: `${commitsPath({ repo, branch })}/${target}/redact`,
          repeatable: true,
        });
        if (options.json) printJson(done);
        else printLine(redactedText(done));
      });
    });
  withClientOptions(
    command,
    "sluice commit redact master.people@01KAR…",
    "sluice commit redact master.people@v1 --json",
  );
}

function redactedText({ commit, redacted, change }: CommitRedacted): string {
  if (redacted === null) return `${commit} has no message and no metadata: nothing was redacted`;
  if (change === "redacted") return `redacted ${commit}`;
  return `${commit} was redacted before: ${showTime(redacted.at)} by ${redacted.by}`;
}
