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

/** From the PUT of one file to the success of its job, with one datum a file and all the others settled before. */
export const oneFileJob: Row = {
  name: "one-file-job",
  title: "one-file commit until job success: p50 at each size, and against a bare run of the command",
  async run(bench) {
    const { gateway, control, all } = await bench.trees();
    for (const tree of all) await settledPipeline(bench, { control, tree });
    const runner = startRunner(gateway.door, { node: "bench" });
    try {
      // The settlers' slots must expire before the runner's workers get them.
      for (const tree of all) await jobMillis(control, tree);
      const measure = async (tree: Tree): Promise<number> => medianOf(() => jobMillis(control, tree));
      return [
        ...(await flatness(bench, { what: "PUT → success", unit: "ms", trees: all, measure })),
        await againstBareRun(bench, { control, trees: all }),
      ];
    } finally {
      await runner.stop();
    }
  },
};

async function settledPipeline(
  { say }: Bench,
  { control, tree }: { control: Control; tree: Tree },
): Promise<void> {
  const startedAt = performance.now();
  const pipeline = pipelineOf(tree);
  await control.createPipeline({
    pipeline: { name: pipeline },
    transform: { image: "busybox", ...TRANSFORM },
    parallelism_spec: { strategy: "CONSTANT", constant: SETTLERS },
    inputs: [{ name: "in", repo: { name: tree.repo }, branch: tree.branch, glob: "/*/*" }],
  });
  await settleFirstJob(control, pipeline);
  const seconds = (performance.now() - startedAt) / 1000;
  say(`settled ${tree.files} datums in ${seconds.toFixed(1)} s`);
}

function pipelineOf({ files }: Tree): string {
  return `copy-${files}`;
}

let written = 0;

async function jobMillis(control: Control, tree: Tree): Promise<number> {
  written += 1;
  const path = `${folderOf(written * 19)}/new-${written}`;
  const startedAt = performance.now();
  const commit = await control.putFile(tree, { path, bytes: `file ${written}\n` });
  await newestJobEnd(control, { pipeline: pipelineOf(tree), commit });
  return performance.now() - startedAt;
}

async function againstBareRun(
  { pairs }: Bench,
  { control, trees }: { control: Control; trees: readonly Tree[] },
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
        ours: () => medianOf(() => jobMillis(control, smallest)),
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
