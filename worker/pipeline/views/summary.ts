import { decodeTime, isValid } from "ulid";
import type { JobStep } from "../../../protocol/pipelines.ts";
import { datumPaths } from "../../core/datums.ts";
import type { RanAttempt } from "../attempts/attempt-store.ts";
import type { DatumSummary } from "../contract.ts";
import type { JobRow } from "../jobs/job-store.ts";
import type { Ledger } from "../ledger/ledger.ts";

/** Datums that one call looks through: some 30 ms. Ids are hashes, so what is beyond them looks the same. */
const LOOKED_AT = 10_000;
const MAX_SLOWEST = 20;
const MAX_FAILED = 20;
/** Last lines of a failed datum, and the most characters of them. */
const LAST_LINES = 10;
const LAST_CHARACTERS = 4000;

/** What a job went through, and how its datums did, put together: of 10,000 datums nobody reads the rows. */
export function summarize(ledger: Ledger, job: JobRow): DatumSummary {
  const names = ledger.pipeline.definitionAt(job.revision)?.inputs.map(({ name }) => name) ?? [];
  const inputsOf = (key: string) => {
    const paths = datumPaths(key);
    return names.map((name, index) => ({ name, path: paths[index] ?? "" }));
  };
  const ran = ledger.attempts.durations(job.n, LOOKED_AT);
  const slowest = ran.slice(-MAX_SLOWEST).reverse();
  return {
    steps: stepsOf(job, {
      ...workOf(ledger, { job, ran }),
      pushes: ledger.pipeline.definitionAt(job.revision)?.spec.egress !== undefined,
    }),
    durations: durationsOf(ran, { more: job.processed > ran.length }),
    slowest: slowest.map(({ id, key, node, millis }) => ({ id, inputs: inputsOf(key), node, millis })),
    failed: ledger.attempts
      .failed(job.n, { after: null, limit: MAX_FAILED })
      .map(({ id, key, tries, exitCode, reason, log }) => ({
        ...{ id, inputs: inputsOf(key), tries, exitCode, reason },
        node: ledger.attempts.get(job.n, id)?.node ?? null,
        log: lastLines(log ?? ""),
      })),
  };
}

/** When a job's datums ran. */
interface Work {
  readonly first: number | null;
  readonly last: number | null;
}

/**
 * When the first datum began and the last one ended. Written down is when each ended, and how long its command took; of one
 * that runs, its lease says since when.
 */
function workOf({ attempts }: Ledger, { job, ran }: { job: JobRow; ran: readonly RanAttempt[] }): Work {
  const lease = job.open > 0 ? attempts.firstLease(job.n) : null;
  const began = ran.map(({ finishedAt, millis }) => finishedAt - millis);
  if (lease !== null && isValid(lease)) began.push(decodeTime(lease));
  const ended = ran.map(({ finishedAt }) => finishedAt);
  const lastFailure = job.failed > 0 ? attempts.lastFailure(job.n, LOOKED_AT) : null;
  if (lastFailure !== null) ended.push(lastFailure);
  return { first: least(began), last: greatest(ended) };
}

/** Of more than a call can have as arguments. */
function least(numbers: readonly number[]): number | null {
  return numbers.reduce<number | null>(
    (found, each) => (found === null || each < found ? each : found),
    null,
  );
}

function greatest(numbers: readonly number[]): number | null {
  return numbers.reduce<number | null>(
    (found, each) => (found === null || each > found ? each : found),
    null,
  );
}

type Stepped = Pick<
  JobRow,
  | "createdAt"
  | "startedAt"
  | "turnAt"
  | "committingAt"
  | "finishedAt"
  | "open"
  | "processed"
  | "failed"
  | "outputCommit"
>;

interface Begun {
  readonly name: JobStep["name"];
  readonly from: number;
}

/** The steps that a job took so far; the last one goes on, or ended with the job. */
export function stepsOf(job: Stepped, work: Work & { readonly pushes: boolean }): JobStep[] {
  const { createdAt, finishedAt } = job;
  const begun: Begun[] = [
    { name: "fill", from: createdAt },
    ...datumSteps(job, work),
    ...endSteps(job, work),
  ];
  // The clocks of several machines are in them: none begins before the one before it, or after the job's end.
  const begins: number[] = [];
  for (const { from } of begun) {
    begins.push(Math.min(Math.max(begins.at(-1) ?? createdAt, from), finishedAt ?? from));
  }
  return begun.map(({ name }, index) => ({
    name,
    from: begins[index] ?? createdAt,
    to: begins[index + 1] ?? finishedAt,
  }));
}

function hasWork({ open, processed, failed }: Stepped): boolean {
  return open + processed + failed > 0;
}

function datumSteps(job: Stepped, { first }: Work): Begun[] {
  if (job.startedAt === null || !hasWork(job)) return [];
  const queued: Begun = { name: "queued", from: job.startedAt };
  if (first !== null) return [queued, { name: "datums", from: first }];
  // Of a datum that failed, it is not written down when it began: that a worker took it is all that is known.
  return job.failed > 0 ? [{ name: "datums", from: job.startedAt }] : [queued];
}

/** From when no datum is open. A job that ended without a commit came to none of these. */
function endSteps(job: Stepped, { last, pushes }: Work & { readonly pushes: boolean }): Begun[] {
  const { startedAt, turnAt, committingAt, finishedAt, open, outputCommit } = job;
  const committedAt = outputCommit !== null && isValid(outputCommit) ? decodeTime(outputCommit) : null;
  const isEnding = finishedAt === null ? open === 0 : committedAt !== null;
  if (startedAt === null || !isEnding) return [];
  const done = hasWork(job) ? (last ?? startedAt) : startedAt;
  const turn: Begun[] = turnAt === null || turnAt > done ? [{ name: "turn", from: done }] : [];
  if (turnAt === null) return turn;
  const from = Math.max(done, turnAt);
  const commit: Begun[] = committingAt === null ? [] : [{ name: "commit", from: committingAt }];
  const egress: Begun[] = pushes && committedAt !== null ? [{ name: "egress", from: committedAt }] : [];
  return [...turn, { name: "merge", from }, ...commit, ...egress];
}

function durationsOf(ran: readonly RanAttempt[], { more }: { more: boolean }): DatumSummary["durations"] {
  const longest = ran.at(-1)?.millis;
  if (longest === undefined) return null;
  const at = (share: number): number => ran[Math.ceil(ran.length * share) - 1]?.millis ?? longest;
  return { count: ran.length, more, median: at(0.5), p95: at(0.95), longest, buckets: bucketsOf(ran) };
}

/** By powers of two: what takes 10 ms and what takes an hour have their place in the same picture. */
function bucketsOf(ran: readonly RanAttempt[]): { below: number; count: number }[] {
  const counts = new Map<number, number>();
  for (const { millis } of ran) {
    const exponent = Math.floor(Math.log2(Math.max(1, millis))) + 1;
    counts.set(exponent, (counts.get(exponent) ?? 0) + 1);
  }
  const exponents = [...counts.keys()];
  const first = Math.min(...exponents);
  return Array.from({ length: Math.max(...exponents) - first + 1 }, (_, index) => ({
    below: 2 ** (first + index),
    count: counts.get(first + index) ?? 0,
  }));
}

function lastLines(log: string): string[] {
  const lines = log.slice(-LAST_CHARACTERS).replace(/\n$/, "").split("\n");
  return log === "" ? [] : lines.slice(-LAST_LINES);
}
