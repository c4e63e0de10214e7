import { bucketName } from "../../../protocol/names.ts";
import type { Lineage } from "../../branch/contract/pipelines.ts";
import type { Tx } from "../../objects/transaction.ts";
import { yieldToOthers } from "../../objects/turns.ts";
import type { JobWork, Memory, PipelineContext } from "../context.ts";
import { candidates, readersOf } from "../inputs/candidates.ts";
import type { Position, Source } from "../inputs/source-store.ts";
import { type Fill, type JobEnd, type JobRow, PIPELINE, skippedOf } from "../jobs/job-store.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Definition } from "../lifecycle/definition.ts";

interface Event {
  readonly definition: Definition;
  readonly source: number;
  readonly at: { readonly generation: number; readonly seq: number };
}

/**
 * One job for an event, at the places that the inputs were read to. Returns undefined if that event has its job. If the
 * job would go on in a circle, it ends at once.
 */
export function insertJob(
  tx: Tx,
  context: PipelineContext,
  { definition, source, at, fill }: Event & { fill: Fill },
): number | undefined {
  const { ledger, peers } = context;
  const positions = ledger.sources.all();
  const n = ledger.jobs.insert({
    id: peers.id(ledger.jobs.newest()?.id ?? definition.uid),
    revision: definition.revision,
    source,
    at,
    positions,
    fill,
    now: peers.now(),
  });
  if (n !== undefined) touchErased(tx, context, { definition, positions, n });
  const reason = n === undefined ? undefined : circleText(definition, positions);
  const job = n === undefined || reason === undefined ? undefined : ledger.jobs.get(n);
  if (job && reason !== undefined) endEarly(tx, context, { job, state: "failure", reason });
  return n;
}

/** The job compares what was erased since the one before. From the commit on at which it would have died, events tell of it. */
function touchErased(
  _: Tx,
  { ledger }: PipelineContext,
  { definition, positions, n }: { definition: Definition; positions: readonly Source[]; n: number },
): void {
  for (const { source, path, generation, died } of ledger.erasures.takePaths()) {
    const at = positions[source];
    if (at?.generation !== generation || at.seq >= died) continue;
    ledger.touched.add(n, candidates([{ path, now: null }], readersOf(definition.inputs, source)));
  }
}

/** A job that reads its inputs whole, whatever was known of them before. */
export function insertWholeJob(tx: Tx, deps: PipelineContext, event: Event): void {
  const { pipeline } = deps.ledger;
  const n = insertJob(tx, deps, { ...event, fill: { step: "forget" } });
  pipeline.set({ hadFirstJob: 1, wholeJobDue: 0 });
  // Before the first job there were no results, and so no results of another salt.
  if (n !== undefined && n > 1) pipeline.set({ staleUntil: n });
}

/** What makes a job unique that no commit made: the pipeline's own version, which has just grown. */
export function pipelineEvent({ pipeline }: Ledger, definition: Definition): Event {
  return { definition, source: PIPELINE, at: { generation: 0, seq: pipeline.existing.version } };
}

/** Attempts looked at in one transaction. */
const SLICE = 1000;

interface End {
  readonly job: JobRow;
  readonly state: JobEnd["state"];
  readonly reason: string | null;
}

/** Ends the oldest job, which has come to its end, and announces that. Does nothing to one that has ended. */
export function endOldest(
  _: Tx,
  { ledger, peers, memory }: PipelineContext,
  { job, state, reason }: End,
): void {
  const current = ledger.jobs.get(job.n);
  if (current?.finishedAt !== null) return;
  // A datum that was neither processed nor failed had its result before.
  const skipped = current.total - current.processed - current.failed;
  ledger.jobs.end(job.n, { state, reason, skipped, now: peers.now() });
  announceEnd(memory, job);
}

/** Fails the oldest job: its datums did, or its output can't be committed. */
export function failOldest(oldest: JobWork, reason: string): void {
  const { ledger, definition, job } = oldest;
  ledger.endingStep(definition, (tx) => endOldest(tx, oldest, { job, state: "failure", reason }));
}

/**
 * Ends any job before its time and announces that: what it runs loses its lease, what it queued goes. Its datums stay
 * in the set, so the next job that has them runs those without a result. What it committed stays. Returns false if it
 * is too late: the job has ended, or its output is being committed.
 */
export function endEarly(
  _: Tx,
  { ledger, peers, memory }: PipelineContext,
  { job, state, reason }: End,
): boolean {
  if (job.committing === 1) return false;
  const skipped = skippedOf(job, ledger.jobs.oldest());
  if (!ledger.jobs.end(job.n, { state, reason, skipped, now: peers.now() })) return false;
  announceEnd(memory, job);
  memory.queued.wakeOne();
  return true;
}

function announceEnd({ ended, logged }: Memory, { id }: JobRow): void {
  ended.wake(id);
  logged.wake(id);
}

/** Stops one job, whatever state it is in. */
export function stopJob(
  tx: Tx,
  context: PipelineContext,
  id: string,
): "stopped" | "was-stopped" | "no-such-job" | "job-ended" | "job-ending" {
  const job = context.ledger.jobs.byId(id);
  if (!job) return "no-such-job";
  if (job.state === "killed") return "was-stopped";
  if (job.finishedAt !== null) return "job-ended";
  return endEarly(tx, context, { job, state: "killed", reason: "it was stopped" }) ? "stopped" : "job-ending";
}

/**
 * When the time of the oldest job is over; undefined: never. It counts from the job's turn on: its datums are known and every
 * earlier job has ended, so that no job fails for having waited. A job whose output is being committed has no time.
 */
export function overdueAt(ledger: Ledger): number | undefined {
  const timeoutMs = ledger.active()?.jobTimeoutMs ?? null;
  const job = timeoutMs === null ? undefined : ledger.jobs.oldest();
  if (timeoutMs === null || !job || job.turnAt === null || job.committing === 1) return undefined;
  return job.turnAt + timeoutMs;
}

/** Ends the oldest job if its time is over. */
export function endOverdue(context: PipelineContext, now: number): boolean {
  const { ledger } = context;
  const due = overdueAt(ledger);
  if (due === undefined || due > now) return false;
  return ledger.transaction((tx) => {
    const job = ledger.jobs.oldest();
    const reason = `the job ran longer than ${ledger.active()?.spec.jobTimeout} (jobTimeout)`;
    return job !== undefined && endEarly(tx, context, { job, state: "failure", reason });
  });
}

/**
 * Calls off the attempts of jobs that ended before their time, in slices. Their leases are lost already, as their job
 * has ended; from here on later jobs can have their datums.
 */
export async function callOffAttempts({ ledger, peers, memory }: PipelineContext): Promise<void> {
  for (;;) {
    const [n] = ledger.exists ? ledger.jobs.toCallOff(1) : [];
    if (n === undefined) return;
    for (let after: string | null = ""; after !== null; ) {
      const from: string = after;
      after = ledger.transaction(() => {
        const next = ledger.attempts.callOff(n, { after: from, limit: SLICE, now: peers.now() });
        if (next === null) ledger.jobs.setCalledOff(n);
        return next;
      });
      memory.queued.wakeOne();
      await yieldToOthers();
    }
  }
}

/**
 * What the output commit of a job descends from, through commits that jobs made: this pipeline, and whatever the
 * commits that it reads descend from. What a client wrote descends from nothing, be it a copy of an output.
 */
export function lineageOf({ uid }: Pick<Definition, "uid">, { positions, revision }: JobRow): Lineage {
  const lineage: Record<string, number> = { [uid]: revision };
  for (const { lineage: other = {} } of positions) {
    for (const [pipeline, version] of Object.entries(other)) {
      lineage[pipeline] = Math.max(version, lineage[pipeline] ?? 0);
    }
  }
  // The same pipelines make the same text.
  return Object.fromEntries(Object.entries(lineage).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/**
 * Why a job must not run: what it reads descends from the output of this very version, so jobs would make jobs for
 * ever. No specification is accepted that makes a circle; this is the brake if there is one all the same. The output of
 * an earlier version may still come by after an update has turned the way of the data round: that is no circle. Returns
 * undefined if nothing is wrong.
 */
function circleText(
  { uid, revision, inputs, sources }: Definition,
  positions: readonly Position[],
): string | undefined {
  const source = positions.findIndex(({ lineage }) => (lineage?.[uid] ?? 0) >= revision);
  const address = sources[source];
  if (!address) return undefined;
  const name = inputs.find((input) => input.source === source)?.name;
  return `the pipelines go in a circle, which ends here: jobs alone made what is in the input '${name}' (s3://${bucketName(address)}) out of this pipeline's own output. Update one of the pipelines so that it does not read what is made of its output`;
}
