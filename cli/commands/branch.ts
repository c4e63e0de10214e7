import { Argument } from "commander";
import { bucketName } from "../../protocol/names.ts";
import {
  type BranchDetail,
  BranchEmptyOnly,
  BranchKeep,
  BranchLastModified,
  BranchList,
  BranchProtection,
  BranchPublic,
  BranchReads,
  type BranchWriter,
  type Forking,
  type Keep,
  LAST_MODIFIED,
  type Place,
  READS,
} from "../../protocol/repos.ts";
import { encodePath } from "../../protocol/requests.ts";
import { type Command, withClient } from "../command.ts";
import { progressFor } from "../files/progress.ts";
import { type Address, branchPath } from "../gateway/address.ts";
import { createBranch, inspectBranch } from "../gateway/branches.ts";
import { type Client, unlessRefused } from "../gateway/client.ts";
import { type CommitAddress, parseBranch, parseCommitAddress } from "../gateway/commits.ts";
import { commitId, keyId } from "../gateway/ids/ids.ts";
import { type ClientOptions, name, onOrOff, wholeNumber } from "../options.ts";
import { UsageError } from "../output/failure.ts";
import { printJson, printLine, printTable, showTime } from "../output/output.ts";
import { addBranchDelete, REGION_HELP } from "./objects/buckets.ts";

export function addBranch(program: Command): void {
  program
    .group("branch")
    .summary(
      "list, inspect, create, delete branches; make them public, protect them, say how much of their history stays, what Last-Modified is, how old reads may be, and when S3 tools delete them",
    )
    .description("Branches: each is a bucket, s3://<branch>.<repo>.")
    .holds(
      addBranchList,
      addBranchInspect,
      addBranchCreate,
      addBranchDelete,
      addBranchPublic,
      addBranchProtect,
      addBranchKeep,
      addBranchLastModified,
      addBranchEmptyOnly,
      addBranchReads,
    );
}

function addBranchInspect(group: Command): void {
  group
    .command("inspect")
    .description(
      "Shows a branch: its newest commit, what it was made from, how much of its history stays, and its other settings.",
    )
    .argument("<branch>", "<branch>.<repo>, with or without s3://", parseBranch)
    .clientAction(async (client, address: Address, options: ClientOptions) => {
      const detail = await inspectBranch(client, address);
      if (options.json) return printJson(detail);
      for (const line of branchLines(detail, address)) printLine(line);
    })
    .clientOptions(
      "sluice branch inspect master.images",
      "sluice branch inspect master.images --json | jq .keep",
    );
}

/** A branch for people, without what is known only once it can be read. */
function branchLines(detail: BranchDetail, { bucket }: Pick<Address, "bucket">): string[] {
  const { createdAt, head, from, imported, forking, keep, lastModified, emptyOnly, reads } = detail;
  const { public: isPublic, writer, place } = detail;
  return [
    `branch         s3://${bucket}`,
    `created        ${showTime(createdAt)}`,
    `newest commit  ${head ?? "-"}`,
    ...(from ? [`made from      s3://${from.branch}.${from.repo} at ${from.commit ?? "no commit"}`] : []),
    ...(imported
      ? [`imported       ${showTime(imported.at)}${imported.by === null ? "" : ` by ${imported.by}`}`]
      : []),
    ...(place ? [`place          ${showPlace(place)}`] : []),
    `state          ${forking ? showForking(forking) : "ready"}`,
    ...(keep === undefined ? [] : [`keeps          ${showKeep(keep)}`]),
    ...(lastModified === undefined ? [] : [`last-modified  ${showLastModified(lastModified)}`]),
    ...(emptyOnly === undefined ? [] : [`empty-only     ${emptyOnly ? "yes" : "no"}`]),
    ...(reads === undefined ? [] : [`reads          ${AGES[reads]}`]),
    ...(isPublic === undefined ? [] : [`public         ${isPublic ? "yes" : "no"}`]),
    ...(writer === undefined
      ? []
      : [`written by     ${writer ? showWriter(writer) : "whoever may write in the repo"}`]),
  ];
}

function addBranchEmptyOnly(group: Command): void {
  group
    .command("empty-only")
    .description(
      "Sets whether S3 tools delete the bucket only while it is empty, as they do elsewhere: with 'on' their DeleteBucket answers BucketNotEmpty while the branch has a file, whatever its history has. 'sluice rb --force' and the console delete it all the same. Deleting the branch ends the setting. Needs the level admin.",
    )
    .argument("<branch>", "<branch>.<repo>, with or without s3://", parseBranch)
    .argument("<on|off>", "whether it has to be empty", onOrOff)
    .clientAction(async (client, address: Address, emptyOnly: boolean, options: ClientOptions) => {
      const { bucket } = address;
      const set = await client.put(BranchEmptyOnly, `${branchPath(address)}/empty-only`, { emptyOnly });
      if (options.json) return printJson(set);
      printLine(
        `S3 tools delete s3://${bucket} ${set.emptyOnly ? "only while it is empty" : "with its files"}`,
      );
    })
    .clientOptions(
      "sluice branch empty-only master.images on",
      "sluice branch empty-only s3://master.images off",
    );
}

const AGES = {
  fresh: "of the moment",
  near: "up to five seconds old",
} as const;

function addBranchReads(group: Command): void {
  group
    .command("reads")
    .description(
      "Sets how old what GET and HEAD answer of the newest state may be. With 'fresh', which is the default, each is true of a moment between question and answer, wherever the branch is. With 'near' a gateway on Cloudflare answers for up to five seconds by what it read before, without asking the branch: x-sluice-age says how many seconds that is ago. Listings, reads with a condition and writes stay fresh. Deleting the branch ends the setting. Needs the level admin.",
    )
    .argument("<branch>", "<branch>.<repo>, with or without s3://", parseBranch)
    .addArgument(new Argument("<fresh|near>", "how old they may be").choices(READS))
    .clientAction(async (client, address: Address, reads: (typeof READS)[number], options: ClientOptions) => {
      const set = await client.put(BranchReads, `${branchPath(address)}/reads`, { reads });
      if (options.json) return printJson(set);
      printLine(`what is read of s3://${address.bucket} is ${AGES[set.reads]}`);
    })
    .clientOptions("sluice branch reads master.site near", "sluice branch reads s3://master.site fresh");
}

function addBranchPublic(group: Command): void {
  group
    .command("public")
    .description(
      "Makes a branch public, or ends that. Anybody reads and lists a public branch without a key, and its commits and tags, so also what was deleted there; but no open commits. 'off' holds at once. Deleting the branch ends it, too.\n\nBrowsers show its files in a sandbox if the gateway's own address is used. Which pages from elsewhere may read them is said by the CORS rules of the bucket ('aws s3api put-bucket-cors').",
    )
    .argument("<branch>", "<branch>.<repo>, with or without s3://", parseBranch)
    .argument("<on|off>", "whether everybody may read it", onOrOff)
    .clientAction(async (client, address: Address, isPublic: boolean, options: ClientOptions) => {
      const { bucket } = address;
      const set = await client.put(BranchPublic, `${branchPath(address)}/public`, { public: isPublic });
      if (options.json) return printJson(set);
      printLine(
        set.public
          ? `s3://${bucket} is public: everybody may read it without a key`
          : `s3://${bucket} is not public: only keys read it`,
      );
    })
    .clientOptions("sluice branch public master.docs on", "sluice branch public s3://master.docs off");
}

const WORDS = {
  object: "the time when it was last written",
  branch: "the time of the branch's newest commit",
} as const;

type Whose = (typeof LAST_MODIFIED)[number] | "default";

export function addBranchLastModified(group: Command): void {
  group
    .command("last-modified")
    .description(
      "Sets what Last-Modified of an object of the branch is: with 'object' the time when it was last written, as tools expect that compare times, such as 'aws s3 sync'; with 'branch' that of the branch's newest commit. 'default' is what the gateway is set to (SLUICE_LAST_MODIFIED). Deleting the branch ends the setting.",
    )
    .argument("<branch>", "<branch>.<repo>, with or without s3://", parseBranch)
    .addArgument(
      new Argument("<object|branch|default>", "whose time it is").choices([...LAST_MODIFIED, "default"]),
    )
    .clientAction(async (client, address: Address, whose: Whose, options: ClientOptions) => {
      const json = { lastModified: whose === "default" ? null : whose };
      const set = await client.put(BranchLastModified, `${branchPath(address)}/last-modified`, json);
      if (options.json) return printJson(set);
      printLine(`Last-Modified in s3://${address.bucket} is ${showLastModified(set.lastModified)}`);
    })
    .clientOptions(
      "sluice branch last-modified master.images object",
      "sluice branch last-modified s3://master.images default",
    );
}

/** Whose time Last-Modified is, in words. */
export function showLastModified(whose: BranchLastModified["lastModified"]): string {
  return whose === null ? "what the gateway is set to" : WORDS[whose];
}

export function addBranchList(group: Command): void {
  group
    .command("list")
    .description(
      "Lists the branches of a repo, with the region that each was made to live in, and how much of its history each keeps. One that is made from a commit of another branch is shown with how far it is until it can be read.",
    )
    .argument("<repo>", "the repo", name)
    .clientAction(async (client, repo: string, options: ClientOptions) => {
      const list = await client.get(BranchList, `/repos/${encodePath(repo)}/branches`);
      const branches = await withKeep(client, { repo, branches: list.branches });
      if (options.json) return printJson({ ...list, branches });
      const rows = branches.map(
        ({ name: branch, createdAt, public: isPublic, writer, keep, forking, place }) => [
          branch,
          `s3://${bucketName({ repo, branch })}`,
          showTime(createdAt),
          place ? showPlace(place) : "-",
          isPublic ? "yes" : "-",
          writer ? showWriter(writer) : "-",
          keep === undefined ? "-" : showKeep(keep),
          forking ? showForking(forking) : "ready",
        ],
      );
      printTable([["NAME", "BUCKET", "CREATED", "PLACE", "PUBLIC", "WRITTEN BY", "KEEPS", "STATE"], ...rows]);
    })
    .clientOptions("sluice branch list images", "sluice branch list images --json | jq '.branches[].name'");
}

type Listed = BranchList["branches"][number];

/** Branches that are asked at once. */
const ASKED_AT_ONCE = 16;

type Keeps = BranchDetail["keep"] | undefined;

/**
 * Each branch with how much of its history it keeps, which the branch itself knows: the gateway's list does not. Undefined if it
 * was deleted meanwhile.
 */
async function withKeep(
  client: Client,
  { repo, branches }: { repo: string; branches: readonly Listed[] },
): Promise<(Listed & { readonly keep: Keeps })[]> {
  const asked = [...branches];
  const keeps = new Map<string, Keeps>();
  const ask = async (): Promise<void> => {
    for (let next = asked.pop(); next; next = asked.pop()) {
      const detail = await unlessRefused(inspectBranch(client, { repo, branch: next.name }), 404);
      keeps.set(next.name, detail?.keep);
    }
  };
  await Promise.all(Array.from({ length: ASKED_AT_ONCE }, ask));
  return branches.map((branch) => ({ ...branch, keep: keeps.get(branch.name) }));
}

/** Such as "eu-west-1 (weur)". */
function showPlace({ region, hint }: Place): string {
  return region === hint ? region : `${region} (${hint ?? "anywhere"})`;
}

/** How far a branch is that is made from a commit of another one. */
export function showForking({ copied, total }: Forking): string {
  return `forking ${copied.toLocaleString("en")} of ${total.toLocaleString("en")}`;
}

interface CreateOptions extends ClientOptions {
  readonly from?: CommitAddress;
  readonly region?: string;
  readonly wait: boolean;
}

/** The first pause between two looks at how far a fork is. Each is twice as long as the one before, up to the last. */
const FIRST_PAUSE_MS = 50;
const LAST_PAUSE_MS = 1000;

export function addBranchCreate(group: Command): void {
  group
    .command("create")
    .description(
      "Makes a branch, and its repo if that does not exist yet. With --from it has what a commit of another branch has: names are copied and bytes are not, so it costs the same however large the files are, and from then on each branch goes its own way. It may be deleted, and so may the other one, without a loss to either. Needs admin on the new branch's repo and read on the other's. Done again with the same --from, it does the same as before.",
    )
    .argument("<branch>", "<branch>.<repo>, with or without s3://", parseBranch)
    .option(
      "--from <branch[@commit]>",
      "<branch>.<repo> to begin with: its newest commit, or the one of this id or tag",
      parseCommitAddress,
    )
    .option("--region <region>", `${REGION_HELP}; not with --from, which lives where the other branch does`)
    .option("--no-wait", "end as soon as the branch is there, before it can be read")
    .clientAction(async (client, address: Address, options: CreateOptions) => {
      const { from } = options;
      const commit = from?.commit && (await commitId(client, from, from.commit));
      const source = from && { ...from, ...(commit && { commit }) };
      let made = await createBranch(client, { address, from: source, region: options.region });
      if (options.wait && made.forking) made = await forked(client, { made, address, options });
      if (options.json) return printJson(made);
      printLine(`made s3://${address.bucket}${sourceOf(made)}`);
      if (made.forking) printLine("its files are on their way: 'sluice branch list' shows how far it is");
    })
    .clientOptions(
      "sluice branch create experiment.images --from master.images",
      "sluice branch create last-week.images --from master.images@01KAR…",
      "sluice branch create hotfix.images --from master.images@v1",
      "sluice branch create drafts.texts",
    );
}

/** Waits until a fork can be read. */
async function forked(
  client: Client,
  { made, address, options }: { made: BranchDetail; address: Address; options: CreateOptions },
): Promise<BranchDetail> {
  const progress = progressFor(options, "files");
  let branch = made;
  let shown = 0;
  progress.begin(`forking ${address.bucket}`, made.forking?.total ?? 0);
  try {
    for (let pause = FIRST_PAUSE_MS; branch.forking; pause = Math.min(2 * pause, LAST_PAUSE_MS)) {
      progress.advance(branch.forking.copied - shown);
      shown = branch.forking.copied;
      await new Promise((resolve) => setTimeout(resolve, pause));
      branch = await inspectBranch(client, address);
    }
    return branch;
  } finally {
    progress.end();
  }
}

function sourceOf({ from }: BranchDetail): string {
  if (!from) return "";
  const commit = from.commit === null ? " without commits" : ` at ${from.commit}`;
  return ` from s3://${from.branch}.${from.repo}${commit}`;
}

interface KeepOptions extends ClientOptions {
  readonly commits?: number;
  readonly days?: number;
  readonly all?: true;
}

export function addBranchKeep(group: Command): void {
  group
    .command("keep")
    .description(
      "Says how much of a branch's history stays, or shows it. With --commits and --days together, a commit stays while either says so. The newest commit always stays. Commits that are older answer NoSuchVersion from then on and do not come back, also if more is kept later; the space of what only they had is given back in the background.\n\nWhat a tag names, a branch was made from, an open commit began with or an input of a pipeline starts after stays for as long as that does, and so does what pipelines have not worked off. Needs the level admin.",
    )
    .argument("<branch>", "<branch>.<repo>, with or without s3://")
    .option(
      "--commits <n>",
      "the newest commits stay, so many of them",
      wholeNumber({ min: 1, max: 1_000_000_000 }),
    )
    .option(
      "--days <n>",
      "a commit stays until the next one is so many days old",
      wholeNumber({ min: 1, max: 36_500 }),
    )
    .option("--all", "all of the history stays from now on, which is the default")
    .action((text: string, options: KeepOptions) => {
      const keep = askedKeep(options);
      const address = parseBranch(text);
      return withClient(options, async (client) => {
        const set =
          keep === undefined
            ? await inspectBranch(client, address)
            : await client.put(BranchKeep, `${branchPath(address)}/keep`, { keep });
        if (options.json) return printJson({ keep: set.keep });
        printLine(`s3://${address.bucket} keeps ${showKeep(set.keep)}`);
      });
    })
    .clientOptions(
      "sluice branch keep master.images --commits 100 --days 30",
      "sluice branch keep master.images --all",
      "sluice branch keep master.images",
    );
}

/** Undefined: nothing is to be set. */
function askedKeep({ commits, days, all }: KeepOptions): Keep | null | undefined {
  const isSome = commits !== undefined || days !== undefined;
  if (all && isSome) throw new UsageError("give --all alone, or --commits, --days or both");
  if (all) return null;
  if (!isSome) return undefined;
  return { ...(commits !== undefined && { commits }), ...(days !== undefined && { days }) };
}

/** Such as "the newest 100 commits". */
export function showKeep(keep: Keep | null): string {
  if (keep === null) return "all of its history";
  const { commits, days } = keep;
  const said = [
    ...(commits === undefined ? [] : [commits === 1 ? "the newest commit" : `the newest ${commits} commits`]),
    ...(days === undefined ? [] : [`what was replaced within ${days === 1 ? "a day" : `${days} days`}`]),
  ];
  return said.join(" and ");
}

interface ProtectOptions extends ClientOptions {
  readonly pipeline?: string;
  readonly key?: string;
  readonly off?: true;
}

export function addBranchProtect(group: Command): void {
  group
    .command("protect")
    .description(
      "Lets one access key alone, or one pipeline, write to a branch, or ends that. Every other write is refused, also that of the root key: puts, deletions, commits, open commits and uploads that began before, and the deletion of the branch. A key with the level admin can always end it with --off.\n\nThe output of a pipeline is written by its jobs alone anyway; --pipeline keeps it so when the pipeline is deleted and its output stays.",
    )
    .argument("<branch>", "<branch>.<repo>, with or without s3://")
    .option("--key <id>", "only this access key may write; how its id begins is enough")
    .option("--pipeline <name>", "only this pipeline may write, whose output the branch is", name)
    .option("--off", "whoever may write in the repo may write again")
    .action((text: string, options: ProtectOptions) => {
      const address = parseBranch(text);
      const { bucket } = address;
      const asked = writerOf(options);
      return withClient(options, async (client) => {
        const writer = asked && "key" in asked ? { key: await keyId(client, asked.key) } : asked;
        const set = await client.put(BranchProtection, `${branchPath(address)}/writer`, { writer });
        if (options.json) return printJson(set);
        printLine(
          set.writer === null
            ? `s3://${bucket} is not protected`
            : `s3://${bucket} is protected: only ${showWriter(set.writer)} may write to it`,
        );
      });
    })
    .clientOptions(
      "sluice branch protect master.images --key SLUICE0123456789ABCD",
      "sluice branch protect master.edges --pipeline edges",
      "sluice branch protect master.images --off",
    );
}

/** Such as "the pipeline edges". */
export function showWriter(writer: BranchWriter): string {
  return "key" in writer ? `the key ${writer.key}` : `the pipeline ${writer.pipeline}`;
}

function writerOf({ pipeline, key, off }: ProtectOptions): BranchWriter | null {
  const given = [pipeline, key, off].filter((option) => option !== undefined);
  if (given.length !== 1) throw new UsageError("give one of --key, --pipeline and --off");
  if (key !== undefined) return { key };
  return pipeline === undefined ? null : { pipeline };
}
