import { identify, mood, outputsOf, type Reading } from "./command.ts";
import type { NaiveJob } from "./naive-pipeline.ts";
import { elementsOf } from "./naive-tree.ts";
import type { RunLog } from "./run-log.ts";

/** So often a datum is tried in one job. */
export const TRIES = 2;

export interface NaiveDatum {
  /** As `identify` answers. */
  readonly id: string;
  /** Paths, the last input first: the order of datums. */
  readonly key: string;
  readonly reading: Reading;
}

/** How a job that was let run to its end must have ended. */
export interface NaiveEnd {
  readonly state: "success" | "failure";
  readonly counts: { total: number; processed: number; skipped: number; failed: number };
  /** What its commit leaves in the output branch, in order of paths; null: it makes none. */
  readonly files: readonly (readonly [path: string, text: string])[] | null;
  /** The keys of the datums that are bad as it tells in the errors branch; null: it tells nothing. */
  readonly told: readonly string[] | null;
}

/** A job of the model, and the id of the real one. */
export interface MatchedJob {
  readonly naive: NaiveJob;
  readonly id: string;
}

const known = new WeakMap<NaiveJob, ReadonlyMap<string, NaiveDatum>>();

/** The cross product of what the globs match, by id, in order of keys. */
export function datumsOf(job: NaiveJob): ReadonlyMap<string, NaiveDatum> {
  const datums = known.get(job) ?? new Map(crossProduct(job).map((datum) => [datum.id, datum]));
  known.set(job, datums);
  return datums;
}

function crossProduct({ inputs }: NaiveJob): NaiveDatum[] {
  const readings = inputs.reduce<Reading[]>(
    (all, { name, glob, tree }) =>
      all.flatMap((reading) =>
        elementsOf(tree, glob).map((element) => [...reading, { input: name, element }]),
      ),
    [[]],
  );
  return readings
    .map((reading) => ({ id: identify(reading), key: keyOf(reading), reading }))
    .sort((a, b) => (a.key < b.key ? -1 : 1));
}

/**
 * The end of the job at `index`, worked out from nothing but what it read. Which job a datum is processed in follows
 * from the order of the jobs, as long as nothing went wrong with it: it is the first one that has it. Where it failed
 * in a job, or a job that has it was killed, a later job may have run it already, or an earlier one may run it after
 * that: then the log decides.
 */
export function endOf(jobs: readonly MatchedJob[], { index, log }: { index: number; log: RunLog }): NaiveEnd {
  const { naive, id: job } = jobs[index] as MatchedJob;
  const { salt, cmd } = naive;
  const datums = [...datumsOf(naive).values()];
  const failed = failedOf({ naive, id: job }, log);
  for (const datum of datums) checkDatum(jobs, { index, log, datum, failed: failed.includes(datum) });
  const processed = datums.filter(({ id }) => log.successOf({ salt, datum: id }) === job);
  const total = datums.length;
  const counts = {
    total,
    processed: processed.length,
    skipped: total - processed.length - failed.length,
    failed: failed.length,
  };
  const good = datums.filter((datum) => !failed.includes(datum));
  const files = merged(good, cmd);
  const task = log.failedTaskOf(job);
  const fails = failed.length > 0 && (!naive.skips || processed.length === 0);
  if (fails || task === "merge") return { state: "failure", counts, files: null, told: null };
  const told = failed.map(({ key }) => key);
  if (isClashing(files)) return { state: "failure", counts, files: null, told };
  // What is committed stays so, whatever becomes of the push.
  return { state: task === "push" ? "failure" : "success", counts, files, told };
}

/** The datums of a job that failed in it. */
export function failedOf({ naive, id: job }: MatchedJob, log: RunLog): NaiveDatum[] {
  return [...datumsOf(naive).values()].filter(({ id }) => log.triesOf({ job, datum: id }) >= TRIES);
}

function checkDatum(
  jobs: readonly MatchedJob[],
  { index, log, datum, failed }: { index: number; log: RunLog; datum: NaiveDatum; failed: boolean },
): void {
  const { id } = datum;
  const { naive, id: job } = jobs[index] as MatchedJob;
  const { salt } = naive;
  const ranFor = log.successOf({ salt, datum: id });
  const expected = mood(datum.reading);
  if (expected === "bad" && !failed) throw new Error(`job ${job} ended though it could not do ${id}`);
  if (expected === "good" && failed) throw new Error(`${id} never fails, but did in job ${job}`);
  if (failed) {
    const ranBefore = jobs.slice(0, index).some((earlier) => earlier.id === ranFor);
    if (ranBefore) throw new Error(`job ${job} ran ${id} again, which ${ranFor} had done`);
    return;
  }
  if (ranFor === undefined) throw new Error(`job ${job} ended without ${id}`);
  const having = jobs.filter((each) => each.naive.salt === salt && datumsOf(each.naive).has(id));
  const disturbed = having.some(
    (each) => each.naive.killed !== undefined || log.triesOf({ job: each.id, datum: id }) > 0,
  );
  if (!disturbed && having[0]?.id !== ranFor)
    throw new Error(`${id} was run for job ${ranFor}, not for the first one that has it, ${having[0]?.id}`);
}

/** Everything that the datums write; what several write to one file is put together in their order. */
export function merged(datums: Iterable<NaiveDatum>, cmd: string): [string, string][] {
  const files = new Map<string, string>();
  for (const { reading } of datums) {
    for (const [path, text] of Object.entries(outputsOf(reading, cmd)))
      files.set(path, (files.get(path) ?? "") + text);
  }
  return [...files].sort(([a], [b]) => (a < b ? -1 : 1));
}

/** Whether a path is a file and a directory at once. */
export function isClashing(files: readonly (readonly [string, string])[]): boolean {
  return files.some(([path]) => files.some(([other]) => other.startsWith(`${path}/`)));
}

function keyOf(reading: Reading): string {
  return reading
    .map(({ element }) => element.path)
    .reverse()
    .join("\u0001");
}
