import { commitTexts } from "./bulk-commit.ts";
import type { Control } from "./control.ts";
import { newestJobEnd } from "./job-end.ts";

const INPUT = { repo: "small", branch: "master" };
const PIPELINE = "trivial";

export interface TrivialPipeline {
  readonly control: Control;
  readonly image: string;
  readonly cmd: readonly string[];
}

/** Makes a pipeline with one worker whose datums are small files. Returns what runs a job over so many new ones, in datums per second. */
export async function trivialPipeline({
  control,
  image,
  cmd,
}: TrivialPipeline): Promise<(count: number) => Promise<number>> {
  await control.createBranch(INPUT);
  await control.createPipeline({
    pipeline: { name: PIPELINE },
    transform: { image, cmd },
    parallelism_spec: { strategy: "CONSTANT", constant: 1 },
    inputs: [{ name: "in", repo: { name: INPUT.repo }, branch: INPUT.branch, glob: "/*" }],
  });
  let batches = 0;
  return async (count) => {
    batches += 1;
    const files = Array.from({ length: count }, (_, i) => ({
      path: `batch-${batches}-${i}`,
      text: `file ${i} of batch ${batches}\n`,
    }));
    const commit = await commitTexts(control, { address: INPUT, files });
    const startedAt = performance.now();
    await newestJobEnd(control, { pipeline: PIPELINE, commit, probeEveryMs: 20 });
    return (count * 1000) / (performance.now() - startedAt);
  };
}
