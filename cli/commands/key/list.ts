import type { Command } from "commander";
import { KeyPage, MAX_LIST_KEYS } from "../../../protocol/keys.ts";
import { withClient } from "../../gateway/client.ts";
import { type PageOptions, wholeNumber, withClientOptions } from "../../options.ts";
import { printJson, printLine, printTable, showRepos, showTime } from "../../output/output.ts";

const DEFAULT_LIMIT = 100;

/** `sluice key list` */
export function addKeyList(group: Command): void {
  const command = group
    .command("list")
    .description("Lists access keys by id, without their secrets. The root key is not among them.")
    .option("--limit <number>", "at most so many", wholeNumber({ min: 1, max: MAX_LIST_KEYS }), DEFAULT_LIMIT)
    .option("--after <id>", "go on after this key of an earlier list")
    .action((options: PageOptions) =>
      withClient(options, async (client) => {
        const { limit, after } = options;
        const page = await client.call(KeyPage, { method: "GET", path: "/keys", query: { limit, after } });
        if (options.json) return printJson(page);
        const rows = page.keys.map((key) => [
          key.id,
          key.level,
          showRight(key),
          showRepos(key.repos),
          showTime(key.createdAt),
          key.description,
        ]);
        printTable([["ID", "LEVEL", "PIPELINES", "REPOS", "CREATED", "DESCRIPTION"], ...rows]);
        if (page.next !== null) printLine(`more with --after ${page.next}`);
      }),
    );
  withClientOptions(command, "sluice key list", "sluice key list --json | jq '.keys[].id'");
}

/** Whether it may run pipelines; nothing for a level that never may. */
function showRight({ level, pipelines }: KeyPage["keys"][number]): string {
  if (level !== "admin") return "";
  return pipelines ? "yes" : "no";
}
