import { describeDatum } from "../../core/datums.ts";
import type { Definition } from "../definition.ts";
import type { FailedAttempt } from "../work/attempt-store.ts";

/** A datum by its input paths, for people. */
export function datumText(definition: Definition, key: string): string {
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
    exitCode === null ? undefined : `exit code ${exitCode}`,
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
