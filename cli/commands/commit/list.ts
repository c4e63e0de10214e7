import type { Command } from "commander";
import { type Commit, CommitPage, MAX_LIST_COMMITS } from "../../../protocol/commits.ts";
import { withClient } from "../../gateway/client.ts";
import { commitsPath, parseBranch, showChanges } from "../../gateway/commits.ts";
import { type PageOptions, wholeNumber, withClientOptions } from "../../options.ts";
import { printJson, printLine, printTable, showTime } from "../../output/output.ts";

const DEFAULT_LIMIT = 20;

/** `sluice commit list` */
export function addCommitList(group: Command): void {
  const command = group
    .command("list")
    .description(
      "Lists the commits of a branch, newest first, with the jobs or the keys that made them, and what was said of them.",
    )
    .argument("<bucket>", "<branch>.<repo>, with or without s3://")
    .option(
      "--limit <number>",
      "at most so many",
      wholeNumber({ min: 1, max: MAX_LIST_COMMITS }),
      DEFAULT_LIMIT,
    )
    .option("--after <id>", "go on after this commit of an earlier list")
    .action((text: string, options: PageOptions) => {
      const address = parseBranch(text);
      return withClient(options, async (client) => {
        const { limit, after } = options;
        const path = commitsPath(address);
        const page = await client.call(CommitPage, { method: "GET", path, query: { limit, after } });
        if (options.json) return printJson(page);
        const rows = page.commits.map((commit) => [
          commit.id,
          showTime(commit.createdAt),
          showChanges(commit),
          commit.job ?? "-",
          commit.key ?? "-",
          saidText(commit),
        ]);
        printTable([["ID", "CREATED", "FILES", "JOB", "KEY", "MESSAGE"], ...rows]);
        if (page.next !== null) printLine(`more with --after ${page.next}`);
      });
    });
  withClientOptions(
    command,
    "sluice commit list master.images",
    "sluice commit list master.edges --json | jq -r '.commits[].id'",
  );
}

function saidText({ message, meta }: Commit): string {
  const entries = Object.entries(meta).map(([name, value]) => `${name}=${value}`);
  return [...(message === null ? [] : [message]), ...entries].join("  ");
}
