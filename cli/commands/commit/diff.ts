import type { Command } from "commander";
import { DiffPage, MAX_LIST_CHANGES, type PathChange } from "../../../protocol/commits.ts";
import type { ViewAddress } from "../../../protocol/names.ts";
import { type Address, openCommitIn } from "../../gateway/address.ts";
import { type Client, encodePath } from "../../gateway/client.ts";
import { commitsPath, headCommit, isSaid, noteLines, parseCommitAddress } from "../../gateway/commits.ts";
import { commitId } from "../../gateway/ids/ids.ts";
import { diffOpenCommit } from "../../gateway/open-commits.ts";
import { withClient } from "../../gateway/with-client.ts";
import { moreText, type PageOptions, wantedOf, withClientOptions, withPages } from "../../options.ts";
import { UsageError } from "../../output/failure.ts";
import { printJson, printNote, printTable, showSize } from "../../output/output.ts";

const SIZES = { byDefault: 1000, most: 1_000_000 };

/** `sluice commit diff` */
export function addCommitDiff(group: Command): void {
  const command = group
    .command("diff")
    .description(
      "Lists what differs between two commits of a branch, by path: added, changed, deleted, or metadata if only what is kept beside the bytes differs, such as the Content-Type. What was said of the other one (--message, --meta) is on stderr, and in the JSON. Of an open commit it lists what would change if it were finished now.",
    )
    .argument(
      "<bucket>",
      "<branch>.<repo>[@<commit or tag>], or the bucket of an open commit; with or without s3://",
    )
    .argument("[from]", "the one commit; by default the parent of the other")
    .argument("[to]", "the other commit, if none is behind @; by default the newest one")
    .action((text: string, from: string | undefined, to: string | undefined, options: PageOptions) => {
      const open = openCommitIn(text);
      if (open) return diffOpen(open, { others: [from, to], options });
      const { commit, ...address } = parseCommitAddress(text);
      if (commit !== undefined && to !== undefined) {
        throw new UsageError("name the newer commit once: behind '@', or as the third word");
      }
      return withClient(options, (client) =>
        diffCommits(client, { address, from, to: commit ?? to, options }),
      );
    });
  withPages(command, SIZES, { of: "path", place: "path" });
  withClientOptions(
    command,
    "sluice commit diff master.images",
    "sluice commit diff master.images 01KAR… 01KAS…",
    "sluice commit diff master.images@v1",
    "sluice commit diff s3://01kas….master.images",
    "sluice commit diff master.images 01KAR… --json | jq '.changes[].path'",
  );
}

interface TwoCommits {
  readonly address: Address;
  readonly from: string | undefined;
  readonly to: string | undefined;
  readonly options: PageOptions;
}

async function diffCommits(client: Client, { address, from, to, options }: TwoCommits): Promise<void> {
  const target = to ? await commitId(client, address, to) : await headCommit(client, address);
  const before = from && (await commitId(client, address, from));
  const path = `${commitsPath(address)}/${encodePath(target)}/diff`;
  const changes: PathChange[] = [];
  const wanted = wantedOf(options, SIZES);
  let page: DiffPage | undefined;
  // A page may be shorter than was asked for, though more follow.
  do {
    const limit = Math.min(wanted - changes.length, MAX_LIST_CHANGES);
    const query = { limit, from: before, after: page?.next ?? options.after };
    page = await client.call(DiffPage, { method: "GET", path, query });
    changes.push(...page.changes);
  } while (page.next !== null && changes.length < wanted);
  if (options.json) return printJson({ ...page, changes } satisfies DiffPage);
  if (isSaid(page) || page.imported) for (const line of noteLines(page)) printNote(line);
  printTable([["CHANGE", "SIZE", "PATH"], ...changes.map(rowOf)]);
  if (page.next !== null) printNote(moreText(options, `'${page.next}'`));
}

/** What an open commit would change if it were finished now. */
function diffOpen(
  open: ViewAddress,
  { others, options }: { others: readonly (string | undefined)[]; options: PageOptions },
): Promise<void> {
  if (others.some((commit) => commit !== undefined)) {
    throw new UsageError("an open commit is compared with the newest commit of its branch: name no other");
  }
  return withClient(options, async (client) => {
    const { after } = options;
    const page = await diffOpenCommit(client, open, { limit: wantedOf(options, SIZES), after });
    if (options.json) return printJson(page);
    printTable([["CHANGE", "SIZE", "PATH"], ...page.changes.map(rowOf)]);
    if (page.next !== null) printNote(moreText(options, `'${page.next}'`));
  });
}

function rowOf({ change, before, after, path }: PathChange): string[] {
  if (before && after && before.digest === after.digest && before.size === after.size) {
    return ["metadata", showSize(after.size), path];
  }
  const sizes = [before, after].flatMap((file) => (file ? [showSize(file.size)] : []));
  return [change, sizes.join(" -> "), path];
}
