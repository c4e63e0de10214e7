import { Command, InvalidArgumentError } from "commander";
import { reportOfSeed } from "./history/report.ts";
import { Tally } from "./history/tally.ts";

interface Options {
  readonly histories: number;
  readonly seed?: number;
}

await new Command("npm run simulate --")
  .description(
    "Runs histories of the objects in a simulation, in which all that goes wrong follows from a seed. One that fails is made as small as it can be.",
  )
  .option("--histories <n>", "how many, from seed 0 on", whole, 10_000)
  .option("--seed <n>", "only the history of this seed", whole)
  .action(simulate)
  .parseAsync();

async function simulate({ histories, seed }: Options): Promise<void> {
  // What goes wrong is said in the log, and wrong it goes all the time.
  console.warn = () => {};
  const tally = new Tally();
  const seeds = seed === undefined ? Array.from({ length: histories }, (_, n) => n) : [seed];
  const begun = performance.now();
  for (const each of seeds) {
    const report = await reportOfSeed(each, tally);
    if (report === undefined) continue;
    process.exitCode = 1;
    console.log(report);
  }
  const seconds = (performance.now() - begun) / 1000;
  for (const [what, count] of [...tally.counts].sort()) console.log(`${String(count).padStart(8)}  ${what}`);
  const steps = [...tally.counts].reduce(
    (sum, [what, count]) => sum + (what.startsWith("step ") ? count : 0),
    0,
  );
  console.log(
    `${seeds.length} histories, ${steps} steps in ${Math.round(seconds)} s, ${Math.round(steps / seconds)} a second`,
  );
}

function whole(text: string): number {
  const number = Number(text);
  if (!Number.isSafeInteger(number) || number < 0) throw new InvalidArgumentError("It is no whole number.");
  return number;
}
