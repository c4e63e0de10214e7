import type { DatumPage, JobDatum } from "../../../protocol/pipelines.ts";
import { datumPaths } from "../../core/datums.ts";
import type { ShownAttempt } from "../attempts/attempt-store.ts";
import type { DatumRow } from "../inputs/datum-store.ts";
import type { JobRow } from "../jobs/job-store.ts";
import type { Ledger } from "../ledger/ledger.ts";

/** A place in the list: among what the job ran, by id, or among what it has beside that, by key. */
type Place =
  | { readonly of: "attempts"; readonly id: string }
  | { readonly of: "rest"; readonly key: string | null };

/**
 * The datums of a job, first what it ran or is to run, then what it inherited. Returns
 * undefined if `after` is no place. Of a job long past (trim.ts) and of what has died since, only what is still kept.
 */
export function listDatums(
  ledger: Ledger,
  { job, after, limit }: { job: JobRow; after: string | undefined; limit: number },
): DatumPage | undefined {
  const place = after === undefined ? FIRST : parsePlace(after);
  if (!place) return undefined;
  if (place.of === "rest") return restOf(ledger, { job, after: place.key, limit });
  const rows = ledger.attempts.ofJob(job.n, { after: place.id, limit });
  const datums = rows.map((row) => shown(ledger, { job, attempt: row }));
  const last = rows.at(-1);
  const next: Place =
    last && rows.length === limit ? { of: "attempts", id: last.id } : { of: "rest", key: null };
  return { datums, next: textOf(next) };
}

/** What a job has without a row of its own: it has a result, or it will get a row when it is the job's turn. */
function restOf(
  ledger: Ledger,
  { job, after, limit }: { job: JobRow; after: string | null; limit: number },
): DatumPage {
  const rows = ledger.datums.ofJob(job.n, { after, limit });
  const datums = rows
    .filter(({ id }) => ledger.attempts.get(job.n, id) === undefined)
    .map((row) => inherited(ledger, { job, row }));
  const last = rows.at(-1);
  return { datums, next: last && rows.length === limit ? textOf({ of: "rest", key: last.key }) : null };
}

/** A datum that a job runs or ran. */
export function shown(ledger: Ledger, { job, attempt }: { job: JobRow; attempt: ShownAttempt }): JobDatum {
  const { id, key, tries, exitCode, reason, node } = attempt;
  const waits = attempt.state === "waiting";
  // What ended with its job may not have been called off yet.
  const over =
    job.finishedAt !== null && (waits || attempt.state === "queued" || attempt.state === "running");
  const state = over ? "killed" : waits ? "queued" : attempt.state;
  const salt = ledger.pipeline.definitionAt(job.revision)?.salt ?? "";
  const code = codeOf(ledger, { job, id, salt });
  return { id, state, tries, exitCode, reason, node, code, inputs: inputsOf(ledger, { job, key }) };
}

/** A datum that a job has without running it. */
export function inherited(ledger: Ledger, { job, row }: { job: JobRow; row: DatumRow }): JobDatum {
  const { id, key, salt } = row;
  const undone = job.finishedAt === null ? "queued" : "killed";
  const done = job.state === "success" || ledger.results.has(id, salt);
  const state = done ? "skipped" : undone;
  const inputs = inputsOf(ledger, { job, key });
  const code = codeOf(ledger, { job, id, salt });
  return { id, state, tries: 0, exitCode: null, reason: null, node: null, code, inputs };
}

/** What made the result that a datum has in a job. One that was made later is of no matter to the job. */
function codeOf(
  { results, codes }: Ledger,
  { job, id, salt }: { job: JobRow; id: string; salt: string },
): JobDatum["code"] {
  const origin = results.origin({ id, salt });
  return origin && origin.job <= job.n ? codes.get(origin.code) : null;
}

function inputsOf(ledger: Ledger, { job, key }: { job: JobRow; key: string }): JobDatum["inputs"] {
  const paths = datumPaths(key);
  const inputs = ledger.pipeline.definitionAt(job.revision)?.inputs ?? [];
  return inputs.map(({ name, source }, index) => ({
    name,
    path: paths[index] ?? "",
    commit: job.positions[source]?.commit ?? null,
  }));
}

const FIRST: Place = { of: "attempts", id: "" };

function textOf(place: Place): string {
  return place.of === "attempts"
    ? `a${place.id}`
    : `r${place.key === null ? "" : `=${encodeURIComponent(place.key)}`}`;
}

function parsePlace(text: string): Place | undefined {
  if (text.startsWith("a")) return { of: "attempts", id: text.slice(1) };
  if (text === "r") return { of: "rest", key: null };
  const key = text.startsWith("r=") ? decoded(text.slice(2)) : undefined;
  return key === undefined ? undefined : { of: "rest", key };
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
