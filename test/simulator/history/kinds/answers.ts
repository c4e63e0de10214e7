import type { CommitRefused, Committed } from "../../../../worker/branch/contract/files.ts";
import { type Answer, UNKNOWN } from "../model.ts";

/** What a refusal says of the branch. Whatever it says, no commit comes of what was refused. */
export function refusal({ reason }: { readonly reason: string }): Answer {
  // It may have been done: the catalogue, or a parent, could not be told.
  if (reason.endsWith("-unavailable")) return UNKNOWN;
  if (reason === "no-such-branch" || reason === "forking") {
    return { kind: "saw", what: reason, of: ({ generation }) => generation === null };
  }
  return { kind: "saw", what: reason, of: () => true };
}

/** The answer of a write. */
export function writeAnswer(answer: Committed | CommitRefused): Answer {
  return answer.ok ? { kind: "made", commit: answer.commit } : refusal(answer);
}
