import { decodeTime, isValid } from "ulid";
import type { Job, JobStep, WaitsFor } from "../../../protocol/pipelines.ts";
import { ableNodes } from "../../core/parallelism.ts";
import type { RanAttempt } from "../attempts/attempt-store.ts";
import { nextExpiry } from "../attempts/task-store.ts";
import type { NodeRoom, PipelineContext, PipelineRoom } from "../context.ts";
import type { DatumSummary } from "../contract.ts";
import { type JobRow, skippedOf } from "../jobs/job-store.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { groupFailures } from "./failures.ts";
import { inputsOf, lastLines } from "./said.ts";

/** Jobs for people, each with why it has not ended yet, and with what it waits for if nobody works on it. */
export async function shownJobs({ ledger, peers }: PipelineContext, rows: readonly JobRow[]): Promise<Job[]> {
  const oldest = ledger.jobs.oldest();
  const jobs: Job[] = [];
  for (const row of rows) jobs.push(await shown(row, { ledger, oldest, peers }));
  return jobs;
}

/** One of them. */
export async function shownJob({ ledger, peers }: PipelineContext, row: JobRow): Promise<Job> {
  return await shown(row, { ledger, oldest: ledger.jobs.oldest(), peers });
}

async function shown(row: JobRow, context: WaitContext): Promise<Job> {
  const standing = await standingOf(row, context);
  return { ...viewJob(row, context), ...standing };
}

interface ViewContext {
  readonly ledger: Ledger;
  /** The oldest job that has not ended. */
  readonly oldest: JobRow | undefined;
}

/** A job as the control API shows it, without a reason why it waits: its inputs are those of its own version of the pipeline. */
export function viewJob(job: JobRow, { ledger, oldest }: ViewContext): Job {
  const definition = ledger.pipeline.versionOf(job);
  return {
    id: job.id,
    pipeline: definition.name,
    version: job.revision,
    state: job.state,
    reason: job.reason,
    inputs: definition.inputs.map(({ name, repo, branch, source }) => ({
      name,
      repo,
      branch,
      commit: job.positions[source]?.commit ?? null,
    })),
    output: definition.output,
    outputCommit: job.outputCommit,
    ...(job.errorsCommit !== null && { errorsCommit: job.errorsCommit }),
    datums: {
      total: job.total,
      processed: job.processed,
      skipped: skippedOf(job, oldest),
      failed: job.failed,
    },
    createdAt: job.createdAt,
    startedAt: job.startedAt,
    finishedAt: job.finishedAt,
  };
}

type WaitContext = ViewContext & Pick<PipelineContext, "peers">;

/** Why a job has not ended yet, in words, and what it waits for if it waits. */
interface Standing {
  /** Null if it is simply being worked on, as fast as its specification says. */
  readonly reason: string | null;
  readonly waitsFor?: WaitsFor;
}

async function standingOf(job: JobRow, { ledger, oldest, peers }: WaitContext): Promise<Standing> {
  if (job.finishedAt !== null) return { reason: job.reason };
  if (oldest && oldest.n < job.n) return { reason: `behind job ${oldest.id}`, waitsFor: "job" };
  if (job.state === "starting") return { reason: "its datums are being worked out" };
  const isMerging = job.state === "running" && ledger.tasks.has(job.n);
  const needsRunner = job.open > 0 || isMerging || job.state === "egressing";
  const isAtWork = nextExpiry(ledger) !== undefined;
  const fault = needsRunner && !isAtWork ? await runnerFault(job, { ledger, peers }) : null;
  if (fault !== null) return fault;
  if (job.open > 0) {
    const lack = await shortageOf(job, { ledger, peers });
    const waitsFor = lack?.isStill && !isAtWork ? ({ waitsFor: "room" } as const) : {};
    return { reason: lack?.text ?? null, ...waitsFor };
  }
  if (job.state === "egressing") return { reason: egressText(job, ledger) };
  return {
    reason: isMerging
      ? "what several datums wrote to one path is being put together"
      : "its output is being committed",
  };
}

/** Why nobody works though there is something to do; null if somebody is about to. */
async function runnerFault(
  job: Pick<JobRow, "open">,
  { ledger, peers }: Pick<WaitContext, "ledger" | "peers">,
): Promise<Standing | null> {
  const lacksRunner = (reason: string): Standing => ({ reason, waitsFor: "runner" });
  const nodes = await peers.nodes();
  const takers = ableNodes(nodes);
  if (takers.length === 0) {
    return lacksRunner(
      nodes.length > 0
        ? "every node is being drained: let one take work again with `sluice node resume`"
        : "no live runner: start one with `sluice runner`",
    );
  }
  const { transform } = ledger.pipeline.definition()?.spec ?? {};
  if (ableNodes(takers, transform?.container).length === 0) {
    return lacksRunner(noContainers(takers.map(({ name }) => name)));
  }
  const now = peers.now();
  const [first, ...others] = ledger.slots.troubles(now);
  if (first) {
    const more = others.length > 0 ? ` and ${others.length} more` : "";
    return lacksRunner(
      `node ${first.node}${more} can't run it: ${first.trouble.replace(/\s+/g, " ").trim()}`,
    );
  }
  if (ledger.slots.isTaken(now)) return null;
  const lack = await shortageOf(job, { ledger, peers });
  if (lack?.isStill) return { reason: lack.text, waitsFor: "room" };
  return lacksRunner(lack?.text ?? "no live node has a worker for it yet");
}

/** What the nodes lack for what is open. */
async function shortageOf(
  { open }: Pick<JobRow, "open">,
  { ledger, peers }: Pick<WaitContext, "ledger" | "peers">,
): Promise<Shortage | null> {
  const definition = ledger.pipeline.definition();
  const room = definition && (await peers.room(definition.name));
  return room ? shortage(room, open) : null;
}

interface Shortage {
  readonly text: string;
  /** Whether nothing of the pipeline can run as long as it is so. */
  readonly isStill: boolean;
}

/**
 * What the fleet lacks for a pipeline to work as its specification says; null if nothing. `open`: the datums that have not ended, which can be
 * less than the pipeline could run at once: then it lacks nothing.
 */
function shortage({ wanted, nodes }: PipelineRoom, open: number): Shortage | null {
  const workers = sum(nodes, (node) => node.workers);
  const atOnce = sum(nodes, (node) => Math.min(node.workers, node.maxRunning ?? Number.POSITIVE_INFINITY));
  const lacks: string[] = [];
  if (workers < Math.min(wanted, open)) {
    const noun = wanted === 1 ? "worker" : "workers";
    lacks.push(`wants ${wanted} ${noun}, the fleet has room for ${workers}`);
  }
  if (atOnce < Math.min(workers, open)) lacks.push(`wants ${wanted} at once, its nodes run ${atOnce}`);
  if (lacks.length > 0) return { text: lacks.join("; "), isStill: atOnce === 0 };
  const full = nodes.every(({ running, maxRunning }) => maxRunning !== undefined && running >= maxRunning);
  if (!full || sum(nodes, ({ own }) => own) >= Math.min(workers, open)) return null;
  const running = sum(nodes, (node) => node.running);
  return {
    text: `its nodes are busy: they run ${running} commands at once, of all pipelines`,
    isStill: true,
  };
}

function sum(nodes: readonly NodeRoom[], of: (node: NodeRoom) => number): number {
  return nodes.reduce((total, node) => total + of(node), 0);
}

const MAX_NODES_NAMED = 3;

function noContainers(nodes: readonly string[]): string {
  const left = nodes.length - MAX_NODES_NAMED;
  const named = `${nodes.slice(0, MAX_NODES_NAMED).join(", ")}${left > 0 ? ` and ${left} more` : ""}`;
  return `no live node runs containers, which its specification demands ("container": "required"): ${named} ${nodes.length === 1 ? "runs" : "run"} commands as processes`;
}

function egressText({ n }: JobRow, { pipeline, tasks }: Ledger): string {
  const { egress } = pipeline.definition()?.spec ?? {};
  const fault = tasks.egressFault(n);
  const again = fault === undefined ? "" : `, tried again after: ${fault}`;
  return egress ? `its output is being pushed to ${egress.URL}${again}` : "its egress is being ended";
}

/** Datums that one call looks through: some 30 ms. Ids are hashes, so what is beyond them looks the same. */
const LOOKED_AT = 10_000;
const MAX_SLOWEST = 20;
const MAX_FAILED = 20;
const MAX_RUNNING = 20;
/** Jobs among which the last good one before it is looked for, and the first after it. */
const MAX_COMPARED = 1000;

/** What a job went through, and how its datums did, put together: of 10,000 datums nobody reads the rows. */
export function summarize(ledger: Ledger, job: JobRow): DatumSummary {
  const { spec } = ledger.pipeline.versionOf(job);
  const inputs = inputsOf(ledger, job);
  const running = ledger.attempts.running(job.n, MAX_RUNNING);
  const ran = ledger.attempts.durations(job.n, LOOKED_AT);
  const slowest = ran.slice(-MAX_SLOWEST).reverse();
  return {
    steps: stepsOf(job, {
      ...workOf(ledger, { job, ran }),
      pushes: spec.egress !== undefined,
    }),
    durations: durationsOf(ran, { more: job.processed > ran.length }),
    slowest: slowest.map(({ id, key, node, millis }) => ({ id, inputs: inputs(key), node, millis })),
    failures: job.failed > 0 ? groupFailures(ledger, job) : [],
    running: {
      count: running[0]?.count ?? 0,
      datums: running.map(({ id, key, node, lease }) => ({
        ...{ id, inputs: inputs(key), node },
        since: isValid(lease) ? decodeTime(lease) : null,
      })),
    },
    lastGood: lastGood(ledger, job),
    ...mendedBy(ledger, job),
    failed: ledger.attempts
      .failed(job.n, { after: null, limit: MAX_FAILED })
      .map(({ id, key, tries, exitCode, reason, log }) => ({
        ...{ id, inputs: inputs(key), tries, exitCode, reason },
        node: ledger.attempts.get(job.n, id)?.node ?? null,
        log: lastLines(log ?? ""),
      })),
  };
}

/** The last job before one that succeeded, to compare them; null: there is none among the last thousand. */
function lastGood(ledger: Ledger, { n }: JobRow): DatumSummary["lastGood"] {
  const row = ledger.jobs.succeededBefore(n, { from: n - MAX_COMPARED });
  if (!row) return null;
  const { id, version, finishedAt, inputs } = viewJob(row, { ledger, oldest: undefined });
  return { id, version, finishedAt, inputs };
}

/** What mended a job that failed. */
function mendedBy(ledger: Ledger, { n, state }: JobRow): Pick<DatumSummary, "mended"> {
  const good = state === "failure" && ledger.jobs.succeededAfter(n, { to: n + MAX_COMPARED });
  if (!good || good.finishedAt === null) return {};
  return { mended: { job: good.id, at: good.finishedAt } };
}

interface Work {
  readonly first: number | null;
  readonly last: number | null;
}

/** When the first datum began and the last ended: by when each ended and how long it took, or by its lease's id. */
function workOf({ attempts }: Ledger, { job, ran }: { job: JobRow; ran: readonly RanAttempt[] }): Work {
  const lease = job.open > 0 ? attempts.firstLease(job.n) : undefined;
  const began = ran.map(({ finishedAt, millis }) => finishedAt - millis);
  if (lease !== undefined && isValid(lease)) began.push(decodeTime(lease));
  const ended = ran.map(({ finishedAt }) => finishedAt);
  const lastFailure = job.failed > 0 ? attempts.lastFailure(job.n, LOOKED_AT) : null;
  if (lastFailure !== null) ended.push(lastFailure);
  return { first: extreme(began, Math.min), last: extreme(ended, Math.max) };
}

/** Of more than a call can have as arguments. */
function extreme(numbers: readonly number[], of: typeof Math.min): number | null {
  return numbers.reduce<number | null>((found, each) => (found === null ? each : of(found, each)), null);
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
    const after = Math.max(begins.at(-1) ?? createdAt, from);
    begins.push(finishedAt === null ? after : Math.min(after, finishedAt));
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
