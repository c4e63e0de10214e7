import type { Issue } from "../../../protocol/errors.ts";
import { bucketName } from "../../../protocol/names.ts";
import type { Context } from "../../app.ts";
import type { InputOutline, SpecOutline } from "../../core/spec-outline.ts";

/** Inputs that are to start after a commit which their branch does not have (spec §2.4). */
export async function fromIssues(
  context: Pick<Context, "branch">,
  { inputs }: SpecOutline,
): Promise<Issue[]> {
  const found = inputs.map(async (input, index): Promise<Issue[]> => {
    const message = await unknownCommit(context, input);
    return message === undefined ? [] : [{ path: `inputs[${index}].from.ID`, message }];
  });
  return (await Promise.all(found)).flat();
}

async function unknownCommit(
  context: Pick<Context, "branch">,
  { repo, branch, from }: InputOutline,
): Promise<string | undefined> {
  // A commit of another repo is told of as that (core/spec.ts).
  if (repo === undefined || branch === undefined || from.id === undefined || from.repo !== repo)
    return undefined;
  const address = { repo, branch };
  if (await context.branch(address).position({ commit: from.id })) return undefined;
  const bucket = bucketName(address);
  return `'${bucket}' has no commit '${from.id}': 'sluice commit list ${bucket}' shows those it has`;
}
