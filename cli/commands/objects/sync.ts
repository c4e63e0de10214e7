import { stat } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { type Command, withClient } from "../../command.ts";
import { excluder } from "../../files/copy/wildcard.ts";
import { inPages } from "../../files/local-tree.ts";
import { progressFor } from "../../files/progress.ts";
import { applyDown, planDown, planUp, type SyncedTrees, type SyncPlan } from "../../files/sync.ts";
import { type Change, uploadAsCommit } from "../../files/upload.ts";
import { type Address, isAddress, mustTakeWrites, parseAddress, showAddress } from "../../gateway/address.ts";
import type { Client } from "../../gateway/client.ts";
import { atCommit } from "../../gateway/ids/at-commit.ts";
import { directoryPrefix, ensureBucket } from "../../gateway/objects.ts";
import { mustBeOpen } from "../../gateway/open-commits.ts";
import { type AnnotationOptions, another, type ClientOptions, says } from "../../options.ts";
import { CliError, UsageError } from "../../output/failure.ts";
import { count, printJson, printLine, printNote, showSize } from "../../output/output.ts";

interface Options extends ClientOptions, AnnotationOptions {
  readonly delete?: true;
  readonly dryRun?: true;
  readonly exclude?: readonly string[];
  readonly create?: true;
  readonly skipSpecial?: true;
  readonly commit?: string;
}

export function addSync(program: Command): void {
  program
    .command("sync")
    .summary("make a folder and a bucket alike")
    .description(
      "Copies what differs between a folder and a bucket, from the first to the second. Files are compared by what is in them, not by their times: a file that was changed and has the same size is found, and one that has the same content is left alone, its Content-Type and metadata with it. Into a bucket it is one commit, or none if nothing differs. Without --delete, what only the second one has stays there.",
    )
    .argument("<from>", "a folder, or s3://<branch>.<repo>/[path]")
    .argument("<to>", "the other of the two")
    .option("--delete", "remove what only <to> has")
    .option("--dry-run", "say what would be done, and do nothing")
    .option(
      "--exclude <pattern>",
      "leave this alone on both sides: a name, such as '*.tmp', at any depth, or with a / a path from the top, where ** stands for any folders; may be repeated",
      another,
    )
    .option("--create", "make the bucket if it does not exist")
    .option("--commit <id>", "from a bucket: as of that commit or tag")
    .option("--skip-special", "leave out symbolic links, pipes and devices instead of refusing them")
    .action((from: string, to: string, options: Options) => sync({ from, to }, options))
    .commitOptions()
    .clientOptions(
      "sluice sync photos s3://master.images/2026",
      "sluice sync --delete --exclude '*.tmp' --exclude .git . s3://master.work",
      "sluice sync --dry-run --delete photos s3://master.images",
      "sluice sync s3://master.edges ./edges",
      "sluice sync --delete --commit 01KAR… s3://master.edges ./edges",
    );
}

async function sync({ from, to }: { from: string; to: string }, options: Options): Promise<void> {
  if (isAddress(from) === isAddress(to)) {
    throw new UsageError(
      `one of '${from}' and '${to}' must be s3://<branch>.<repo>/[path] and the other a folder`,
    );
  }
  if (!isAddress(from)) {
    if (options.commit !== undefined) throw new UsageError("--commit is for a bucket that files come from");
    const found = await stat(from).catch(() => undefined);
    if (!found) throw new CliError(`${from} does not exist`, { code: "ENOENT" });
    if (!found.isDirectory()) throw new UsageError(`${from} is a file, and sync is for folders: take cp`);
    return await withClient(options, (client) =>
      up(client, treesOf({ folder: from, address: parseAddress(to) }, options), options),
    );
  }
  if (says(options.said) || options.create) {
    throw new UsageError("--message, --meta and --create are for a bucket that files go to");
  }
  await withClient(options, async (client) => {
    const address = await atCommit(client, parseAddress(from), options.commit);
    await down(client, treesOf({ folder: to, address }, options), options);
  });
}

function treesOf(
  places: Pick<SyncedTrees, "folder" | "address">,
  { exclude = [], skipSpecial }: Options,
): SyncedTrees {
  return { ...places, excludes: excluder(exclude), skipSpecial: skipSpecial === true };
}

async function up(client: Client, trees: SyncedTrees, options: Options): Promise<void> {
  const { address, folder } = trees;
  const { said } = options;
  mustTakeWrites(address, said);
  if (options.create && !options.dryRun) await ensureBucket(client, address.bucket);
  const progress = progressFor(options);
  try {
    progress.begin("comparing", 0);
    const plan = done(await planUp(client, trees, progress), options);
    progress.end();
    if (options.dryRun) return tellPlan(plan, { options, to: (path) => showAddress(address, path), address });
    const prefix = directoryPrefix(address.path);
    const pages = inPages<Change>(Readable.from(changesOf(plan, { folder, prefix })));
    const { value: first } = await pages.next();
    if (first) await mustBeOpen(client, address);
    const commit = first
      ? (await uploadAsCommit(client, { to: address, first, rest: pages, progress, said })).commit
      : null;
    tell(plan, { commit, options, address });
  } finally {
    progress.end();
  }
}

/** What goes, goes first: a file may be in the way of a folder. */
function* changesOf(
  plan: SyncPlan,
  { folder, prefix }: { folder: string; prefix: string },
): Generator<Change> {
  for (const path of plan.delete) yield { target: prefix + path, size: 0 };
  for (const { path, size, content } of plan.copy) {
    yield { source: join(folder, path), target: prefix + path, size, ...(content && { content }) };
  }
}

async function down(client: Client, trees: SyncedTrees, options: Options): Promise<void> {
  const progress = progressFor(options);
  try {
    progress.begin("comparing", 0);
    const plan = done(await planDown(client, trees, progress), options);
    mustHoldSomething(plan, trees);
    progress.end();
    if (options.dryRun) {
      return tellPlan(plan, { options, to: (path) => join(trees.folder, path), address: undefined });
    }
    await applyDown(client, trees, { plan, remove: options.delete === true, progress });
    tell(plan, { commit: null, options, address: undefined });
  } finally {
    progress.end();
  }
}

/** A path that was mistyped holds nothing either, and what is on this machine comes back from nowhere. */
function mustHoldSomething(plan: SyncPlan, { address, folder }: SyncedTrees): void {
  if (plan.copy.length + plan.same > 0 || plan.delete.length === 0) return;
  throw new CliError(
    `there is nothing at ${showAddress(address, address.path)}, so that all of ${folder} would go: empty it yourself if that is meant`,
    { code: "NoSuchKey" },
  );
}

/** Without --delete nothing goes. */
function done(plan: SyncPlan, { delete: removes }: Options): SyncPlan {
  return removes ? plan : { ...plan, delete: [] };
}

function bytesOf({ copy }: SyncPlan): number {
  return copy.reduce((sum, { size }) => sum + size, 0);
}

function tellPlan(
  plan: SyncPlan,
  { options, to, address }: { options: Options; to: (path: string) => string; address: Address | undefined },
): void {
  const prefix = address ? directoryPrefix(address.path) : "";
  if (options.json) {
    const paths = { copy: plan.copy.map(({ path }) => path), delete: plan.delete };
    printJson({ ...paths, same: plan.same, dryRun: true });
    return;
  }
  for (const path of plan.delete) printLine(`delete ${to(prefix + path)}`);
  for (const { path, size } of plan.copy) printLine(`copy   ${to(prefix + path)} (${showSize(size)})`);
  printNote(`${summary(plan)}; nothing was done (--dry-run)`);
}

function tell(
  plan: SyncPlan,
  { commit, options, address }: { commit: string | null; options: Options; address: Address | undefined },
): void {
  if (options.json) {
    const counts = { copied: plan.copy.length, deleted: plan.delete.length, same: plan.same };
    printJson({ ...counts, bytes: bytesOf(plan), ...(address && { commit }) });
    return;
  }
  const nothing = plan.copy.length + plan.delete.length === 0;
  const staged = !nothing && address?.view !== undefined ? ": staged" : "";
  printLine(`${summary(plan)}${commit === null ? staged : `: commit ${commit}`}`);
}

function summary(plan: SyncPlan): string {
  const { length: copied } = plan.copy;
  const deleted = plan.delete.length === 0 ? "" : `, ${count(plan.delete.length, "file")} deleted`;
  return `${count(copied, "file")} copied (${showSize(bytesOf(plan))})${deleted}, ${plan.same} the same`;
}
