import { join } from "node:path";
import { Command, InvalidArgumentError } from "commander";
import { git } from "./git.ts";
import { INVARIANTS } from "./list/all.ts";
import type { Invariant } from "./mutant.ts";
import { tryMutants } from "./try-mutants.ts";

/** Commits that are looked back at, if nobody says from where on. */
const LOOKED_BACK = 20;

interface Options {
  readonly only?: readonly string[];
  readonly changed?: string | true;
  readonly atOnce: number;
  readonly within?: number;
}

// What runs at the end of this process takes its copies of the repository along.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(130));

await new Command("npm run mutants --")
  .description(
    "Breaks the code in a copy of the repository, one mistake at a time, and sees whether the tests notice.",
  )
  .option("--only <what...>", "mutants of these invariants, or with these words in their names")
  .option(
    "--changed [commit]",
    `mutants of files that changed since a commit; of the last ${LOOKED_BACK} commits if none is given`,
  )
  .option("--at-once <n>", "how many are tried side by side", whole, 2)
  .option("--within <seconds>", "leave out what takes longer", seconds)
  .action(mutants)
  .parseAsync();

async function mutants({ only, changed, atOnce, within }: Options): Promise<void> {
  const root = join(import.meta.dirname, "../..");
  let chosen = INVARIANTS;
  if (only) {
    chosen = those(chosen, (name, id) => only.some((word) => word === id || name.includes(word)));
  }
  if (changed !== undefined) {
    const files = changedFiles(root, changed);
    if (!files) {
      console.log("There is no earlier commit to compare with, as in a shallow clone: no mutant is tried.");
      return;
    }
    chosen = those(chosen, (_, __, file) => files.has(file));
  }
  const withinMs = within === undefined ? Number.POSITIVE_INFINITY : within * 1000;
  const isProof = await tryMutants({ root, invariants: chosen, trees: atOnce, withinMs, say: console.log });
  if (!isProof) process.exitCode = 1;
}

function those(
  invariants: readonly Invariant[],
  isAsked: (name: string, id: string, file: string) => boolean,
): readonly Invariant[] {
  return invariants.map(({ id, mutants }) => ({
    id,
    mutants: mutants.filter(({ name, file }) => isAsked(name, id, file)),
  }));
}

/** Also what is not committed yet. Undefined: there is nothing to compare with. */
function changedFiles(root: string, since: string | true): ReadonlySet<string> | undefined {
  const base = since === true ? earlier(root) : since;
  if (base === undefined) return undefined;
  const names = git(root, ["diff", "--name-only", base]);
  if (names === undefined) throw new Error(`git knows no commit ${base}`);
  return new Set(names.split("\n"));
}

/** The commit so far back; a shallow clone may have fewer. */
function earlier(root: string): string | undefined {
  const commits = git(root, ["rev-list", "--first-parent", `--max-count=${LOOKED_BACK + 1}`, "HEAD"]);
  const [, ...before] = commits?.trim().split("\n") ?? [];
  return before.at(-1);
}

function whole(text: string): number {
  const number = Number(text);
  if (!Number.isSafeInteger(number) || number < 1)
    throw new InvalidArgumentError("It is no number of trees.");
  return number;
}

function seconds(text: string): number {
  const number = Number(text);
  if (!(number > 0)) throw new InvalidArgumentError("It is no time.");
  return number;
}
