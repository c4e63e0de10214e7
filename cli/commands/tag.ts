import { InvalidArgumentError } from "commander";
import { type Tag, TagPage, TagSet } from "../../protocol/commits.ts";
import { TagName } from "../../protocol/names.ts";
import { encodePath } from "../../protocol/requests.ts";
import { type Command, withClient } from "../command.ts";
import type { Address } from "../gateway/address.ts";
import { allPages, type Client } from "../gateway/client.ts";
import { type CommitAddress, parseBranch, parseCommitAddress, tagPath } from "../gateway/commits.ts";
import { commitId } from "../gateway/ids/ids.ts";
import { type ClientOptions, name } from "../options.ts";
import { printJson, printLine, printTable, shortener, showTime } from "../output/output.ts";

export function addTag(program: Command): void {
  program
    .group("tag")
    .summary("create, list, delete names of commits")
    .description(
      "Tags: names of commits. What a commit held is read by any S3 tool in the bucket s3://<tag>.<branch>.<repo>, which is read-only.",
    )
    .holds(addTagCreate, addTagList, addTagDelete);
}

interface CreateOptions extends ClientOptions {
  readonly force?: true;
}

function addTagCreate(group: Command): void {
  group
    .command("create")
    .description(
      "Names a commit, and prints the bucket that shows it. A tag that names another commit is moved only with --force; done again, it changes nothing.",
    )
    .argument("<name>", "a letter or digit, then letters, digits, '_' and '-'; no ULID", tagName)
    .argument(
      "<commit>",
      "<branch>.<repo>[@<commit or tag>], with or without s3://; by default the newest one",
      parseCommitAddress,
    )
    .option(
      "--force",
      "move the tag if it names another commit, which takes admin or the key that the branch is protected for",
    )
    .clientAction(async (client, name: string, address: CommitAddress, options: CreateOptions) => {
      const commit = address.commit && (await commitId(client, address, address.commit));
      const json = { commit, force: options.force === true };
      const set = await client.put(TagSet, tagPath(address, name), json);
      if (options.json) return printJson(set);
      printLine(`s3://${set.bucket} ${CHANGED[set.change]} ${set.commit}`);
    })
    .clientOptions(
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
function tagName(value: string): string {
  const parsed = TagName.safeParse(value);
  if (parsed.success) return value;
  throw new InvalidArgumentError(`It ${parsed.error.issues[0]?.message}.`);
}

function addTagList(group: Command): void {
  group
    .command("list")
    .description("Lists the tags of a repo, or of one of its branches.")
    .argument("<repo>", "the repo, or <branch>.<repo> for one branch")
    .action((text: string, options: ClientOptions) => {
      const of = isRepo(text) ? { repo: name(text) } : parseBranch(text);
      return withClient(options, async (client) => {
        const tags = await allTags(client, of);
        if (options.json) return printJson({ tags });
        const short = shortener(tags.map(({ commit }) => commit));
        const rows = tags.map((tag) => [
          tag.name,
          `s3://${tag.bucket}`,
          short(tag.commit),
          showTime(tag.createdAt),
        ]);
        printTable([["NAME", "BUCKET", "COMMIT", "CREATED"], ...rows]);
      });
    })
    .clientOptions(
      "sluice tag list images",
      "sluice tag list master.images",
      "sluice tag list images --json | jq -r '.tags[].bucket'",
    );
}

function isRepo(text: string): boolean {
  return !text.includes(".") && !text.includes(":");
}

async function allTags(
  client: Client,
  { repo, branch }: { readonly repo: string; readonly branch?: string },
): Promise<Tag[]> {
  const pages = await allPages(client.pages(TagPage, `/repos/${encodePath(repo)}/tags`, { branch }));
  return pages.flatMap(({ tags }) => tags);
}

function addTagDelete(group: Command): void {
  group
    .command("delete")
    .description(
      "Deletes a tag, which takes admin or the key that the branch is protected for. The commit is found by its id; if nothing else keeps it, it goes after 24 hours.",
    )
    .argument("<name>", "the tag", tagName)
    .argument("<bucket>", "<branch>.<repo>, with or without s3://", parseBranch)
    .clientAction(async (client, name: string, branch: Address, options: ClientOptions) => {
      await client.delete(tagPath(branch, name));
      if (options.json) printJson({ deleted: name });
      else printLine(`deleted ${name}`);
    })
    .clientOptions("sluice tag delete v1 master.images");
}
