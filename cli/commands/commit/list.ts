import type { Command } from "commander";
import { type Commit, CommitPage, MAX_LIST_COMMITS } from "../../../protocol/commits.ts";
import type { Address } from "../../gateway/address.ts";
import { commitsPath, parseBranch, showChanges } from "../../gateway/commits.ts";
import { commitId } from "../../gateway/ids/ids.ts";
import { listOpenCommits } from "../../gateway/open-commits.ts";
import { withClient } from "../../gateway/with-client.ts";
import { entriesOf, moreText, type PageOptions, withClientOptions, withPages } from "../../options.ts";
import { count, printJson, printNote, printTable, shortener, showTime } from "../../output/output.ts";

const SIZES = { byDefault: 20, most: MAX_LIST_COMMITS };

interface Options extends PageOptions {
  readonly open?: true;
}

/** `sluice commit list` */
export function addCommitList(group: Command): void {
  const command = group
    .command("list")
    .description(
      "Lists the commits of a branch, newest first, with the jobs or the keys that made them, and what was said of them.",
    )
    .argument("<bucket>", "<branch>.<repo>, with or without s3://")
    .option("--open", "the open commits instead, those that are not finished")
    .action((text: string, options: Options) => {
      const address = parseBranch(text);
      if (options.open) return listOpen(address, options);
      return withClient(options, async (client) => {
        const after = options.after && (await commitId(client, address, options.after));
        const path = commitsPath(address);
        const from = { ...options, ...(after && { after }) };
        const { entries: commits, next } = await entriesOf(from, SIZES, async (query) => {
          const page = await client.call(CommitPage, { method: "GET", path, query });
          return { entries: page.commits, next: page.next };
        });
        if (options.json) return printJson({ commits, next } satisfies CommitPage);
        const short = shortener(commits.flatMap(({ id, job }) => [id, ...(job === null ? [] : [job])]));
        const rows = commits.map((commit) => [
          short(commit.id),
          showTime(commit.createdAt),
          showChanges(commit),
          commit.job === null ? "-" : short(commit.job),
          commit.key ?? "-",
          saidText(commit),
        ]);
        printTable([["ID", "CREATED", "FILES", "JOB", "KEY", "MESSAGE"], ...rows]);
        if (next !== null) printNote(moreText(options, next));
      });
    });
  withPages(command, SIZES, { of: "commit" });
  withClientOptions(
    command,
    "sluice commit list master.images",
    "sluice commit list --open master.images",
    "sluice commit list master.edges --json | jq -r '.commits[].id'",
  );
}

function listOpen(address: Address, options: Options): Promise<void> {
  return withClient(options, async (client) => {
    const open = await listOpenCommits(client, address);
    if (options.json) return printJson({ sessions: open });
    const rows = open.map((commit) => [
      `s3://${commit.bucket}`,
      showTime(commit.openedAt),
      count(commit.operations, "path"),
      commit.state === "open" ? showTime(commit.dueAt) : commit.state,
      commit.key ?? "-",
      saidText(commit),
    ]);
    printTable([["BUCKET", "OPENED", "HOLDS", "ENDS", "KEY", "MESSAGE"], ...rows]);
  });
}

function saidText({
  message,
  meta,
  redacted,
  imported,
}: Pick<Commit, "message" | "meta" | "redacted" | "imported">): string {
  const mark = imported ? ["(imported)"] : [];
  if (redacted) return [...mark, `(redacted ${showTime(redacted.at)} by ${redacted.by})`].join("  ");
  const entries = Object.entries(meta).map(([name, value]) => `${name}=${value}`);
  return [...mark, ...(message === null ? [] : [message]), ...entries].join("  ");
}
