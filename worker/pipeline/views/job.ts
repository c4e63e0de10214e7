import type { Job, WaitsFor } from "../../../protocol/pipelines.ts";
import { ableNodes } from "../../core/parallelism.ts";
import { nextExpiry } from "../attempts/task-store.ts";
import type { NodeRoom, PipelineContext, PipelineRoom } from "../context.ts";
import { type JobRow, skippedOf } from "../jobs/job-store.ts";
import type { Ledger } from "../ledger/ledger.ts";

/** Jobs for people, each with why it has not ended yet, and with what it waits for if nobody works on it. */
export async function shownJobs({ ledger, peers }: PipelineContext, rows: readonly JobRow[]): Promise<Job[]> {
  const oldest = ledger.jobs.oldest();
  const jobs: Job[] = [];
  for (const row of rows) {
    const standing = await standingOf(row, { ledger, oldest, peers });
    jobs.push({ ...viewJob(row, { ledger, oldest }), ...standing });
  }
  return jobs;
}

interface ViewContext {
  readonly ledger: Ledger;
  /** The oldest job that has not ended. */
  readonly oldest: JobRow | undefined;
}

/** A job as the control API shows it, without a reason why it waits: its inputs are those of its own version of the pipeline. */
export function viewJob(job: JobRow, { ledger, oldest }: ViewContext): Job {
  const definition = ledger.pipeline.definitionAt(job.revision);
  if (!definition) throw new Error(`job ${job.id} is of version ${job.revision}, which is not there`);
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

interface WaitContext extends Pick<PipelineContext, "ledger" | "peers"> {
  /** The oldest job that has not ended. */
  readonly oldest: JobRow | undefined;
}

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
    return lacksRunner(`node ${first.node}${more} can't run it: ${oneLine(first.trouble)}`);
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
  return room ? shortage({ ...room, open }) : null;
}

interface Shortage {
  /** In words. */
  readonly text: string;
  /** Whether nothing of the pipeline can run as long as it is so. */
  readonly isStill: boolean;
}

/**
 * What the fleet lacks for a pipeline to work as its specification says; null if nothing. What is open can be
 * less than the pipeline could run at once: then it lacks nothing.
 */
function shortage({
  wanted,
  open,
  nodes,
}: PipelineRoom & {
  /** Datums that have not ended. */
  readonly open: number;
}): Shortage | null {
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

function oneLine(text: string): string {
  return text.replace(/\s+/g, " ").trim();
}

function egressText({ n }: JobRow, { pipeline, tasks }: Ledger): string {
  const { egress } = pipeline.definition()?.spec ?? {};
  const fault = tasks.egressFault(n);
  const again = fault === undefined ? "" : `, tried again after: ${fault}`;
  return egress ? `its output is being pushed to ${egress.URL}${again}` : "its egress is being ended";
}
