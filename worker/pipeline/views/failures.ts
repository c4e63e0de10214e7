import type { JobSummary } from "../../../protocol/pipelines.ts";
import type { FailedTail } from "../attempts/attempt-store.ts";
import type { JobRow } from "../jobs/job-store.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { inputsOf, lastLines } from "./said.ts";

/** Failed datums that are compared: some 10 ms. */
const COMPARED = 1000;
const MAX_GROUPS = 20;
const MAX_NAMED = 20;
/** What stands for a datum's own name in what its group says. */
const ITS_NAME = "…";

type Group = JobSummary["failures"][number];

/**
 * Datums that failed in the same way, the largest group first. The same is: for the same reason, with the same last line, if the
 * names of what each datum reads are taken out of both. Nobody reads 10,000 failures, and most often they are one.
 */
export function groupFailures(ledger: Ledger, job: JobRow): Group[] {
  const inputs = inputsOf(ledger, job);
  const groups = new Map<string, { said: Omit<Group, "count" | "datums" | "log">; failed: FailedTail[] }>();
  for (const failed of ledger.attempts.failedTails(job.n, COMPARED)) {
    const names = inputs(failed.key).flatMap(({ path }) => [path, path.slice(path.lastIndexOf("/") + 1)]);
    const line = lastLines(failed.tail ?? "").at(-1);
    const said = {
      reason: failed.reason === null ? null : without(failed.reason, names),
      exitCode: failed.exitCode,
      line: line === undefined ? null : without(line, names),
    };
    const key = JSON.stringify(said);
    const group = groups.get(key);
    if (group) group.failed.push(failed);
    else groups.set(key, { said, failed: [failed] });
  }
  return [...groups.values()]
    .sort((a, b) => b.failed.length - a.failed.length)
    .slice(0, MAX_GROUPS)
    .map(({ said, failed }) => ({
      ...said,
      count: failed.length,
      datums: failed.slice(0, MAX_NAMED).map(({ id, key, node }) => ({ id, inputs: inputs(key), node })),
      log: lastLines(ledger.attempts.get(job.n, failed[0]?.id ?? "")?.log ?? ""),
    }));
}

/**
 * A text without names that stand in it as whole words: `a` is in `/pfs/in/a`, and not in `at`. A number is a name only behind a
 * slash, since a file called `4` has no part in `exit code 4`.
 */
function without(text: string, names: readonly string[]): string {
  return names.filter((name) => name !== "").reduce(withoutOne, text);
}

function withoutOne(text: string, name: string): string {
  const [first = "", ...rest] = text.split(name);
  return rest.reduce((before, after) => {
    const isWord =
      (NUMBER.test(name) ? before.endsWith("/") : !WORD_END.test(before)) && !WORD_BEGIN.test(after);
    return before + (isWord ? ITS_NAME : name) + after;
  }, first);
}

const WORD_END = /[\p{L}\p{N}_]$/u;
const WORD_BEGIN = /^[\p{L}\p{N}_]/u;
const NUMBER = /^[0-9]+$/;
