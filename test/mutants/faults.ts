import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Invariant, Mutant } from "./mutant.ts";

/** How many mistakes each invariant is tried with, at least. */
const FEWEST = 3;

/** A row of the page's table begins with the number of the invariant. */
const ROW = /^\| (\d+[a-z]?) \|/gm;

/**
 * What is wrong with a list of mutants, and with what the page says of it, without running a test. A mutant whose text was rewritten would prove nothing from
 * then on: whoever rewrites it says anew what a mistake in it looks like.
 */
export function faultsOf(root: string, page: string, invariants: readonly Invariant[]): string[] {
  const onPage = [...page.matchAll(ROW)].map(([, id]) => id ?? "");
  const listed = new Map(invariants.map(({ id, mutants }) => [id, mutants]));
  return [
    ...onPage
      .filter((id) => (listed.get(id)?.length ?? 0) < FEWEST)
      .map((id) => `invariant ${id} has ${listed.get(id)?.length ?? 0} mutants, and needs ${FEWEST}`),
    ...[...listed.keys()]
      .filter((id) => !onPage.includes(id))
      .map((id) => `there are mutants of invariant ${id}, which the page does not have`),
    ...invariants.flatMap(({ id, mutants }) =>
      mutants.flatMap((mutant) =>
        faultsOfOne(root, mutant).map((fault) => `invariant ${id}, "${mutant.name}": ${fault}`),
      ),
    ),
    ...(page.includes(countsOf(invariants)) ? [] : [`the page must say: ${countsOf(invariants)}`]),
    ...twice(invariants.flatMap(({ mutants }) => mutants.map(({ name }) => name))).map(
      (name) => `two mutants have the name "${name}"`,
    ),
  ];
}

/** How the page says how many there are. */
export function countsOf(invariants: readonly Invariant[]): string {
  const all = invariants.reduce((sum, { mutants }) => sum + mutants.length, 0);
  const each = invariants.map(({ id, mutants }) => `${mutants.length} of ${id}`);
  return `There are ${all} mutants: ${each.join(", ")}.`;
}

function faultsOfOne(root: string, mutant: Mutant): string[] {
  const { file, text, replacement } = mutant;
  if (!existsSync(join(root, file))) return [`there is no file ${file}`];
  const times = readFileSync(join(root, file), "utf8").split(text).length - 1;
  const faults = times === 1 ? [] : [`its text is in ${file} ${times} times, and must be there once`];
  if (text === replacement) faults.push("its replacement is its text");
  if ("equivalent" in mutant) return faults;
  if (mutant.tests.length === 0) faults.push("it names no test, and does not argue that none can fail");
  for (const test of mutant.tests)
    if (!existsSync(join(root, test.file))) faults.push(`there is no test ${test.file}`);
  return faults;
}

function twice(names: readonly string[]): string[] {
  return [...new Set(names.filter((name, at) => names.indexOf(name) !== at))];
}
