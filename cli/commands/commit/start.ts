import { type Command, InvalidArgumentError } from "commander";
import { Duration } from "../../../protocol/duration.ts";
import { bucketName } from "../../../protocol/names.ts";
import { parseBucketAddress, viewText } from "../../gateway/address.ts";
import { startOpenCommit } from "../../gateway/open-commits.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type ClientOptions, type NoteOptions, saidOf, withClientOptions, withNote } from "../../options.ts";
import { UsageError } from "../../output/failure.ts";
import { printJson, printLine, printNote } from "../../output/output.ts";

/** `sluice commit start` */
export function addCommitStart(group: Command): void {
  const command = group
    .command("start")
    .description(
      "Opens a commit and prints its bucket. Any S3 tool, and sluice cp and rm, may fill it with any number of puts and deletes; nothing of it is seen in the branch until it is finished.",
    )
    .argument("<branch>", "<branch>.<repo>, with or without s3://")
    .option(
      "--ttl <time>",
      "forget it when nothing is added for so long, such as 30m or 24h (default: what the gateway is set to)",
      duration,
    )
    .action((text: string, options: ClientOptions & NoteOptions & { readonly ttl?: string }) => {
      const { repo, branch, view } = parseBucketAddress(text);
      if (view !== undefined) {
        throw new UsageError(
          `'${text}' is the bucket of ${viewText(view)} already: name the branch, s3://${bucketName({ repo, branch })}`,
        );
      }
      const said = saidOf(options);
      return withClient(options, async (client) => {
        const opened = await startOpenCommit(client, { repo, branch, ttl: options.ttl, said });
        if (options.json) return printJson(opened);
        const bucket = `s3://${opened.bucket}`;
        printLine(bucket);
        printNote(
          `fill it, e.g. with 'aws s3 sync <folder> ${bucket}' or 'sluice cp -r <folder> ${bucket}', then run 'sluice commit finish ${bucket}'`,
        );
      });
    });
  withClientOptions(
    withNote(command),
    "sluice commit start s3://master.images",
    "open=$(sluice commit start s3://master.images) && aws s3 sync photos $open && sluice commit finish $open",
  );
}

function duration(value: string): string {
  const parsed = Duration.safeParse(value);
  if (parsed.success) return value;
  throw new InvalidArgumentError(`It ${parsed.error.issues[0]?.message}.`);
}
