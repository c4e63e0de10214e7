import { bucketName } from "../../../../protocol/names.ts";
import type { Erasure } from "../../../branch/contract/erasures.ts";
import type { CommitPosition } from "../../../branch/contract/pipelines.ts";
import { yieldToOthers } from "../../../objects/turns.ts";
import type { PipelineContext } from "../../context.ts";
import { candidates, readersOf } from "../../inputs/candidates.ts";
import { ALL_COLLECTED } from "../../jobs/job-store.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import type { Definition, InputRule } from "../../lifecycle/definition.ts";
import { endEarly, insertJob, pipelineEvent } from "../jobs.ts";

/** Jobs looked at in one transaction. */
const JOBS = 200;
/** Why such a job ends. */
const REASON = "input erased";

/** Whether something was erased that was not heard of, or jobs were killed for it and the one that follows them is not made. */
export function hasErased(
  { erasures }: Ledger,
  { bucket, erased }: { bucket: string; erased: number },
): boolean {
  return erased > erasures.heard(bucket) || erasures.due(bucket) > 0;
}

/**
 * Hears what was erased on an input branch. Jobs that have not ended and read it can't: they are killed. One job is made for
 * where the inputs are, unless the branch has events that make one anyway.
 *
 * It comes before the events of the feed's page that told of it. The jobs that are there read the branch as it was, the ones
 * that are made from then on read it as it is. What the elements know of such a path may be wrong by then, as nothing tells
 * them before the event at which it would have died: so the next job compares it (`erased_paths`).
 */
export async function hearErasures(
  context: PipelineContext,
  { definition, source, hasEvents }: { definition: Definition; source: number; hasEvents: boolean },
): Promise<void> {
  const { ledger, peers } = context;
  const address = definition.sources[source];
  if (!address) return;
  const bucket = bucketName(address);
  for (;;) {
    const after = ledger.erasures.heard(bucket);
    const { erasures, upTo } = await peers.branch(address).erasures.list({ uid: definition.uid, after });
    if (upTo <= after) break;
    const read = readsOf(definition, { source, erasures });
    for (let n: number | null = 0; n !== null && read.length > 0; ) {
      n = killSome(context, n, { definition, source, bucket, read });
      if (n !== null) await yieldToOthers();
    }
    const isHeard = ledger.step(definition, (tx) => {
      notePaths(context, { source, read });
      if (read.length > 0) ledger.oweRewrite(tx, peers.now());
      ledger.erasures.hear(bucket, upTo);
      return true;
    });
    if (!isHeard) return;
    await yieldToOthers();
  }
  ledger.step(definition, (tx) => {
    const due = ledger.erasures.due(bucket);
    if (due === 0) return;
    ledger.erasures.settle(bucket, due);
    if (hasEvents || ledger.pipeline.row()?.hadFirstJob !== 1) return;
    ledger.pipeline.setNewVersion();
    insertJob(tx, context, { ...pipelineEvent(ledger, definition), fill: ALL_COLLECTED });
  });
}

/** Those that an input of the source reads. */
function readsOf(
  { inputs }: Definition,
  { source, erasures }: { source: number; erasures: readonly Erasure[] },
): Erasure[] {
  const readers = readersOf(inputs, source);
  return erasures.filter((erasure) => {
    const belongs = [...readers].filter(([, { start }]) => isSince(erasure, start));
    return candidates([{ path: erasure.path, now: null }], new Map(belongs)).length > 0;
  });
}

function isSince({ generation, born }: Erasure, start: InputRule["start"]): boolean {
  if (start === null || generation > start.generation) return true;
  return generation === start.generation && born > start.seq;
}

function isAt({ generation, born, died }: Erasure, at: CommitPosition | undefined): boolean {
  return at !== undefined && at.generation === generation && at.seq >= born && at.seq < died;
}

/** Returns the last job that was looked at; null if there are no more. */
function killSome(
  context: PipelineContext,
  after: number,
  of: { definition: Definition; source: number; bucket: string; read: readonly Erasure[] },
): number | null {
  const { ledger } = context;
  const { definition, source, bucket, read } = of;
  const last = ledger.step(definition, (tx) => {
    const jobs = ledger.jobs.unfinishedAfter(after, JOBS);
    for (const job of jobs) {
      if (job.revision !== definition.revision) continue;
      if (!read.some((erasure) => isAt(erasure, job.positions[source]))) continue;
      // One whose output may be committed already comes to its end.
      if (endEarly(tx, context, { job, state: "killed", reason: REASON })) ledger.erasures.addDue(bucket);
    }
    return jobs.length < JOBS ? null : (jobs.at(-1)?.n ?? null);
  });
  return last ?? null;
}

function notePaths(
  { ledger }: PipelineContext,
  { source, read }: { source: number; read: readonly Erasure[] },
): void {
  const at = ledger.sources.all()[source];
  for (const erasure of read) if (isAt(erasure, at)) ledger.erasures.note({ source, ...erasure });
}
