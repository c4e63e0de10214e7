import type { Command } from "commander";
import { DiffPage, MAX_LIST_CHANGES, type PathChange } from "../../../protocol/commits.ts";
import { encodePath, withClient } from "../../gateway/client.ts";
import { commitOrHead, commitsPath, isSaid, noteLines, parseBranch } from "../../gateway/commits.ts";
import { type PageOptions, wholeNumber, withClientOptions } from "../../options.ts";
import { printJson, printLine, printNote, printTable, showSize } from "../../output/output.ts";

const DEFAULT_LIMIT = 1000;
const MAX_LIMIT = 1_000_000;

/** `sluice commit diff` */
export function addCommitDiff(group: Command): void {
  const command = group
    .command("diff")
    .description(
      "Lists what differs between two commits of a branch, by path. What was said of the other one (--message, --meta) is on stderr, and in the JSON.",
    )
    .argument("<bucket>", "<branch>.<repo>, with or without s3://")
    .argument("[from]", "the one commit; by default the parent of the other")
    .argument("[to]", "the other commit; by default the newest one")
    .option(
      "--limit <number>",
      "at most so many paths",
      wholeNumber({ min: 1, max: MAX_LIMIT }),
      DEFAULT_LIMIT,
    )
    .option("--after <path>", "go on after this path of an earlier list")
    .action((text: string, from: string | undefined, to: string | undefined, options: PageOptions) => {
      const address = parseBranch(text);
      return withClient(options, async (client) => {
        const path = `${commitsPath(address)}/${encodePath(await commitOrHead(client, address, to))}/diff`;
        const changes: PathChange[] = [];
        let page: DiffPage | undefined;
        // A page may be shorter than was asked for, though more follow.
        do {
          const limit = Math.min(options.limit - changes.length, MAX_LIST_CHANGES);
          const after = page?.next ?? options.after;
          page = await client.call(DiffPage, { method: "GET", path, query: { limit, from, after } });
          changes.push(...page.changes);
        } while (page.next !== null && changes.length < options.limit);
        if (options.json) return printJson({ ...page, changes } satisfies DiffPage);
        if (isSaid(page)) for (const line of noteLines(page)) printNote(line);
        printTable([["CHANGE", "SIZE", "PATH"], ...changes.map(rowOf)]);
        if (page.next !== null) printLine(`more with --after '${page.next}'`);
      });
    });
  withClientOptions(
    command,
    "sluice commit diff master.images",
    "sluice commit diff master.images 01KAR… 01KAS…",
    "sluice commit diff master.images 01KAR… --json | jq '.changes[].path'",
  );
}

function rowOf({ change, before, after, path }: PathChange): string[] {
  const sizes = [before, after].flatMap((file) => (file ? [showSize(file.size)] : []));
  return [change, sizes.join(" -> "), path];
}
