import { z } from "zod";
import { type BranchAddress, bucketName, Name } from "../../../protocol/names.ts";
import {
  type Assignment,
  type Finished,
  FinishRequest,
  Heartbeat,
  LEASE_MS,
  LEASE_WAIT_MS,
  type Lease,
  LeaseRequest,
  LogsRequest,
  type LogsTaken,
  NODE_TTL_MS,
  type Renewed,
  RenewRequest,
} from "../../../protocol/runner.ts";
import { assignWorkers } from "../../core/parallelism.ts";
import type { InputCommit, Leased } from "../../pipeline/contract.ts";
import { apiError } from "../answer/errors.ts";
import { slowJson } from "../answer/slow.ts";
import { type ApiRequest, readQuery, waitMsFor } from "../request/api-request.ts";
import { readJson } from "../request/read-json.ts";
import { giveUpUnused, keepContents, readOutcomes } from "./outcomes.ts";

/**
 * `POST /runner/heartbeat`: the node lives. The answer is the workers that it should have, none while it is being drained, and
 * what was erased since the place that it names.
 */
export async function heartbeat(asked: ApiRequest): Promise<Response> {
  const node = await readJson(asked, Heartbeat);
  const { nodes, pipelines, erasedContents } = asked.context.catalogue;
  const now = Date.now();
  const { executor, capacity, work = [], bounds, erasedTo } = node;
  await nodes.record({ name: node.node, executor, capacity, seenAt: now, work, bounds });
  const [live, all, erased] = await Promise.all([
    nodes.seenSince(now - NODE_TTL_MS),
    pipelines.list(),
    erasedTo === undefined ? undefined : erasedContents.since(erasedTo),
  ]);
  const workers = assignWorkers({ pipelines: all, nodes: live }).get(node.node) ?? [];
  return Response.json({ workers, ...(erased && { erased }) } satisfies Assignment);
}

const LeaveQuery = z.strictObject({ node: Name });

/**
 * `DELETE /runner/heartbeat?node=`: the node leaves in good order, and its share goes to the others at once. A drained node
 * stays drained.
 */
export async function leave(asked: ApiRequest): Promise<Response> {
  const { node } = readQuery(asked, LeaveQuery);
  await asked.context.catalogue.nodes.leave(node, { now: Date.now(), ttlMs: NODE_TTL_MS });
  return new Response(null, { status: 204 });
}

/**
 * `POST /runner/lease`: answers at once if a datum or task is queued, or if there is no slot. Otherwise it waits for one,
 * unless it is not to, and is empty in the end. A look waits in the same way and leases nothing.
 */
export async function lease(asked: ApiRequest): Promise<Response> {
  const { pipeline: name, node, worker, max, wait } = await readJson(asked, LeaseRequest);
  const pipeline = asked.context.pipeline(name);
  const visit = crypto.randomUUID();
  const call = { node, worker, max, visit, ...(wait === "look" && { peek: true as const }) };
  const first = await pipeline.leases.take({ ...call, waitMs: 0 });
  if (!first.ok) throw apiError.NoSuchPipeline(`There is no pipeline '${name}'.`);
  const answerOf = ({ ok: _, ...leased }: Leased): Lease => ({
    ...leased,
    ...grantsOfLeased(asked, name, leased),
  });
  const found = first.queued || first.datums.length + first.tasks.length > 0;
  if (!first.slot || found || wait === "none") return Response.json(answerOf(first));
  let here = true;
  // The pipeline calls this before it leases anything after a wait: a runner that has gone must get nothing.
  const present = async (): Promise<void> => {
    if (!here) throw new Error("the caller has gone");
  };
  const later = pipeline.leases.take({ ...call, waitMs: waitMsFor(asked, LEASE_WAIT_MS), present });
  // If the pipeline is deleted meanwhile, the next call says so: this answer has begun.
  const answer = later.then((leased) => answerOf(leased.ok ? leased : { ...first, slot: false }));
  return slowJson(answer, async () => {
    here = false;
    // Another worker gets the slot at once, and not only when its time is over.
    await pipeline.leases.vacate({ worker, visit });
  });
}

/** All datums of a job read the same commits. Its tasks read and write its output. */
function grantsOfLeased(
  asked: ApiRequest,
  pipeline: string,
  { datums, tasks, output }: Lease,
): Pick<Lease, "grants"> {
  const jobs = new Map<string, readonly InputCommit[]>(tasks.map(({ job }) => [job, []]));
  for (const { job, inputs } of datums) if (!jobs.has(job)) jobs.set(job, inputs);
  const read = [...jobs].map(([job, inputs]) => ({ job, inputs }));
  return grants(asked, { pipeline, output, jobs: read });
}

interface Granted {
  readonly pipeline: string;
  readonly output: BranchAddress;
  readonly jobs: readonly { readonly job: string; readonly inputs: readonly InputCommit[] }[];
}

/** A grant for each job, for as long as its lease. Other keys need none: only the root key does the same, and that may read all. */
function grants(asked: ApiRequest, { pipeline, output, jobs }: Granted): Pick<Lease, "grants"> {
  const { caller, context } = asked;
  if (caller.scope.level !== "runner" || jobs.length === 0) return {};
  const terms = { keyId: caller.keyId, until: Date.now() + LEASE_MS };
  const signed = jobs.map(({ job, inputs }) => [
    job,
    context.grants.sign({ pipeline, output, inputs: distinct(inputs) }, terms),
  ]);
  return { grants: Object.fromEntries(signed) };
}

/** Several inputs may be of one commit, with another glob each. */
function distinct(inputs: readonly InputCommit[]): InputCommit[] {
  return [
    ...new Map(inputs.map((input) => [`${bucketName(input)} ${input.commit} ${input.from}`, input])).values(),
  ];
}

/** `POST /runner/renew` */
export async function renew(asked: ApiRequest): Promise<Response> {
  const { pipeline, worker, leases, leaving, trouble } = await readJson(asked, RenewRequest);
  const more = { ...(leaving && { leaving }), ...(trouble !== undefined && { trouble }) };
  const { lost, kept } = await asked.context.pipeline(pipeline).leases.renew({ worker, leases, ...more });
  const granted = kept ? grants(asked, { pipeline, ...kept }) : {};
  return Response.json({ lost, ...granted } satisfies z.infer<typeof Renewed>);
}

/** `POST /runner/logs` */
export async function addLogs(asked: ApiRequest): Promise<Response> {
  const { pipeline, worker, entries } = await readJson(asked, LogsRequest);
  const { lost } = await asked.context.pipeline(pipeline).logs.add({ worker, entries });
  return Response.json({ lost } satisfies z.infer<typeof LogsTaken>);
}

/**
 * `POST /runner/finish`: contents first, results second. A crash in between leaves contents that an upload keeps and no
 * result names, and never a result without its contents. If no result came of them, they go again.
 */
export async function finish(asked: ApiRequest): Promise<Response> {
  const { pipeline: name, worker, outcomes } = await readJson(asked, FinishRequest);
  const pipeline = asked.context.pipeline(name);
  const output = await pipeline.leases.output();
  if (!output) throw apiError.NoSuchPipeline(`There is no pipeline '${name}'.`);
  const branch = asked.context.branch(output);
  const kept = await keepContents(branch, readOutcomes(outcomes, output));
  const { lost } = await pipeline.leases.finish({ worker, outcomes: kept.outcomes });
  await giveUpUnused(branch, { kept, lost });
  return Response.json({ lost } satisfies z.infer<typeof Finished>);
}
