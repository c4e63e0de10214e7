import type { JobSummary } from "../../../protocol/pipelines.ts";
import { datumPaths } from "../../core/datums.ts";
import type { JobRow } from "../jobs/job-store.ts";
import type { Ledger } from "../ledger/ledger.ts";

/* How datums are told to people: by what they read, and by the last lines that they printed. */

/** What the datums of a job read, by the inputs of the version that the job was made for. */
export function inputsOf(
  ledger: Ledger,
  job: Pick<JobRow, "id" | "revision">,
): (key: string) => JobSummary["slowest"][number]["inputs"] {
  const { inputs } = ledger.pipeline.versionOf(job);
  return (key) => {
    const paths = datumPaths(key);
    return inputs.map(({ name }, index) => ({ name, path: paths[index] ?? "" }));
  };
}

/** Last lines of a failed datum, and the most characters of them. */
const LAST_LINES = 10;
const LAST_CHARACTERS = 4000;

export function lastLines(log: string): string[] {
  const lines = log.slice(-LAST_CHARACTERS).replace(/\n$/, "").split("\n");
  return log === "" ? [] : lines.slice(-LAST_LINES);
}
