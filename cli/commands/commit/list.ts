import { type Commit, CommitPage, MAX_LIST_COMMITS } from "../../../protocol/commits.ts";
import { KeyPage, MAX_LIST_KEYS } from "../../../protocol/keys.ts";
import type { Command } from "../../command.ts";
import type { Address } from "../../gateway/address.ts";
import { type Client, GatewayError } from "../../gateway/client.ts";
import { type CommitWords, commitsPath, parseBranch, showChanges } from "../../gateway/commits.ts";
import { commitId } from "../../gateway/ids/ids.ts";
import { listOpenCommits } from "../../gateway/open-commits.ts";
import { entriesOf, moreText, type PageOptions } from "../../options.ts";
import {
  count,
  printJson,
  printNote,
  printTable,
  shortener,
  showListTime,
  showTime,
} from "../../output/output.ts";

const SIZES = { byDefault: 20, most: MAX_LIST_COMMITS };

interface Options extends PageOptions {
  readonly open?: true;
}

export function addCommitList(group: Command): void {
  group
    .command("list")
    .description(
      "Lists the commits of a branch, newest first, with the jobs or the keys that made them, and what was said of them. A key that may list keys sees what each is for (in JSON keyDescription beside the id), others see ids.",
    )
    .argument("<bucket>", "<branch>.<repo>, with or without s3://", parseBranch)
    .option("--open", "the open commits instead, those that are not finished")
    .clientAction(async (client, address: Address, options: Options) => {
      if (options.open) return await listOpen(client, address, options);
      const after = options.after && (await commitId(client, address, options.after));
      const path = commitsPath(address);
      const from = { ...options, ...(after && { after }) };
      const { entries: commits, next } = await entriesOf(from, SIZES, async (query) => {
        const page = await client.get(CommitPage, path, query);
        return { entries: page.commits, next: page.next };
      });
      const described = await describeKeys(client, commits);
      if (options.json) return printJson({ commits: commits.map((one) => withKey(one, described)), next });
      const { isTTY } = process.stdout;
      const short = shortener(commits.flatMap(({ id, job }) => [id, ...(job === null ? [] : [job])]));
      const rows = commits.map((commit) => [
        short(commit.id),
        showListTime(commit.createdAt),
        isTTY ? shortChanges(commit) : showChanges(commit),
        commit.job === null ? "-" : short(commit.job),
        showKey(commit.key, described),
        saidText(commit),
      ]);
      printTable([["ID", "CREATED", "FILES", "JOB", "KEY", "MESSAGE"], ...rows], { below: 1 });
      if (next !== null) printNote(moreText(options, next));
    })
    .pageOptions(SIZES, { of: "commit" })
    .clientOptions(
      "sluice commit list master.images",
      "sluice commit list --open master.images",
      "sluice commit list master.edges --json | jq -r '.commits[].id'",
    );
}

async function listOpen(client: Client, address: Address, options: Options): Promise<void> {
  const open = await listOpenCommits(client, address);
  const described = await describeKeys(client, open);
  if (options.json) return printJson({ sessions: open.map((one) => withKey(one, described)) });
  const rows = open.map((commit) => [
    `s3://${commit.bucket}`,
    showListTime(commit.openedAt),
    count(commit.operations, "path"),
    commit.state === "open" ? showListTime(commit.dueAt) : commit.state,
    showKey(commit.key, described),
    saidText(commit),
  ]);
  printTable([["BUCKET", "OPENED", "HOLDS", "ENDS", "KEY", "MESSAGE"], ...rows], { below: 1 });
}

/**
 * What the keys are for that made some commits, by their ids. One without a description is missing, as are the root key, those
 * that were deleted, and those behind the first page of keys: an id that is in no page would have each list read them all.
 * If the gateway does not tell, nothing is known: only keys that handle keys may list them, and a list of commits is good
 * without.
 */
async function describeKeys(
  client: Client,
  commits: readonly { readonly key: string | null }[],
): Promise<ReadonlyMap<string, string>> {
  const wanted = new Set(commits.flatMap(({ key }) => (key === null ? [] : [key])));
  if (wanted.size === 0) return new Map();
  const { keys } = await client.get(KeyPage, "/keys", { limit: MAX_LIST_KEYS }).catch((error: unknown) => {
    if (error instanceof GatewayError) return { keys: [] };
    throw error;
  });
  const described = keys.filter(({ id, description }) => wanted.has(id) && description !== "");
  return new Map(described.map(({ id, description }) => [id, description]));
}

/** Files written, and files replaced or deleted. */
function shortChanges({ changes: { written, ended } }: Commit): string {
  return `+${written} -${ended}`;
}

/** A commit with what its key is for, if that is known. */
function withKey<Keyed extends { readonly key: string | null }>(
  commit: Keyed,
  described: ReadonlyMap<string, string>,
): Keyed & { readonly keyDescription?: string } {
  const keyDescription = commit.key === null ? undefined : described.get(commit.key);
  return { ...commit, ...(keyDescription !== undefined && { keyDescription }) };
}

/** A key by what it is for; by its id as well if another one is for the same. */
function showKey(key: string | null, described: ReadonlyMap<string, string>): string {
  if (key === null) return "-";
  const description = described.get(key);
  if (description === undefined) return key;
  const isAlone = [...described.values()].filter((other) => other === description).length === 1;
  return isAlone ? description : `${description} (${shortener([...described.keys()])(key)})`;
}

function saidText({ message, meta, redacted, imported }: Omit<CommitWords, "key">): string {
  const mark = imported ? ["(imported)"] : [];
  if (redacted) return [...mark, `(redacted ${showTime(redacted.at)} by ${redacted.by})`].join("  ");
  const entries = Object.entries(meta).map(([name, value]) => `${name}=${value}`);
  return [...mark, ...(message === null ? [] : [message]), ...entries].join("  ");
}
