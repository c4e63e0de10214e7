import type { BranchAddress } from "../../../protocol/names.ts";
import type { Pipeline } from "../../../protocol/pipelines.ts";
import type { PipelineContext } from "../context.ts";
import type { Fate, FateCall } from "../contract.ts";
import { isAfter } from "../inputs/source-store.ts";
import type { JobRow } from "../jobs/job-store.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { type Definition, errorsOf } from "../lifecycle/definition.ts";
import { failureText } from "../output/reasons.ts";
import { shownJobs } from "./job.ts";
import { foundPipeline } from "./pipeline.ts";

/** Jobs looked at, the newest first, for one that an event of another input made. */
const MAX_LOOKED_AT = 1000;
const PAGE = 100;

/**
 * What became of a commit on an input: the oldest job that has it, or why there is none. A pipeline that makes none is
 * never said to be at it, so nobody waits for it. Returns undefined if there is no pipeline.
 */
export async function fateOf(context: PipelineContext, call: FateCall): Promise<Fate | undefined> {
  const { ledger } = context;
  const found = foundPipeline(ledger);
  const definition = ledger.pipeline.definition();
  if (!found || !definition) return undefined;
  const job = jobWith(ledger, { definition, call });
  if (typeof job === "object") return await fateOfJob(context, { definition, job });
  const reads = reposOf(definition);
  const none = whyNone(ledger, { definition, call, pipeline: found.pipeline });
  const nothing = { job: null, reads, outputs: [] };
  if (none === undefined) return { state: "running", reason: null, ...nothing };
  if (job === "not-kept") return { state: "unknown", reason: "its job is kept no more", ...nothing };
  return { state: "none", reason: none, ...nothing };
}

async function fateOfJob(
  context: PipelineContext,
  { definition, job }: { definition: Definition; job: JobRow },
): Promise<Fate> {
  const { ledger } = context;
  const own = ledger.pipeline.definitionAt(job.revision) ?? definition;
  const { state, id } = job;
  const made = [
    { address: own.output, commit: job.outputCommit },
    { address: errorsOf(own), commit: job.errorsCommit },
  ];
  return {
    state: state === "success" || state === "failure" || state === "killed" ? state : "running",
    reason: await outlineOf(context, { definition: own, job }),
    job: id,
    reads: [...new Set([...reposOf(definition), ...reposOf(own)])],
    outputs: made.flatMap(({ address, commit }) => (commit === null ? [] : [{ ...address, commit }])),
  };
}

function reposOf({ sources }: Definition): string[] {
  return [...new Set(sources.map(({ repo }) => repo))];
}

/**
 * The oldest job that has the commit in its inputs. `not-kept`: there may have been one. If the commit itself made the job,
 * as it nearly always does, one row is read, however long ago that was.
 */
function jobWith(
  ledger: Ledger,
  { definition, call }: { definition: Definition; call: FateCall },
): JobRow | "none" | "not-kept" {
  const source = sourceOf(definition, call);
  const { revision } = definition;
  const own = call.at && source >= 0 && ledger.jobs.ofEvent({ ...call.at, revision, source });
  return own || searched(ledger, call);
}

/** The same among the newest jobs, of whatever version. They are in the order of what they read of the branch. */
function searched({ jobs, pipeline }: Ledger, call: FateCall): JobRow | "none" | "not-kept" {
  let oldest: JobRow | undefined;
  let last = 1;
  for (const job of newest(jobs)) {
    const then = pipeline.definitionAt(job.revision);
    const read = then && job.positions[sourceOf(then, call)];
    if (read?.commit === call.commit) oldest = job;
    else if (read && call.at && isAfter(call.at, read)) return oldest ?? "none";
    last = job.n;
  }
  return oldest ?? (last > 1 ? "not-kept" : "none");
}

function* newest(jobs: Ledger["jobs"]): Generator<JobRow> {
  let before = AFTER_ALL_IDS;
  for (let looked = 0; looked < MAX_LOOKED_AT; looked += PAGE) {
    const page = jobs.before(before, { limit: PAGE });
    yield* page;
    const last = page.at(-1);
    if (!last || page.length < PAGE) return;
    before = last.id;
  }
}

/** Greater than every job id. */
const AFTER_ALL_IDS = "~";

function sourceOf({ sources }: Definition, { repo, branch }: BranchAddress): number {
  return sources.findIndex((source) => source.repo === repo && source.branch === branch);
}

const CHANGING: readonly Pipeline["state"][] = ["creating", "starting", "updating"];

/** Why a pipeline makes no job of a commit of which it has none; undefined: it is about to make one. */
function whyNone(
  { sources, pipeline: row }: Ledger,
  { definition, call, pipeline }: { definition: Definition; call: FateCall; pipeline: Pipeline },
): string | undefined {
  const { at } = call;
  const { state, reason } = pipeline;
  if (CHANGING.includes(state)) return undefined;
  if (state !== "active") return `it is ${state}`;
  const source = sourceOf(definition, call);
  const cursor = sources.all()[source];
  if (!cursor) return "it reads the branch no more";
  const inputs = definition.inputs.filter((input) => input.source === source);
  const isBehind = at !== null && inputs.every(({ start }) => start !== null && !isAfter(at, start));
  if (isBehind) return "its input begins behind the commit";
  // What is not read yet may fill an input that seems to be empty.
  const isUnread = (at !== null && isAfter(at, cursor)) || (reason !== null && row.row()?.pullDue === 1);
  if (isUnread && row.behind() === null) return undefined;
  return reason ?? "it began with a later commit";
}

/** Reasons that have no names, numbers, or words of a runner in them. */
const PLAIN: readonly string[] = [
  ...["it was stopped", "the pipeline was stopped", "the pipeline was updated", "input erased"],
  ...["its datums are being worked out", "its output is being committed"],
  "what several datums wrote to one path is being put together",
  "no live runner: start one with `sluice runner`",
  "every node is being drained: let one take work again with `sluice node resume`",
  "no live node has a worker for it yet",
];

/**
 * The reason of a job, for who may read what it read. A reason as `GET /jobs/{id}` has it may hold what a command printed, where
 * egress goes, and names of nodes and images: of that nothing is told. What is not known to have none of it is not told
 * either.
 */
async function outlineOf(
  context: PipelineContext,
  { definition, job }: { definition: Definition; job: JobRow },
): Promise<string | null> {
  const { ledger } = context;
  const [{ reason = null } = {}] = await shownJobs(context, [job]);
  if (reason === null || PLAIN.includes(reason)) return reason;
  if (job.finishedAt === null) return reason.startsWith("behind job ") ? "behind an earlier job" : null;
  if (job.state === "success") return job.failed > 0 ? "datums failed and are left out" : null;
  const timeout = `the job ran longer than ${definition.spec.jobTimeout} (jobTimeout)`;
  if (reason === timeout) return timeout;
  const [first] = ledger.attempts.failed(job.n, { after: null, limit: 1 });
  if (!first) return null;
  const quiet = { ...first, reason: null, log: null };
  const begins = failureText(definition, { first: { ...quiet, exitCode: null }, count: 1 });
  // The job may have failed for another reason, although datums of it did.
  return reason.includes(begins) ? failureText(definition, { first: quiet, count: 1 }) : null;
}
