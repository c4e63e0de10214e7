import { Option } from "commander";
import { DiffPage, MAX_LIST_CHANGES, type PathChange } from "../../../protocol/commits.ts";
import { MAX_LIST_SESSIONS, type Session } from "../../../protocol/files.ts";
import { bucketName, DEFAULT_BRANCH, type ViewAddress, viewBucket } from "../../../protocol/names.ts";
import { encodePath } from "../../../protocol/requests.ts";
import { type Command, withClient } from "../../command.ts";
import type { DiffedPage } from "../../diff/content-diff.ts";
import { type Address, openCommitIn } from "../../gateway/address.ts";
import { type Client, pagesOf, unlessRefused } from "../../gateway/client.ts";
import {
  annotationLines,
  type CommitAddress,
  commitsPath,
  headCommit,
  isSaid,
  parseCommitBucket,
} from "../../gateway/commits.ts";
import { commitId } from "../../gateway/ids/ids.ts";
import { diffOpenCommit, inspectOpenCommit } from "../../gateway/open-commits.ts";
import { moreText, type PageOptions, wantedOf } from "../../options.ts";
import { UsageError } from "../../output/failure.ts";
import { printJson, printNote, printTable, showSize } from "../../output/output.ts";

interface Options extends PageOptions {
  readonly stat?: true;
  readonly text?: true;
  /** Columns by which rows are found again; `true`: none was named. */
  readonly csv?: string | true;
  readonly path?: string;
}

const SIZES = { byDefault: 1000, most: 1_000_000 };

/** What says how much of a list is shown. */
const PAGES = ["limit", "all", "after"];

export function addCommitDiff(group: Command): void {
  group
    .command("diff")
    .description(
      "Lists what differs between two commits of a branch, by path: added, changed, deleted, or metadata if only what is kept beside the bytes differs, such as the Content-Type. What was said of the other one (--message, --meta) is on stderr, and in the JSON. Of an open commit it lists what would change if it were finished now.",
    )
    .argument(
      "<bucket>",
      "<branch>.<repo>[@<commit or tag>], or the bucket of a commit, a tag or an open commit; with or without s3://",
    )
    .argument(
      "[from]",
      "the one commit; by default the parent of the other. If it is a bucket or has an @, it is the later one, and the first word the one before",
    )
    .argument("[to]", "the other commit, if the bucket names none; by default the newest one")
    .action((text: string, from: string | undefined, to: string | undefined, options: Options) => {
      if (options.path !== undefined && !options.text && options.csv === undefined) {
        throw new UsageError("--path is for --text and --csv: a list is cut with --after and --limit");
      }
      const named = namedCommits(text, { from, to });
      return withClient(options, async (client) => {
        if (options.text || options.csv !== undefined) {
          const { printContentDiff } = await import("../../diff/content-diff.ts");
          return await printContentDiff(client, await pagesWithin(client, named), options);
        }
        const isOne = named.before === undefined;
        for (const open of named.maybeOpen) {
          if (isOne && (await diffOpen(client, open, options))) return;
          if (!isOne) await mustBeCommit(client, open);
        }
        await diffCommits(client, named, options);
      });
    })
    .addOption(
      new Option("--stat", "how many files of each kind, and their bytes before and after").conflicts(PAGES),
    )
    .addOption(
      new Option(
        "--text",
        "by line, as a unified diff of the files that differ: --path for some of them. Binary files are named",
      ).conflicts([...PAGES, "stat", "csv", "json"]),
    )
    .addOption(
      new Option(
        "--csv [columns]",
        "by row, of the .csv and .tsv files that differ, whatever the order of their rows. The columns, with commas between, say which row is which, so that a row is changed; without, rows are added or removed. Sorted among the temporary files (TMPDIR), up to 1 GiB of each side. With --stat counts alone, with --json a line for each row and for each file",
      ).conflicts(PAGES),
    )
    .option("--path <path>", "with --text or --csv: this file alone, or what is in this folder")
    .pageOptions(SIZES, { of: "path", place: "path" })
    .clientOptions(
      "sluice commit diff master.images",
      "sluice commit diff master.images 01KAR… 01KAS…",
      "sluice commit diff master.images@v1",
      "sluice commit diff images@v1 images@v2",
      "sluice commit diff s3://v1.master.images s3://v2.master.images",
      "sluice commit diff images@v1 images --stat",
      "sluice commit diff images@v1 images --text --path config/",
      "sluice commit diff prices@v1 prices --csv id,day",
      "sluice commit diff s3://01kas….master.images",
      "sluice commit diff master.images 01KAR… --json | jq '.changes[].path'",
    );
}

/** What a command line compares: commits of one branch as they were typed. */
interface NamedCommits {
  readonly address: Address;
  /** Undefined: the parent of the other. */
  readonly before: CommitText | undefined;
  readonly after: CommitText;
  /** Buckets by an id, which may be of an open commit: only the gateway knows. */
  readonly maybeOpen: readonly ViewAddress[];
}

/** A commit by its id or tag, or the newest one. */
type CommitText = string | typeof NEWEST;
const NEWEST = Symbol("the newest commit");

function namedCommits(text: string, { from, to }: { from: string | undefined; to: string | undefined }) {
  const one = parseCommitBucket(text);
  const openOne = openCommitIn(text);
  const { commit = NEWEST, ...address } = one;
  if (from === undefined || !isPlace(from, one)) {
    if (one.commit !== undefined && to !== undefined) {
      throw new UsageError("name the newer commit once: behind '@', in the bucket, or as the third word");
    }
    const maybeOpen = openOne ? [openOne] : [];
    return { address, before: from, after: to ?? commit, maybeOpen } satisfies NamedCommits;
  }
  if (to !== undefined) throw new UsageError(`'${text}' and '${from}' are two already: leave '${to}' out`);
  const other = parseCommitBucket(from);
  if (bucketName(other) !== bucketName(address)) {
    throw new UsageError(
      `'${text}' and '${from}' are of two branches, and commits are compared within one: name two of the same`,
    );
  }
  const openOther = openCommitIn(from);
  const maybeOpen = [openOne, openOther].filter((open) => open !== undefined);
  return { address, before: commit, after: other.commit ?? NEWEST, maybeOpen } satisfies NamedCommits;
}

/**
 * Whether a second word is a bucket: neither tags nor ids have any of these characters. Behind a commit that is named already,
 * the name of the repo alone is its bucket, too.
 */
function isPlace(text: string, { repo, branch, commit }: CommitAddress): boolean {
  return /[.@/]/.test(text) || (commit !== undefined && text === repo && branch === DEFAULT_BRANCH);
}

/** What differs, page by page, and the two views that have it. */
async function pagesWithin(client: Client, named: NamedCommits): Promise<AsyncGenerator<DiffedPage>> {
  for (const open of named.maybeOpen) {
    if (named.before !== undefined) await mustBeCommit(client, open);
    else if (await found(client, open)) return pagesOfOpen(client, open);
  }
  return pagesOfCommits(client, named);
}

async function* pagesOfOpen(client: Client, open: ViewAddress): AsyncGenerator<DiffedPage> {
  const { repo, branch } = open;
  const before = { repo, branch, bucket: bucketName(open), path: "" };
  const sides = { before, after: { ...open, bucket: viewBucket(open), path: "" } };
  const ask = (after: string | undefined) =>
    diffOpenCommit(client, open, { limit: MAX_LIST_SESSIONS, after });
  for await (const { changes } of pagesOf(ask)) yield { sides, changes };
}

async function* pagesOfCommits(client: Client, named: NamedCommits): AsyncGenerator<DiffedPage> {
  const { path, from } = await resolved(client, named);
  const { repo, branch } = named.address;
  const viewOf = (view: string) => ({
    repo,
    branch,
    view,
    bucket: viewBucket({ repo, branch, view }),
    path: "",
  });
  for await (const page of client.pages(DiffPage, path, { limit: MAX_LIST_CHANGES, from })) {
    const sides = { before: page.from === null ? null : viewOf(page.from), after: viewOf(page.to) };
    yield { sides, changes: page.changes };
  }
}

/** Where the gateway tells the difference, and the earlier commit's id if one is named. */
async function resolved(
  client: Client,
  { address, before, after }: NamedCommits,
): Promise<{ readonly path: string; readonly from: string | undefined }> {
  const idOf = (named: CommitText) =>
    named === NEWEST ? headCommit(client, address) : commitId(client, address, named);
  const target = await idOf(after);
  const from = before && (await idOf(before));
  return { path: `${commitsPath(address)}/${encodePath(target)}/diff`, from };
}

async function diffCommits(client: Client, named: NamedCommits, options: Options): Promise<void> {
  const { path, from: before } = await resolved(client, named);
  if (options.stat) {
    const pages = client.pages(DiffPage, path, { limit: MAX_LIST_CHANGES, from: before });
    return printStat(await statOf(pages), options);
  }
  const changes: PathChange[] = [];
  const wanted = wantedOf(options, SIZES);
  let page: DiffPage | undefined;
  // A page may be shorter than was asked for, though more follow.
  do {
    const limit = Math.min(wanted - changes.length, MAX_LIST_CHANGES);
    page = await client.get(DiffPage, path, { limit, from: before, after: page?.next ?? options.after });
    changes.push(...page.changes);
  } while (page.next !== null && changes.length < wanted);
  if (options.json) return printJson({ ...page, changes } satisfies DiffPage);
  if (isSaid(page) || page.imported) for (const line of annotationLines(page)) printNote(line);
  printChanges({ ...page, changes }, options);
}

function printChanges({ changes, next }: Pick<DiffPage, "changes" | "next">, options: Options): void {
  printTable([["CHANGE", "SIZE", "PATH"], ...changes.map(rowOf)]);
  if (next !== null) printNote(moreText(options, `'${next}'`));
}

/** Prints what an open commit would change if it were finished now, and returns false if it is none. */
async function diffOpen(client: Client, open: ViewAddress, options: Options): Promise<boolean> {
  if (options.stat) {
    const ask = (next: string | undefined) =>
      diffOpenCommit(client, open, { limit: MAX_LIST_SESSIONS, after: next });
    const stat = await unlessRefused(statOf(pagesOf(ask)), "NoSuchSession");
    if (stat) printStat(stat, options);
    return stat !== undefined;
  }
  const { after } = options;
  const asked = diffOpenCommit(client, open, { limit: wantedOf(options, SIZES), after });
  const page = await unlessRefused(asked, "NoSuchSession");
  if (page === undefined) return false;
  if (options.json) printJson(page);
  else printChanges(page, options);
  return true;
}

async function mustBeCommit(client: Client, open: ViewAddress): Promise<void> {
  if (!(await found(client, open))) return;
  throw new UsageError("an open commit is compared with the newest commit of its branch: name no other");
}

function found(client: Client, open: ViewAddress): Promise<Session | undefined> {
  return unlessRefused(inspectOpenCommit(client, open), "NoSuchSession");
}

/** Files of one kind of change. */
interface Sum {
  files: number;
  bytesBefore: number;
  bytesAfter: number;
}
const KINDS = ["added", "changed", "deleted", "metadata"] as const;
type Stat = Record<(typeof KINDS)[number], Sum>;

/** Sums up all changes, page by page. */
async function statOf(pages: AsyncIterable<Pick<DiffPage, "changes">>): Promise<Stat> {
  const none = (): Sum => ({ files: 0, bytesBefore: 0, bytesAfter: 0 });
  const stat: Stat = { added: none(), changed: none(), deleted: none(), metadata: none() };
  for await (const { changes } of pages) {
    for (const change of changes) {
      const sum = stat[kindOf(change)];
      sum.files++;
      sum.bytesBefore += change.before?.size ?? 0;
      sum.bytesAfter += change.after?.size ?? 0;
    }
  }
  return stat;
}

function printStat(stat: Stat, { json }: Options): void {
  if (json) {
    printJson({ stat });
    return;
  }
  const rows = KINDS.filter((kind) => stat[kind].files > 0).map((kind) => {
    const { files, bytesBefore, bytesAfter } = stat[kind];
    return [kind, String(files), showSize(bytesBefore), showSize(bytesAfter)];
  });
  printTable([["CHANGE", "FILES", "BEFORE", "AFTER"], ...rows]);
}

/** What is kept beside the bytes has changed alone if the bytes are the same. */
function kindOf({ change, before, after }: PathChange): (typeof KINDS)[number] {
  const isSame = before && after && before.digest === after.digest && before.size === after.size;
  return isSame ? "metadata" : change;
}

function rowOf(differs: PathChange): string[] {
  const { before, after, path } = differs;
  const kind = kindOf(differs);
  if (kind === "metadata") return [kind, showSize(after?.size ?? 0), path];
  const sizes = [before, after].flatMap((file) => (file ? [showSize(file.size)] : []));
  return [kind, sizes.join(" -> "), path];
}
