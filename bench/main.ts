import { Command, Option } from "commander";
import { bulkCommit, bulkCommitMillion } from "./rows/bulk-commit.ts";
import { burst } from "./rows/burst.ts";
import { commandStart } from "./rows/command-start.ts";
import { commitBucket } from "./rows/commit-bucket.ts";
import { consoleRow } from "./rows/console.ts";
import { consoleGraph } from "./rows/console-graph.ts";
import { containerRate } from "./rows/container-rate.ts";
import { copyObject } from "./rows/copy-object.ts";
import { crossProduct } from "./rows/cross-product.ts";
import { datumRate } from "./rows/datum-rate.ts";
import { endingJobs } from "./rows/ending-jobs.ts";
import { erase } from "./rows/erase.ts";
import { exports } from "./rows/exports.ts";
import { forks } from "./rows/forks.ts";
import { jobLatency } from "./rows/job-latency.ts";
import { jobMemory } from "./rows/job-memory.ts";
import { largeObjects } from "./rows/large-objects.ts";
import { lazyPipes } from "./rows/lazy-pipes.ts";
import { listPages } from "./rows/list-pages.ts";
import { listRates } from "./rows/list-rates.ts";
import { oneFileCommit } from "./rows/one-file-commit.ts";
import { r2Objects } from "./rows/r2-objects.ts";
import { retention } from "./rows/retention.ts";
import { retentionRows } from "./rows/retention-rows.ts";
import { scale } from "./rows/scale.ts";
import { smallObjects } from "./rows/small-objects.ts";
import { soak } from "./rows/soak.ts";
import { staging } from "./rows/staging.ts";
import { idleMemory, start } from "./rows/start.ts";
import { sync } from "./rows/sync.ts";
import { tails } from "./rows/tails.ts";
import { uploadMemory } from "./rows/upload-memory.ts";
import { isMet } from "./support/figure.ts";
import { keepResults, type RowResult } from "./support/results.ts";
import type { Bench, Row } from "./support/row.ts";
import { table } from "./support/table.ts";
import { growTrees, type Trees } from "./support/trees.ts";

const ROWS: readonly Row[] = [
  smallObjects,
  tails,
  scale,
  largeObjects,
  sync,
  r2Objects,
  copyObject,
  listPages,
  listRates,
  commitBucket,
  oneFileCommit,
  jobLatency,
  datumRate,
  containerRate,
  lazyPipes,
  staging,
  burst,
  endingJobs,
  crossProduct,
  consoleRow,
  bulkCommit,
  bulkCommitMillion,
  forks,
  retention,
  retentionRows,
  erase,
  exports,
  uploadMemory,
  jobMemory,
  commandStart,
  consoleGraph,
  start,
  idleMemory,
  soak,
];
const PAIRS = { full: 7, quick: 3 } as const;
const TREE_SIZES = { full: [1000, 100_000, 1_000_000], quick: [1000, 100_000] } as const;

interface Options {
  readonly only?: readonly string[];
  readonly quick?: true;
}

await new Command("npm run bench --")
  .description("Measures Sluice against bare Workers and bare commands on this machine (Linux).")
  .addOption(new Option("--only <row...>", "only these rows").choices(ROWS.map(({ name }) => name)))
  .option("--quick", "fewer pairs, smaller sizes: a first look")
  .action(bench)
  .parseAsync();

async function bench({ only, quick }: Options): Promise<void> {
  const startedAt = new Date();
  const scaleOfRun = quick ? "quick" : "full";
  let trees: Promise<Trees> | undefined;
  const shared: Bench = {
    scale: scaleOfRun,
    pairs: PAIRS[scaleOfRun],
    trees() {
      trees ??= growTrees(TREE_SIZES[scaleOfRun], shared.say);
      return trees;
    },
    say: (message) => console.log(`  ${message}`),
  };
  const rows: RowResult[] = [];
  try {
    for (const row of ROWS) {
      if (only ? only.includes(row.name) : !row.onlyWhenNamed) rows.push(await measured(row, shared));
    }
  } finally {
    // Trees that did not grow have told so in their row, and have cleared up.
    await (await trees?.catch(() => undefined))?.stop();
  }
  const figures = rows.flatMap((row) => row.figures);
  const asked = figures.filter(({ target }) => target !== null);
  console.log(`\n${asked.filter(isMet).length} of ${asked.length} targets met`);
  console.log(`kept in ${keepResults({ startedAt, scale: scaleOfRun, rows })}`);
  if (rows.some(({ broken }) => broken)) process.exitCode = 1;
}

/** A row that breaks does not stop the others. */
async function measured(row: Row, shared: Bench): Promise<RowResult> {
  console.log(`\n${row.name}: ${row.title}`);
  const startedAt = performance.now();
  const since = (): number => (performance.now() - startedAt) / 1000;
  try {
    const figures = await row.run(shared);
    console.log(table(figures));
    return { row: row.name, seconds: since(), figures };
  } catch (error) {
    console.error(error);
    return { row: row.name, seconds: since(), figures: [], broken: String(error) };
  }
}
