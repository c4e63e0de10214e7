import type { Command } from "commander";
import { type Tag, TagPage } from "../../../protocol/commits.ts";
import { encodePath } from "../../../protocol/requests.ts";
import type { Client } from "../../gateway/client.ts";
import { parseBranch } from "../../gateway/commits.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type ClientOptions, name, withClientOptions } from "../../options.ts";
import { printJson, printTable, shortener, showTime } from "../../output/output.ts";

/** `sluice tag list` */
export function addTagList(group: Command): void {
  const command = group
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
    });
  withClientOptions(
    command,
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
  const tags: Tag[] = [];
  let after: string | null | undefined;
  while (after !== null) {
    const path = `/repos/${encodePath(repo)}/tags`;
    const page: TagPage = await client.call(TagPage, { method: "GET", path, query: { branch, after } });
    tags.push(...page.tags);
    after = page.next;
  }
  return tags;
}
