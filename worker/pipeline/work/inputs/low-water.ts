import { type BranchAddress, bucketName } from "../../../../protocol/names.ts";
import type { InputStart, SubscriberMark } from "../../../branch/contract/pipelines.ts";
import type { PipelineContext } from "../../context.ts";
import type { Source } from "../../inputs/source-store.ts";
import type { JobRow } from "../../jobs/job-store.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import type { Definition } from "../../lifecycle/definition.ts";

/*
 * Low-water marks: how far back the pipeline still reads each of its inputs' histories. A branch prunes what no subscriber's
 * mark holds, and nothing else. When the pipeline subscribes, its mark is HEAD. Later each branch gets a new one whenever
 * that has moved: to what the cursor and the oldest job at work still read. The mark before holds too much, never too little,
 * since cursors and jobs only go forward. So a call may come late, twice or not at all.
 */

type LowWaterMark = Omit<SubscriberMark, "uid">;

/** Shortest time between two rounds of calls: what branches hold meanwhile they prune a little later. */
const BETWEEN_MS = 5_000;

/** When branches are to get their new marks. Undefined: they have acknowledged them. */
export function marksDueAt(context: PipelineContext): number | undefined {
  return movedMarks(context).length > 0 ? context.memory.markedAt + BETWEEN_MS : undefined;
}

/** Gives each input branch the mark that it has not acknowledged. Throws if one can't be reached. */
export async function sendMarks(context: PipelineContext): Promise<void> {
  const { ledger, peers, memory } = context;
  const now = peers.now();
  const isTooSoon = now >= memory.markedAt && now - memory.markedAt < BETWEEN_MS;
  const moved = isTooSoon ? [] : movedMarks(context);
  if (moved.length === 0) return;
  memory.markedAt = now;
  for (const { source, mark } of moved) {
    const definition = ledger.active();
    if (!definition) return;
    await peers.branch(source).feed.setMark({ uid: definition.uid, ...mark });
    ledger.step(definition, () => ledger.sources.setAcknowledged(source.source, JSON.stringify(mark)));
  }
}

/** Marks that a branch has not acknowledged: it holds more for the pipeline than that reads. */
function movedMarks({ ledger }: PipelineContext): { source: Source; mark: LowWaterMark }[] {
  const definition = ledger.active();
  if (!definition) return [];
  const job = oldestReader(ledger);
  // The jobs of a version that read other branches are ended before this one runs.
  if (job && !readsTheSame(ledger.pipeline.definitionAt(job.revision), definition)) return [];
  return ledger.sources.all().flatMap((source) => {
    const mark = markOf(definition, { source, job });
    return ledger.sources.acknowledged(source.source) === JSON.stringify(mark) ? [] : [{ source, mark }];
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

function markOf(
  definition: Definition,
  { source, job }: { source: Source; job: JobRow | undefined },
): LowWaterMark {
  const read = job?.positions[source.source];
  // What a commit changed shows in what was there before it.
  const seq = read ? Math.max(read.seq - 1, 0) : source.seq;
  const { generation } = read ?? source;
  const starts = startsOf(definition, source.source);
  return { generation, seq, job: job?.finishedAt === null ? job.id : null, starts };
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
