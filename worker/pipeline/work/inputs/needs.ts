import { type BranchAddress, bucketName } from "../../../../protocol/names.ts";
import type { CommitPosition, InputStart, SubscriberNeed } from "../../../branch/contract.ts";
import type { PipelineContext } from "../../context.ts";
import type { Source } from "../../inputs/source-store.ts";
import type { JobRow } from "../../jobs/job-store.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import type { Definition } from "../../lifecycle/definition.ts";

/*
 * What the pipeline still needs of its inputs' histories. A branch gives nothing back that a subscriber needs, and all
 * that nobody does. So each is told: when the pipeline subscribes it needs what comes from HEAD on; later, whenever its
 * needs have moved on, what its cursor and its oldest job at work still read. What was told before always holds too much,
 * never too little: cursors and jobs only go forward. So a call may come late, twice or not at all.
 */

type Need = Omit<SubscriberNeed, "uid">;

/** Shortest time between two rounds. */
const TELL_MS = 5_000;

/** When branches are to be told: not after each of many jobs, what they hold meanwhile they let go of a little later. */
export function needsDueAt(context: PipelineContext): number | undefined {
  return hasUntold(context) ? context.memory.toldAt + TELL_MS : undefined;
}

/** Tells each input branch what the pipeline needs of it, unless it knows. Throws if one can't be reached. */
export async function tellNeeds(context: PipelineContext): Promise<void> {
  const { ledger, peers, memory } = context;
  const now = peers.now();
  const isTooSoon = now >= memory.toldAt && now - memory.toldAt < TELL_MS;
  if (!ledger.exists || isTooSoon || !hasUntold(context)) return;
  memory.toldAt = now;
  for (const { source, need } of untold(context)) {
    const definition = ledger.active();
    if (!definition) return;
    await peers.branch(source).need({ uid: definition.uid, ...need });
    ledger.step(definition, () => ledger.sources.setAcknowledged(source.source, JSON.stringify(need)));
  }
}

/** Whether a branch holds more for the pipeline than it needs. */
function hasUntold(context: PipelineContext): boolean {
  return untold(context).length > 0;
}

function untold({ ledger }: PipelineContext): { source: Source; need: Need }[] {
  const definition = ledger.active();
  if (!definition) return [];
  const job = oldestReader(ledger);
  // The jobs of a version that read other branches are ended before this one runs.
  if (job && !readsTheSame(ledger.pipeline.definitionAt(job.revision), definition)) return [];
  return ledger.sources.all().flatMap((source) => {
    const need = needOf(definition, { source, job });
    return ledger.sources.acknowledged(source.source) === JSON.stringify(need) ? [] : [{ source, need }];
  });
}

/** The oldest job that may still read its inputs: later ones read from the same places on, or later ones. */
function oldestReader({ jobs }: Ledger): JobRow | undefined {
  const [running, filling] = [jobs.oldest(), jobs.nextToFill()];
  return running && filling ? (running.n < filling.n ? running : filling) : (running ?? filling);
}

function readsTheSame(one: Definition | undefined, other: Definition): boolean {
  const buckets = (sources: readonly BranchAddress[]): string => JSON.stringify(sources.map(bucketName));
  return one !== undefined && buckets(one.sources) === buckets(other.sources);
}

function needOf(definition: Definition, { source, job }: { source: Source; job: JobRow | undefined }): Need {
  const { generation, seq } = neededAt(source, job);
  const starts = startsOf(definition, source.source);
  return { generation, seq, job: job?.finishedAt === null ? job.id : null, starts };
}

/** What a commit changed is told by what was there before it. */
function neededAt(source: Source, job: JobRow | undefined): CommitPosition {
  const read = job?.positions[source.source];
  return read ? { generation: read.generation, seq: Math.max(read.seq - 1, 0) } : source;
}

/** The commits that the inputs of a source start after. */
export function startsOf({ inputs }: Definition, source: number): InputStart[] {
  const starts = new Map<string, InputStart>();
  for (const { source: read, from, start } of inputs) {
    if (read === source && from !== null && start) {
      starts.set(from, { commit: from, generation: start.generation, seq: start.seq });
    }
  }
  return [...starts.values()];
}
