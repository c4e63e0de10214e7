import { type Command, InvalidArgumentError } from "commander";
import { TagSet } from "../../../protocol/commits.ts";
import { TagName } from "../../../protocol/names.ts";
import { parseCommitAddress, tagPath } from "../../gateway/commits.ts";
import { commitId } from "../../gateway/ids/ids.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type ClientOptions, withClientOptions } from "../../options.ts";
import { printJson, printLine } from "../../output/output.ts";

/** `sluice tag create` */
export function addTagCreate(group: Command): void {
  const command = group
    .command("create")
    .description(
      "Names a commit, and prints the bucket that shows it. A tag that names another commit is moved only with --force; done again, it changes nothing.",
    )
    .argument("<name>", "a letter or digit, then letters, digits, '_' and '-'; no ULID", tagName)
    .argument(
      "<commit>",
      "<branch>.<repo>[@<commit or tag>], with or without s3://; by default the newest one",
    )
    .option(
      "--force",
      "move the tag if it names another commit, which takes admin or the key that the branch is protected for",
    )
    .action((name: string, text: string, options: ClientOptions & { readonly force?: true }) => {
      const { commit: named, ...branch } = parseCommitAddress(text);
      return withClient(options, async (client) => {
        const commit = named && (await commitId(client, branch, named));
        const set = await client.call(TagSet, {
          method: "PUT",
          path: tagPath(branch, name),
          json: { commit, force: options.force === true },
          repeatable: true,
        });
        if (options.json) return printJson(set);
        printLine(`s3://${set.bucket} ${CHANGED[set.change]} ${set.commit}`);
      });
    });
  withClientOptions(
    command,
    "sluice tag create v1 master.images",
    "sluice tag create v1 master.images@01KAR…",
    "sluice tag create --force latest master.images",
  );
}

const CHANGED: Record<TagSet["change"], string> = {
  made: "is commit",
  moved: "is now commit",
  none: "is commit, as before,",
};

/** A parser of names of tags, for commander. */
export function tagName(value: string): string {
  const parsed = TagName.safeParse(value);
  if (parsed.success) return value;
  throw new InvalidArgumentError(`It ${parsed.error.issues[0]?.message}.`);
}
