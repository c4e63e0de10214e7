import { randomInt } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { InvalidArgumentError } from "commander";
import { type BranchAddress, bucketName, NAME_PATTERN, parseBucketName } from "../../../protocol/names.ts";
import {
  type FsckAsk,
  FsckBranches,
  type FsckFault,
  FsckPiece,
  SweepStarted,
  SweepState,
} from "../../../protocol/repos.ts";
import type { Command } from "../../command.ts";
import { branchPath } from "../../gateway/address.ts";
import { allPages, type Client, GatewayError, unlessRefused } from "../../gateway/client.ts";
import type { ClientOptions } from "../../options.ts";
import { CliError } from "../../output/failure.ts";
import { count, printJson, printLine, printNote, showSize } from "../../output/output.ts";

interface Options extends ClientOptions {
  readonly sample?: number;
  readonly sweep?: true;
}

/** What a branch was found to be like. */
interface Checked {
  readonly bucket: string;
  readonly names: number;
  readonly contents: number;
  readonly bytes: number;
  /** What does not read: the first ones, and how many more there are. */
  readonly faults: readonly FsckFault[];
  readonly moreFaults: number;
  readonly orphans: { readonly blobs: number; readonly bytes: number; readonly removed: boolean };
}

/** Most faults of a branch that are told one by one. */
const FAULTS_TOLD = 1000;
/** How often it is asked how a look for orphans stands; milliseconds. */
const LOOK_MS = 200;
/** A person who looks on hears so often how far it is; milliseconds. */
const TELL_MS = 2000;

export function addFsck(program: Command): void {
  program
    .command("fsck")
    .summary("prove that every name reads, by its digest")
    .description(
      "Proves that every name of every commit reads: that it has its content, and that the content's bytes have its digest. Without a name it checks all branches, deleted ones too as far as jobs may read them. Then it counts the blobs that nothing names, which a gateway that was killed in the middle of a body may leave; --sweep removes them. A branch removes by itself, some time later, what it knows that an upload may have left.\n\nIt ends with 0 if every name reads, with 1 if one does not; blobs that nothing names are only told. Reads and writes go on meanwhile. It needs a key of level admin that is not limited to repos.",
    )
    .argument("[name...]", "only these repos, or branches as <branch>.<repo>", names)
    .option(
      "--sample <percent>",
      "read the bytes of only so many contents in a hundred, other ones each time (default: 100)",
      percent,
    )
    .option("--sweep", "remove the blobs that nothing names")
    .clientAction(async (client, wanted: readonly string[], options: Options) => {
      const checked: Checked[] = [];
      const failed: FailedBranch[] = [];
      for (const branch of await branchesOf(client, wanted)) {
        const one = await check(client, branch, options).catch((error) => failedBranch(branch, error));
        if (!one) continue;
        if ("message" in one) failed.push(one);
        else checked.push(one);
        if (!options.json) print(one);
      }
      const damage = damageOf(checked, failed);
      if (options.json) printJson({ ok: damage === undefined, branches: checked, failed });
      if (damage) throw damage;
    })
    .clientOptions(
      "sluice fsck",
      "sluice fsck images master.labels --sample 5",
      "sluice fsck --sweep --json | jq '.branches[].orphans'",
    );
}

/** A branch whose object fails, or is lost. */
interface FailedBranch {
  readonly bucket: string;
  readonly message: string;
}

/** One branch that can't be read must not keep the others from being checked. */
function failedBranch(branch: BranchAddress, error: unknown): FailedBranch {
  if (!(error instanceof GatewayError && error.status === 500)) throw error;
  return { bucket: bucketName(branch), message: error.message };
}

/** What can't be read, all together; undefined if everything can. */
function damageOf(checked: readonly Checked[], failed: readonly FailedBranch[]): CliError | undefined {
  const contents = checked.reduce((sum, one) => sum + faultsOf(one), 0);
  const what = [
    ...(failed.length === 0 ? [] : [failed.length === 1 ? "1 branch" : `${failed.length} branches`]),
    ...(contents === 0 ? [] : [count(contents, "content")]),
  ];
  if (what.length === 0) return undefined;
  const faults = checked.flatMap(({ bucket, faults }) =>
    faults.map((fault) => ({ path: `${bucket}: ${shownNames(fault)}`, message: fault.message })),
  );
  const issues = [...failed.map(({ bucket, message }) => ({ path: bucket, message })), ...faults];
  return new CliError(`${what.join(" and ")} can't be read`, { code: "Damaged", issues });
}

/** Every branch that ever was and is wanted. */
async function branchesOf(client: Client, wanted: readonly string[]): Promise<BranchAddress[]> {
  const pages = await allPages(client.pages(FsckBranches, "/fsck"));
  const found = pages.flatMap(({ branches }) => branches);
  if (wanted.length === 0) return found;
  const isNamed = (name: string, branch: BranchAddress) => [branch.repo, bucketName(branch)].includes(name);
  const unknown = wanted.find((name) => !found.some((branch) => isNamed(name, branch)));
  if (unknown !== undefined) {
    throw new CliError(`there is no repo and no branch '${unknown}', and never was`, {
      code: "NoSuchBranch",
    });
  }
  return found.filter((branch) => wanted.some((name) => isNamed(name, branch)));
}

/** Undefined if the branch was only ever asked for. */
async function check(client: Client, branch: BranchAddress, options: Options): Promise<Checked | undefined> {
  const bucket = bucketName(branch);
  const path = branchPath(branch);
  const tell = teller(options);
  const total = { names: 0, contents: 0, bytes: 0 };
  const faults: FsckFault[] = [];
  let moreFaults = 0;
  const seed = randomInt(2 ** 32);
  const sampled = options.sample === undefined ? {} : { sample: options.sample / 100, seed };
  let after: string | null = null;
  do {
    const ask: FsckAsk = { ...sampled, ...(after !== null && { after }) };
    const asked = client.post(FsckPiece, `${path}/fsck`, { json: ask, repeatable: true });
    // A branch whose object was never made has nothing to check.
    const piece = await unlessRefused(asked, "NoSuchBranch");
    if (!piece) return undefined;
    total.names += piece.names;
    total.contents += piece.contents;
    total.bytes += piece.bytes;
    const told = piece.faults.slice(0, FAULTS_TOLD - faults.length);
    faults.push(...told);
    moreFaults += piece.faults.length - told.length;
    after = piece.next;
    tell(() => `${bucket}: ${showTotal(total)}, ${Math.floor(100 * piece.done)} %`);
  } while (after !== null);
  const orphans = await sweep(client, {
    path: `${path}/sweep`,
    remove: options.sweep === true,
    tell,
    bucket,
  });
  return { bucket, ...total, faults, moreFaults, orphans };
}

function faultsOf({ faults, moreFaults }: Pick<Checked, "faults" | "moreFaults">): number {
  return faults.length + moreFaults;
}

async function sweep(
  client: Client,
  { path, remove, tell, bucket }: { path: string; remove: boolean; tell: Teller; bucket: string },
): Promise<Checked["orphans"]> {
  const { since } = await client.post(SweepStarted, path, { json: { remove }, repeatable: true });
  for (;;) {
    const state = await client.get(SweepState, path, { since });
    if (state.done) return { blobs: state.found, bytes: state.foundBytes, removed: remove };
    tell(() => `${bucket}: ${count(state.seen, "blob")} looked up`);
    await pause(LOOK_MS);
  }
}

type Teller = (text: () => string) => void;

/** Says now and then how far it is, if a person looks on. */
function teller({ json }: Options): Teller {
  if (json || !process.stderr.isTTY) return () => {};
  let told = performance.now();
  return (text) => {
    if (performance.now() - told < TELL_MS) return;
    told = performance.now();
    printNote(text());
  };
}

function print(one: Checked | FailedBranch): void {
  if ("message" in one) {
    printLine(`${one.bucket}: can't be read`);
    return;
  }
  const { bucket, orphans, ...checked } = one;
  const faults = faultsOf(checked);
  const verdict = faults === 0 ? "good" : `${count(faults, "content")} can't be read`;
  printLine(`${bucket}: ${verdict}; ${showTotal(checked)}`);
  if (orphans.blobs === 0) return;
  const what = `${count(orphans.blobs, "blob")} (${showSize(orphans.bytes)}) that nothing names`;
  printLine(orphans.removed ? `  ${what}, removed` : `  ${what}; --sweep removes them`);
}

function showTotal({ names, contents, bytes }: Pick<Checked, "names" | "contents" | "bytes">): string {
  return `${count(names, "name")}, ${count(contents, "content")}, ${showSize(bytes)}`;
}

/** What a fault is about, for people: some of its names, or the content that has none. */
function shownNames({
  names,
  content,
  pinnedFor = [],
}: Pick<FsckFault, "names" | "content" | "pinnedFor">): string {
  const shown = names.map(({ path, commit }) => (commit === null ? path : `${path}?versionId=${commit}`));
  const what = shown.join(", ") || `content ${content}`;
  const forks = pinnedFor.map((bucket) => `s3://${bucket}`).join(", ");
  return forks === "" ? what : `${what}, erased here and kept for ${forks}`;
}

function percent(text: string): number {
  const value = /^\d{1,3}(\.\d{1,6})?$/.test(text) ? Number(text) : Number.NaN;
  if (value > 0 && value <= 100) return value;
  throw new InvalidArgumentError("It must be a number above 0, up to 100.");
}

function names(text: string, before: readonly string[] = []): string[] {
  const name = text.replace(/^s3:\/\//, "").replace(/\/$/, "");
  if (NAME_PATTERN.test(name) || parseBucketName(name)) return [...before, name];
  throw new InvalidArgumentError("It must be a repo, or a branch as <branch>.<repo>.");
}
