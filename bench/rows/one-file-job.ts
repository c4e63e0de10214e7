import { startRunner } from "../../test/support/dev-server.ts";
import { bareCommand } from "../support/bare-command.ts";
import type { Control } from "../support/control.ts";
import type { Figure } from "../support/figure.ts";
import { flatness } from "../support/flatness.ts";
import { newestJobEnd } from "../support/job-end.ts";
import { interleaved } from "../support/pairs.ts";
import type { Bench, Row } from "../support/row.ts";
import { SETTLERS, settleFirstJob } from "../support/settle.ts";
import { median } from "../support/stats.ts";
import { folderOf, type Tree } from "../support/trees.ts";

/** Jobs in one half of a pair: its value is their median. */
const JOBS = 5;
const TRANSFORM = { cmd: ["sh"], stdin: ["cp -r /pfs/in/* /pfs/out/"] };

/** Settling a datum takes the gateway half a millisecond: of a larger tree, only the first folders are datums. */
const MOST_DATUMS = 100_000;
/** A tenth of the folders of every tree. */
const FIRST_FOLDERS = "/d00*/*";
const ALL_FOLDERS = "/*/*";

/** From the PUT of one file to the success of its job, with one datum a file and all the others settled before. */
export const oneFileJob: Row = {
  name: "one-file-job",
  title: "one-file commit until job success: p50 at each size (at most 100k datums), and against a bare run",
  run: (bench) => measureJobs(bench, (tree) => (tree.files > MOST_DATUMS ? FIRST_FOLDERS : ALL_FOLDERS)),
};

/** The same where every file is a datum, also of the largest tree. */
export const oneFileJobAllDatums: Row = {
  name: "one-file-job-all-datums",
  title: "one-file commit until job success: p50 at each size, every file a datum, and against a bare run",
  onlyWhenNamed: true,
  run: (bench) => measureJobs(bench, () => ALL_FOLDERS),
};

let runs = 0;

async function measureJobs(bench: Bench, globOf: (tree: Tree) => string): Promise<Figure[]> {
  const { gateway, control, all } = await bench.trees();
  runs += 1;
  const pipelineOf = ({ files }: Tree): string => `copy-${runs}-${files}`;
  for (const tree of all) {
    await settledPipeline(bench, { control, tree, pipeline: pipelineOf(tree), glob: globOf(tree) });
  }
  const runner = startRunner(gateway.door, { node: "bench" });
  const jobMillis = (tree: Tree): Promise<number> =>
    commitUntilSuccess(control, { tree, pipeline: pipelineOf(tree) });
  try {
    // The settlers' slots must expire before the runner's workers get them.
    for (const tree of all) await jobMillis(tree);
    const measure = (tree: Tree): Promise<number> => medianOf(() => jobMillis(tree));
    return [
      ...(await flatness(bench, { what: "PUT → success", unit: "ms", trees: all, measure })),
      await againstBareRun(bench, { trees: all, measure }),
    ];
  } finally {
    await runner.stop();
  }
}

async function settledPipeline(
  { say }: Bench,
  { control, tree, pipeline, glob }: { control: Control; tree: Tree; pipeline: string; glob: string },
): Promise<void> {
  const startedAt = performance.now();
  await control.createPipeline({
    pipeline: { name: pipeline },
    transform: { image: "busybox", ...TRANSFORM },
    parallelism_spec: { strategy: "CONSTANT", constant: SETTLERS },
    inputs: [{ name: "in", repo: { name: tree.repo }, branch: tree.branch, glob }],
  });
  const { datums } = await settleFirstJob(control, pipeline);
  const seconds = (performance.now() - startedAt) / 1000;
  say(`settled ${datums.total} datums over ${tree.files} files in ${seconds.toFixed(1)} s`);
}

let written = 0;

async function commitUntilSuccess(
  control: Control,
  { tree, pipeline }: { tree: Tree; pipeline: string },
): Promise<number> {
  written += 1;
  // One of the first folders, which every glob matches.
  const path = `${folderOf(written % 100)}/new-${written}`;
  const startedAt = performance.now();
  const commit = await control.putFile(tree, { path, bytes: `file ${written}\n` });
  await newestJobEnd(control, { pipeline, commit });
  return performance.now() - startedAt;
}

async function againstBareRun(
  { pairs }: Bench,
  { trees, measure }: { trees: readonly Tree[]; measure: (tree: Tree) => Promise<number> },
): Promise<Figure> {
  const [smallest] = trees;
  if (!smallest) throw new Error("there is no tree");
  const bare = await bareCommand({ ...TRANSFORM, input: { path: "d0000/new", text: "file\n" } });
  try {
    return {
      what: "PUT → success, smallest tree",
      unit: "ms",
      against: `bare run in ${bare.tool}`,
      pairs: await interleaved(pairs, {
        ours: () => measure(smallest),
        other: () => medianOf(() => bare.run()),
      }),
      compare: "ratio",
      target: { atMost: 20 },
    };
  } finally {
    bare.remove();
  }
}

async function medianOf(measure: () => Promise<number>): Promise<number> {
  const all: number[] = [];
  for (let i = 0; i < JOBS; i++) all.push(await measure());
  return median(all);
}
