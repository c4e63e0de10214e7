import { Command, InvalidArgumentError } from "commander";
import { startDevServer } from "../support/dev-server.ts";
import { gatewayFuzz } from "./gateway/fuzzed.ts";
import type { Fuzzed } from "./run-fuzz.ts";
import { Tally } from "./tally.ts";

interface Options {
  readonly minutes: number;
  readonly seed?: number;
  readonly only?: string;
  readonly runs: number;
}

await new Command("npm run fuzz --")
  .description(
    "Sends a gateway, and its parsers, what a grammar makes, and holds them to what must always be so.",
  )
  .option("--minutes <n>", "goes on with other seeds for so long", whole, 1)
  .option("--seed <n>", "begins with this seed instead of a random one", whole)
  .option("--runs <n>", "so many stories of a seed", whole, 10)
  .option("--only <text>", "only what has this in its name")
  .action(fuzz)
  .parseAsync();

async function fuzz({ minutes, seed, only, runs }: Options): Promise<void> {
  const server = await startDevServer();
  const tally = new Tally();
  try {
    const all = [...(await parsers()), ...Object.values(await gatewayFuzz(server))];
    const kinds = all.filter(({ name }) => only === undefined || name.includes(only));
    const ends = performance.now() + minutes * 60_000;
    let next = seed ?? Date.now() % 1_000_000;
    do {
      for (const { name, play } of kinds) {
        await play(
          { runs, seed: next, onBroken: (error) => console.error(`${name}, seed ${next}: ${error}`) },
          tally,
        ).catch((error: unknown) => {
          process.exitCode = 1;
          console.log(`${name}, seed ${next}:\n${error instanceof Error ? error.message : error}\n`);
        });
      }
      next++;
    } while (performance.now() < ends);
    const { sent, good } = tally.sums;
    console.log(`${tally}\n${sent} sent, ${good} done as asked, ${tally.kinds.length} kinds`);
  } finally {
    await server.stop();
  }
}

/** They are compiled with the types of the Worker, which are not those of this program. */
async function parsers(): Promise<readonly Fuzzed[]> {
  const { href } = new URL("parsers/fuzzed.ts", import.meta.url);
  return (await import(href)).PARSERS;
}

function whole(text: string): number {
  const number = Number(text);
  if (!Number.isSafeInteger(number) || number < 0) throw new InvalidArgumentError("It is no whole number.");
  return number;
}
