import type { Command } from "commander";
import { parseOpenCommit } from "../../gateway/address.ts";
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
import { printJson, printLine, printNote } from "../../output/output.ts";

/** `sluice commit finish` */
export function addCommitFinish(group: Command): void {
  const command = group
    .command("finish")
    .description(
      "Makes one commit of an open commit, however large it is, and prints the commit's id. Done again, it prints the same. If a write into it had a condition (If-Match, If-None-Match) and the branch has changed there since, nothing is committed, the paths are printed and the open commit stays open.",
    )
    .argument("<open commit>", "its bucket, as 'sluice commit start' printed it; with or without s3://")
    .action((text: string, options: ClientOptions & NoteOptions) => {
      const open = parseOpenCommit(text);
      const said = saidOf(options);
      return withClient(options, async (client) => {
        const { commit, readsNote } = await finishOpenCommit(client, {
          ...open,
          ...(says(said) && { said }),
        });
        if (says(said) && commit !== null && !readsNote) {
          printNote("the gateway is of an earlier release: the commit was made, without what was said of it");
        }
        if (options.json) printJson({ commit });
        else printLine(commit ?? "nothing changed: no commit was made");
      });
    });
  withClientOptions(
    withNote(command),
    "sluice commit finish s3://01kar….master.images",
    "sluice commit finish s3://01kar….master.images --message 'spring survey' --meta camera=k7",
    "sluice commit finish s3://01kar….master.images --json",
  );
}
