import { mkdtempSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { Command, InvalidArgumentError, Option } from "commander";
import { coverageOf, shownCoverage } from "./coverage.ts";
import { runNear } from "./history/near.ts";
import { KINDS } from "./history/run.ts";
import { runShares } from "./history/shares.ts";
import { tableOf } from "./history/table.ts";
import { GUARDS, type Guard, guardsWithout } from "./replicas/guards.ts";
import { reportOfReplicas } from "./replicas/history.ts";

interface Options {
  readonly histories: number;
  readonly seed?: number;
  readonly processes: number;
  readonly coverage?: true;
  readonly near?: true;
  readonly from: number;
  readonly replicas?: true;
  readonly without?: Guard;
}

const ROOT = join(import.meta.dirname, "../..");
/** Whose branches are counted. */
const FOLDERS = ["worker/branch", "worker/pipeline", "worker/objects"];

await new Command("npm run simulate --")
  .description(
    "Runs histories of the objects in a simulation, in which all that goes wrong follows from a seed. One that fails is made as small as it can be.",
  )
  .option("--histories <n>", "how many", whole, 10_000)
  .option("--from <n>", "the first seed", whole, 0)
  .option("--seed <n>", "only the history of this seed", whole)
  .option("--processes <n>", "how many run at the same time", whole, availableParallelism())
  .option("--coverage", "says which branches of the objects' code no history takes")
  .option("--near", "histories of what gateways keep near the reader instead, one after the other")
  .option("--replicas", "histories of the model of read replicas instead (docs/replicas.md)")
  .addOption(new Option("--without <guard>", "of that model, until this guard is missed").choices(GUARDS))
  .action((options: Options) => {
    if (options.near) return simulateNear(options);
    return options.replicas || options.without !== undefined ? simulateReplicas(options) : simulate(options);
  })
  .parseAsync();

async function simulate({ processes, coverage, ...options }: Options): Promise<void> {
  const seeds = seedsOf(options);
  const written = coverage && mkdtempSync(join(tmpdir(), "sluice-coverage-"));
  const begun = performance.now();
  const { counts } = await runShares(seeds, {
    processes,
    ...(written !== undefined && { env: { NODE_V8_COVERAGE: written } }),
    failed: (report) => {
      process.exitCode = 1;
      console.log(report);
    },
  });
  const seconds = (performance.now() - begun) / 1000;
  const many = seeds.to - seeds.from;
  const kinds = Object.keys(KINDS).filter((kind) => (KINDS[kind]?.weight ?? 0) > 0);
  const { lines, tooRare, least } = tableOf(counts, { histories: many, kinds });
  for (const line of lines) console.log(line);
  let steps = 0;
  for (const [what, count] of counts) if (what.startsWith("step ")) steps += count;
  console.log(
    `${many} histories, ${steps} steps in ${Math.round(seconds)} s, ${Math.round(steps / seconds)} a second`,
  );
  if (written !== undefined) {
    const files = coverageOf(written, { root: ROOT, folders: FOLDERS });
    rmSync(written, { recursive: true });
    for (const line of shownCoverage(files, FOLDERS)) console.log(line);
  }
  if (tooRare.length === 0) return;
  process.exitCode = 1;
  console.log(`less than ${least} times occurred: ${tooRare.join(", ")}`);
}

/** The model is small: one process is enough. */
async function simulateReplicas({ without, ...options }: Options): Promise<void> {
  const { from, to } = seedsOf(options);
  const begun = performance.now();
  for (let seed = from; seed < to; seed++) {
    const report = await reportOfReplicas(seed, without && guardsWithout(without));
    if (report === undefined) continue;
    process.exitCode = 1;
    console.log(report);
    if (without !== undefined) return;
  }
  console.log(`${to - from} histories of replicas in ${Math.round((performance.now() - begun) / 1000)} s`);
}

async function simulateNear(options: Options): Promise<void> {
  // What goes wrong is said in the log, and wrong it goes all the time.
  console.warn = () => {};
  console.error = () => {};
  const { from, to } = seedsOf(options);
  const begun = performance.now();
  const answered = new Map<string, number>();
  for (let seed = from; seed < to; seed++) {
    for (const fault of await runNear(seed, answered)) {
      process.exitCode = 1;
      console.log(`seed ${seed}: ${fault}`);
    }
  }
  const counts = [...answered].map(([by, count]) => `${count} ${by}`).join(", ");
  const seconds = Math.round((performance.now() - begun) / 1000);
  console.log(`${to - from} histories near the reader in ${seconds} s: ${counts}`);
}

function seedsOf({ histories, seed, from }: Pick<Options, "histories" | "seed" | "from">): {
  from: number;
  to: number;
} {
  return seed === undefined ? { from, to: from + histories } : { from: seed, to: seed + 1 };
}

function whole(text: string): number {
  const number = Number(text);
  if (!Number.isSafeInteger(number) || number < 0) throw new InvalidArgumentError("It is no whole number.");
  return number;
}
