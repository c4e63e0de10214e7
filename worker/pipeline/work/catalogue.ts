import { MAX_JOBS_PER_WRITE } from "../../catalogue/jobs.ts";
import type { PipelineRecord } from "../../catalogue/pipelines.ts";
import type { Forget } from "../../objects/outbox.ts";
import { yieldToOthers } from "../../objects/turns.ts";
import type { Peers, PipelineContext } from "../context.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Definition } from "../lifecycle/definition.ts";
import { hasErrors } from "../lifecycle/version-store.ts";
import { viewJob } from "../views/job.ts";

/** Shortest time between two writes, so that a burst of jobs goes in batches. */
const PAUSE_MS = 50;
/** Shortest time between two writes that tell only of progress. */
const PROGRESS_MS = 500;

/**
 * Brings the catalogue up to date with the jobs: a batch, with each job once however often it changed since. New and
 * ended jobs go as soon as the last write allows, progress at most twice a second; what is urgent ends that pause.
 */
export async function tellJobs(context: PipelineContext): Promise<Forget> {
  const { ledger, memory } = context;
  if (await flushPage(context)) {
    await scheduler.wait(PAUSE_MS);
    if (!ledger.jobs.hasUrgent()) await memory.urgent.wait(PROGRESS_MS);
  }
  return () => ledger.jobs.unflushed(1).length === 0;
}

/** One batch. Returns false if nothing was left. */
export async function flushPage({ ledger, peers }: PipelineContext): Promise<boolean> {
  const definition = ledger.exists ? ledger.pipeline.definition() : undefined;
  if (!definition) return false;
  const jobs = ledger.jobs.unflushed(MAX_JOBS_PER_WRITE);
  if (jobs.length === 0) return false;
  if (ledger.watchSpace()) await tellAlmostFull(peers, definition.name);
  const oldest = ledger.jobs.oldest();
  await peers.catalogue.jobs.record(
    jobs.map((job) => ({ job: viewJob(job, { ledger, oldest }), version: job.version })),
    definition,
  );
  // Before that is written down: a crash in between has it told, and nodes woken, once more.
  if (jobs.some(({ flushed, finishedAt }) => flushed === 0 && finishedAt === null))
    await peers.fleet.wakeWorkers(definition.name);
  ledger.transaction(() => {
    if (ledger.pipeline.definition()?.uid !== definition.uid) return;
    for (const { n, version } of jobs) ledger.jobs.setFlushed(n, version);
  });
  return true;
}

/** Nothing depends on it: what gets lost is said again with the next hundredth. */
async function tellAlmostFull({ catalogue }: Peers, name: string): Promise<void> {
  await catalogue.almostFull
    .tell({ kind: "pipeline", name, toldAt: Date.now() })
    .catch((error: unknown) => console.warn(`the catalogue could not be told: ${error}`));
}

/** Brings the catalogue up to date with a pipeline that runs or is stopped. Throws if it can't be reached. */
export async function announcePipeline({ ledger, peers }: PipelineContext): Promise<void> {
  const definition = ledger.pipeline.definition();
  const row = ledger.pipeline.row();
  if (!definition || !row) return;
  const state = row.state === "stopped" ? "stopped" : "active";
  await peers.catalogue.pipelines.record(pipelineRecord(ledger, definition, { state, deleted: false }));
  ledger.transaction(() => ledger.pipeline.setCatalogueVersion(row.version));
  await peers.fleet.wake();
}

/** Jobs that the catalogue is told of anew at a time. */
const ANNOUNCED_AT_ONCE = 1000;
/** Greater than every job id. */
const AFTER_ALL_IDS = "~";

/**
 * Makes sure that the catalogue is told all of this pipeline again, as it may have lost what it knew, or may know of a time
 * that the object was set back from. That goes first. It is written down before, in case of a crash, and after: what
 * was told meanwhile may have gone with it. Of jobs that are listed no more nothing is told.
 */
export async function tellAgain({ ledger, peers }: PipelineContext): Promise<void> {
  const pipeline = ledger.pipeline.name();
  if (pipeline === undefined) return;
  const forget = (after: string) =>
    ledger.transaction(() => {
      const { version, unlisted } = ledger.pipeline.existing;
      const jobs = ledger.jobs.before(after, { from: unlisted, limit: ANNOUNCED_AT_ONCE });
      ledger.pipeline.forgetCatalogueVersion();
      ledger.jobs.setUnflushed(jobs.map(({ id }) => id));
      return { jobs, version };
    });
  for (let after: string | undefined = AFTER_ALL_IDS; after !== undefined; ) {
    const { jobs, version } = forget(after);
    const isNewest = after === AFTER_ALL_IDS;
    if (isNewest) await peers.catalogue.pipelines.setBack({ name: pipeline, version });
    const newest = isNewest ? (jobs[0]?.id ?? "") : AFTER_ALL_IDS;
    await peers.catalogue.jobs.setBack({ pipeline, newest, jobs });
    forget(after);
    after = jobs.length < ANNOUNCED_AT_ONCE ? undefined : jobs.at(-1)?.id;
    await yieldToOthers();
  }
}

export function pipelineRecord(
  ledger: Ledger,
  definition: Definition,
  { state, deleted }: Pick<PipelineRecord, "state" | "deleted">,
): PipelineRecord {
  const { name, uid, createdAt, sources, output, spec } = definition;
  return {
    name,
    uid,
    state,
    createdAt,
    inputs: sources,
    output,
    errors: hasErrors(ledger, definition),
    parallelism: spec.parallelism_spec,
    ...(spec.transform.container && { container: spec.transform.container }),
    ...(spec.description !== undefined && { description: spec.description }),
    version: ledger.pipeline.existing.version,
    deleted,
  };
}
