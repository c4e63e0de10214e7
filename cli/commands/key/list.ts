import type { Command } from "commander";
import { KeyPage, MAX_LIST_KEYS } from "../../../protocol/keys.ts";
import { withClient } from "../../gateway/with-client.ts";
import { entriesOf, moreText, type PageOptions, withClientOptions, withPages } from "../../options.ts";
import { printJson, printNote, printTable, showListTime, showRepos } from "../../output/output.ts";

const SIZES = { byDefault: 100, most: MAX_LIST_KEYS };

/** `sluice key list` */
export function addKeyList(group: Command): void {
  const command = group
    .command("list")
    .description(
      "Lists access keys by id, without their secrets, each with the time at which it expires and the last day (of UTC) on which it was used. A key that has expired is refused, and stays in the list until it is deleted. The root key is not among them.",
    )
    .action((options: PageOptions) =>
      withClient(options, async (client) => {
        const { entries: keys, next } = await entriesOf(options, SIZES, async (query) => {
          const page = await client.call(KeyPage, { method: "GET", path: "/keys", query });
          return { entries: page.keys, next: page.next };
        });
        if (options.json) return printJson({ keys, next } satisfies KeyPage);
        const rows = keys.map((key) => [
          key.id,
          key.level,
          showRight(key),
          showRepos(key.repos),
          showListTime(key.createdAt),
          showExpiry(key),
          key.lastUsedOn ?? "-",
          key.description,
        ]);
        const heading = [
          "ID",
          "LEVEL",
          "PIPELINES",
          "REPOS",
          "CREATED",
          "EXPIRES",
          "LAST USED",
          "DESCRIPTION",
        ];
        printTable([heading, ...rows], { below: 1 });
        if (next !== null) printNote(moreText(options, next));
      }),
    );
  withPages(command, SIZES, { of: "key" });
  withClientOptions(command, "sluice key list", "sluice key list --json | jq '.keys[].id'");
}

function showExpiry({ expiresAt, expired }: KeyPage["keys"][number]): string {
  if (expiresAt === undefined) return "never";
  return expired ? "expired" : showListTime(expiresAt);
}

/** Whether it may run pipelines; nothing for a level that never may. */
function showRight({ level, pipelines }: KeyPage["keys"][number]): string {
  if (level !== "admin") return "";
  return pipelines ? "yes" : "no";
}
