import type { Job } from "../../../protocol/pipelines.ts";
import type { Context } from "../../app.ts";

/**
 * What a job read, with a word on each commit that its branch keeps no more: its files are gone. Of a branch that can't be
 * asked, nothing is said.
 */
export async function withKept(
  { branch }: Pick<Context, "branch">,
  inputs: Job["inputs"],
): Promise<Job["inputs"]> {
  return await Promise.all(
    inputs.map(async (input) => {
      if (input.commit === null) return input;
      const answer = await branch(input)
        .keptCommits({ commits: [input.commit] })
        .catch(() => undefined);
      return answer?.kept.length === 0 ? { ...input, kept: false as const } : input;
    }),
  );
}
