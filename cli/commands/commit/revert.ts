import type { Command } from "commander";
import { RevertEnd } from "../../../protocol/files.ts";
import { commitsPath, parseCommitAddress } from "../../gateway/commits.ts";
import { commitId } from "../../gateway/ids/ids.ts";
import { finishOpenCommit } from "../../gateway/open-commits.ts";
import { withClient } from "../../gateway/with-client.ts";
import {
  type ClientOptions,
  type NoteOptions,
  saidOf,
  says,
  withClientOptions,
  withNote,
} from "../../options.ts";
import { UsageError } from "../../output/failure.ts";
import { printJson, printLine } from "../../output/output.ts";

/** `sluice commit revert` */
export function addCommitRevert(group: Command): void {
  const command = group
    .command("revert")
    .description(
      "Makes one commit with the files of an earlier one, and prints its id: what was written since is gone from the newest state and stays in the history. Other writes wait until it is made: each is reverted or comes after it. If nothing differs, no commit is made.",
    )
    .argument("<bucket@commit>", "<branch>.<repo>@<commit or tag>, with or without s3://")
    .action((text: string, options: ClientOptions & NoteOptions) => {
      const said = saidOf(options);
      const { repo, branch, bucket, commit: named } = parseCommitAddress(text);
      if (named === undefined) {
        throw new UsageError(
          `'${text}' must name the commit to go back to: <branch>.<repo>@<commit or tag>; 'sluice commit list ${bucket}' shows those there are`,
        );
      }
      return withClient(options, async (client) => {
        const target = await commitId(client, { repo, branch }, named);
        const path = `${commitsPath({ repo, branch })}/${target}/revert`;
        const begun = await client.call(RevertEnd, {
          method: "POST",
          path,
          ...(says(said) && { json: said }),
        });
        const { session } = begun;
        const commit =
          begun.state === "finished"
            ? begun.commit
            : (await finishOpenCommit(client, { repo, branch, view: session })).commit;
        if (options.json) printJson({ commit });
        else printLine(commit ?? `s3://${bucket} has the files of ${named} already: no commit was made`);
      });
    });
  withClientOptions(
    withNote(command),
    "sluice commit revert master.images@01KAR…",
    "sluice commit revert master.images@01KAR… --message 'the labels were wrong'",
    "sluice commit revert master.images@01KAR… --json | jq -r .commit",
  );
}
