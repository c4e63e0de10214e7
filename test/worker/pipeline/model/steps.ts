import type { Chance } from "./chance.ts";
import type { Inputs } from "./inputs.ts";
import type { NaiveUpdate } from "./naive-pipeline.ts";

/** How likely each step is. */
export const STEPS = {
  commit: 30,
  rewrite: 3,
  deleteBranch: 2,
  work: 25,
  finish: 12,
  renew: 3,
  expire: 3,
  killPipeline: 4,
  killInput: 1,
  killOutput: 1,
  stop: 2,
  update: 5,
  stopJob: 3,
  settle: 3,
};
export const UPDATES: Record<NaiveUpdate, number> = {
  settings: 4,
  transform: 2,
  reprocess: 2,
  inputs: 3,
  unchanged: 1,
};

export type Step = keyof typeof STEPS | "start";

/** One commit, on a branch that is made if it is not there. */
export async function commitTo(
  inputs: Inputs,
  chance: Chance,
  note: (what: string) => void = () => {},
): Promise<void> {
  const repo = chance.repo();
  const branch = inputs.of(repo);
  if (!branch.exists) await inputs.create(repo);
  const edit = chance.edit(branch.tree);
  note(`  ${repo} ${JSON.stringify(edit)}`);
  if (Object.keys(edit).length > 0) await inputs.commit(repo, edit);
}
