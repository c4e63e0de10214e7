import { request } from "undici";
import { type BranchAddress, bucketName } from "../../protocol/names.ts";
import { startRunner } from "../../test/support/dev-server.ts";
import type { Door } from "../../test/support/keys.ts";
import { removeScratch, scratchFolder } from "../../test/support/scratch.ts";
import type { TextFile } from "./bulk-commit.ts";
import { Control } from "./control.ts";
import { newestJobEnd } from "./job-end.ts";
import { startOwnGateway } from "./own-gateway.ts";
import { type BenchGateway, startBenchGateway } from "./servers.ts";
import { folderOf, pathOf } from "./trees.ts";

const FIXTURE = new URL("../workers/fixture.js", import.meta.url);
/** Files in one call of the fixture. */
const SLICE = 5000;

/** Copies each file of its input, which is one datum. */
export const COPY = { cmd: ["sh"], stdin: ["cp -r /pfs/in/* /pfs/out/"] };

/** A branch with about `files` small files, and a pipeline that has copied them all, one datum each. */
export interface SettledTree extends BranchAddress {
  readonly files: number;
  readonly pipeline: string;
}

/** Trees of several sizes in one gateway, smallest first. */
export interface SettledTrees {
  readonly gateway: BenchGateway;
  readonly control: Control;
  readonly all: readonly SettledTree[];
  stop(): Promise<void>;
}

/**
 * Each pipeline runs one real job, of one file. The fixture Worker (bench/workers/fixture.js) then adds the other
 * files as if that job had copied them, and the real gateway takes over the data.
 */
export async function growSettledTrees(
  sizes: readonly number[],
  say: (message: string) => void,
): Promise<SettledTrees> {
  const all = sizes.map((files) => ({
    repo: `settled-${files}`,
    branch: "master",
    files,
    pipeline: `copy-${files}`,
  }));
  const dataDir = scratchFolder();
  try {
    await settle(all, { dataDir, say });
    const gateway = await startBenchGateway(dataDir);
    const control = new Control(gateway.door);
    return {
      gateway,
      control,
      all,
      async stop() {
        await control.close();
        await gateway.stop();
      },
    };
  } catch (error) {
    removeScratch(dataDir);
    throw error;
  }
}

async function settle(
  trees: readonly SettledTree[],
  { dataDir, say }: { dataDir: string; say: (message: string) => void },
): Promise<void> {
  const { door, stop } = await startOwnGateway({ entry: FIXTURE, store: "disk", dataDir });
  const control = new Control(door);
  try {
    for (const tree of trees) {
      await control.createBranch(tree);
      await control.createPipeline(copyPipeline(tree));
    }
    await runFirstJobs(control, { door, trees });
    for (const tree of trees) {
      const startedAt = performance.now();
      await adoptFiles(door, tree);
      const seconds = (performance.now() - startedAt) / 1000;
      say(`settled ${tree.files} files in ${seconds.toFixed(1)} s`);
    }
  } finally {
    await control.close();
    await stop();
  }
}

/** A pipeline that copies a branch: one datum a file. */
export function copyPipeline({ repo, branch, pipeline }: BranchAddress & { pipeline: string }) {
  return {
    pipeline: { name: pipeline },
    transform: { image: "busybox", ...COPY },
    parallelism_spec: { strategy: "CONSTANT", constant: 2 },
    inputs: [{ name: "in", repo: { name: repo }, branch, glob: "/*/*" }],
  };
}

async function runFirstJobs(
  control: Control,
  { door, trees }: { door: Door; trees: readonly SettledTree[] },
): Promise<void> {
  const runner = startRunner(door, { node: "first" });
  try {
    for (const tree of trees) {
      const commit = await control.putFile(tree, { path: `${folderOf(0)}/first`, bytes: "first\n" });
      await newestJobEnd(control, { pipeline: tree.pipeline, commit, probeEveryMs: 20 });
    }
  } finally {
    await runner.stop();
  }
}

/** Has the fixture add the files of a tree. */
async function adoptFiles({ endpoint }: Door, tree: SettledTree): Promise<void> {
  const objects = {
    pipeline: tree.pipeline,
    input: bucketName(tree),
    output: bucketName({ repo: tree.pipeline, branch: "master" }),
  };
  const ask = async (route: string, more: Readonly<Record<string, unknown>> = {}): Promise<unknown> => {
    const body = JSON.stringify({ ...objects, ...more });
    const answer = await request(`${endpoint}/fixture/${route}`, { method: "POST", body });
    if (answer.statusCode === 200) return await answer.body.json();
    throw new Error(`the fixture answered ${answer.statusCode}: ${await answer.body.text()}`);
  };
  await ask("begin");
  for (let first = 0; first < tree.files; first += SLICE) {
    const files = Array.from({ length: Math.min(SLICE, tree.files - first) }, (_, i): TextFile => {
      const path = pathOf(first + i, tree.files);
      return { path, text: `${path}\n` };
    });
    await ask("add", { files });
  }
  await ask("end");
  for (let after: unknown = ""; after !== null; ) after = await ask("settle", { after });
}
