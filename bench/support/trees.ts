import { MAX_COMMIT_OPERATIONS } from "../../protocol/files.ts";
import type { BranchAddress } from "../../protocol/names.ts";
import { commitTexts } from "./bulk-commit.ts";
import { Control } from "./control.ts";
import { type BenchGateway, startBenchGateway } from "./servers.ts";

/** Folders of every tree, so that a delimiter listing of the root is one full page whatever the size. */
const FOLDERS = 1000;
/** Commits that rewrite the first files of a tree after it is filled, and files that each rewrites: a past worth asking for. */
const REWRITES = 60;
const REWRITTEN_FILES = 1000;

/** A branch with `files` small files in 1,000 folders, each content different. */
export interface Tree extends BranchAddress {
  readonly files: number;
  /** The commit that completed the tree: 60,000 changes ago. */
  readonly filled: string;
  /** The last commit but one: 1,000 changes ago. */
  readonly previous: string;
}

/** Trees of several sizes in one gateway, smallest first. */
export interface Trees {
  readonly gateway: BenchGateway;
  readonly control: Control;
  readonly all: readonly Tree[];
  stop(): Promise<void>;
}

/** Starts a gateway and fills a tree of each size, through the control API. */
export async function growTrees(sizes: readonly number[], say: (message: string) => void): Promise<Trees> {
  const gateway = await startBenchGateway();
  const control = new Control(gateway.door);
  const stop = async (): Promise<void> => {
    await control.close();
    await gateway.stop();
  };
  try {
    const all: Tree[] = [];
    for (const files of sizes) {
      const startedAt = performance.now();
      all.push(await growTree(control, files));
      const seconds = (performance.now() - startedAt) / 1000;
      say(`filled a branch with ${files} files in ${seconds.toFixed(1)} s`);
    }
    return { gateway, control, all, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Makes one tree. */
export async function growTree(control: Control, files: number): Promise<Tree> {
  const address = { repo: `tree-${files}`, branch: "master" };
  await control.createBranch(address);
  const commits: string[] = [];
  for (let first = 0; first < files; first += MAX_COMMIT_OPERATIONS) {
    const count = Math.min(MAX_COMMIT_OPERATIONS, files - first);
    commits.push(await commitFiles(control, { address, files, first, count, version: 0 }));
  }
  const filled = commits.at(-1) ?? "";
  for (let version = 1; version <= REWRITES; version++) {
    const slice = { address, files, first: 0, count: Math.min(REWRITTEN_FILES, files), version };
    commits.push(await commitFiles(control, slice));
  }
  return { ...address, files, filled, previous: commits.at(-2) ?? "" };
}

interface Slice {
  readonly address: BranchAddress;
  /** Of the whole tree. */
  readonly files: number;
  readonly first: number;
  readonly count: number;
  readonly version: number;
}

async function commitFiles(control: Control, slice: Slice): Promise<string> {
  const { address, files, first, count, version } = slice;
  const texts = Array.from({ length: count }, (_, i) => {
    const path = pathOf(first + i, files);
    return { path, text: `${path} in its version ${version}\n` };
  });
  return commitTexts(control, { address, files: texts });
}

/** The path of a file of a tree, by its place in the order of the paths, e.g. `d0042/f0000042`. */
export function pathOf(index: number, files: number): string {
  return `${folderOf(Math.floor(index / Math.ceil(files / FOLDERS)))}/f${String(index).padStart(7, "0")}`;
}

/** One of the folders of every tree. */
export function folderOf(index: number): string {
  return `d${String(index % FOLDERS).padStart(4, "0")}`;
}
