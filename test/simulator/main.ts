import { Command, InvalidArgumentError } from "commander";
import { runBytes } from "./history/bytes.ts";
import { runCommits } from "./history/commits.ts";
import { Tally } from "./history/tally.ts";

/** Kinds of histories: each says what is wrong with the one of a seed. */
const HISTORIES: Readonly<Record<string, (seed: number, tally: Tally) => Promise<readonly string[]>>> = {
  commits: async (seed, tally) => (await runCommits(seed, tally)).faults,
  bytes: runBytes,
};

interface Options {
  readonly histories: number;
  readonly seed?: number;
}

await new Command("npm run simulate --")
  .description(
    "Runs histories of the objects in a simulation, in which all that goes wrong follows from a seed.",
  )
  .option("--histories <n>", "how many, from seed 0 on", whole, 10_000)
  .option("--seed <n>", "only the histories of this seed", whole)
  .action(simulate)
  .parseAsync();

async function simulate({ histories, seed }: Options): Promise<void> {
  // What goes wrong is said in the log, and wrong it goes all the time.
  console.warn = () => {};
  const tally = new Tally();
  const kinds = Object.entries(HISTORIES);
  const count = Math.ceil(histories / kinds.length);
  const seeds = seed === undefined ? Array.from({ length: count }, (_, n) => n) : [seed];
  const begun = performance.now();
  for (const each of seeds) {
    for (const [kind, run] of kinds) {
      const faults = await run(each, tally);
      if (faults.length === 0) continue;
      process.exitCode = 1;
      console.log(`${kind}, seed ${each}:`, ...faults.map((fault) => `\n  ${fault}`));
    }
  }
  const seconds = (performance.now() - begun) / 1000;
  for (const [what, count] of [...tally.counts].sort()) console.log(`${String(count).padStart(8)}  ${what}`);
  const steps = [...tally.counts].reduce(
    (sum, [what, count]) => sum + (what.startsWith("step ") ? count : 0),
    0,
  );
  console.log(
    `${seeds.length * kinds.length} histories, ${steps} steps in ${Math.round(seconds)} s, ${Math.round(steps / seconds)} a second`,
  );
}

function whole(text: string): number {
  const number = Number(text);
  if (!Number.isSafeInteger(number) || number < 0) throw new InvalidArgumentError("It is no whole number.");
  return number;
}
