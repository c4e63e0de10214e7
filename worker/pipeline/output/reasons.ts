import { bucketName } from "../../../protocol/names.ts";
import { PATH_FAULT_TEXT } from "../../../protocol/paths.ts";
import type { Refused } from "../../branch/contract/answers.ts";
import type { CommitRefused } from "../../branch/contract/files.ts";
import { describeDatum } from "../../core/datums.ts";
import type { FailedAttempt } from "../attempts/attempt-store.ts";
import type { JobRow } from "../jobs/job-store.ts";
import { type Definition, errorsOf } from "../lifecycle/definition.ts";
import type { ChangedStore } from "./draft-store.ts";

/** A datum by its input paths, for people. */
function datumText(definition: Definition, key: string): string {
  return describeDatum(
    key,
    definition.inputs.map(({ name }) => name),
  );
}

/** Why a job failed whose datums did: the first one, how it ended and the last it said. */
export function failureText(
  definition: Definition,
  { first, count }: { first: FailedAttempt; count: number },
): string {
  const { key, tries, exitCode, reason, log } = first;
  const parts = [
    `datum ${datumText(definition, key)} failed${triesText(tries)}`,
    // Most runners' reasons say it already.
    exitCode === null || reason?.includes(`exit code ${exitCode}`) ? undefined : `exit code ${exitCode}`,
    reason ?? undefined,
    lastLine(log ?? ""),
  ];
  const text = parts.filter((part) => part !== undefined && part !== "").join(": ");
  return count > 1 ? `${text} (and ${count - 1} more)` : text;
}

function triesText(tries: number): string {
  if (tries === 0) return "";
  return tries === 1 ? " after 1 try" : ` after ${tries} tries`;
}

function lastLine(log: string): string | undefined {
  return log
    .split("\n")
    .map((line) => line.trim())
    .findLast((line) => line !== "");
}

/** What the readers of a job that succeeded without some datums should know; null: it did not. */
export function leftOutText(definition: Definition, { failed }: Pick<JobRow, "failed">): string | null {
  if (failed === 0) return null;
  const datums = failed === 1 ? "1 datum failed and is" : `${failed} datums failed and are`;
  return `${datums} left out: s3://${bucketName(errorsOf(definition))} tells why`;
}

/** `reclaimed`: we had lost the claim and have it again, so the branch is to be asked again. */
export type NotDone =
  | CommitRefused
  | Refused<"applying" | "reclaimed">
  | { readonly ok: false; readonly reason: "claim-refused"; readonly why: string };

/** Why a branch refused a commit in which no paths can be in each other's way. */
export function refusalWords(refused: NotDone): string {
  if (refused.reason === "claim-refused") return `the branch can't be claimed: ${refused.why}`;
  return `the branch refused the commit: ${refused.reason}`;
}

/** Why the output branch refused the commit, in words. */
export function refusalText(
  changed: ChangedStore,
  { definition, refused }: { definition: Definition; refused: NotDone },
): string {
  if (refused.reason === "claim-refused") return `the output branch can't be claimed: ${refused.why}`;
  if (refused.reason === "path-conflict") return conflictText(changed, { definition, refused });
  if (refused.reason === "bad-path")
    return `the output path '${refused.path}' can't be stored: ${PATH_FAULT_TEXT[refused.fault]}`;
  return `the output branch refused the commit: ${refused.reason}`;
}

type Conflict = Extract<CommitRefused, { reason: "path-conflict" }>;

function conflictText(
  changed: ChangedStore,
  { definition, refused }: { definition: Definition; refused: Conflict },
): string {
  const writers = [refused.path, refused.other].map((path) => `'${path}' by ${writerText(path)}`);
  return `a path can't be a file and a directory at once: ${writers.join(", ")}`;

  function writerText(path: string): string {
    const plain = path.endsWith("/") ? path.slice(0, -1) : path;
    const key = changed.firstPart(path)?.key ?? changed.firstPart(plain)?.key ?? changed.firstBelow(plain);
    return key === undefined ? "an unknown datum" : `datum ${datumText(definition, key)}`;
  }
}
