import { z } from "zod";
import { Name } from "../../protocol/names.ts";
import {
  type Assignment,
  type Finished,
  FinishRequest,
  Heartbeat,
  LEASE_WAIT_MS,
  type Lease,
  LeaseRequest,
  NODE_TTL_MS,
  type Renewed,
  RenewRequest,
} from "../../protocol/runner.ts";
import { assignWorkers } from "../core/parallelism.ts";
import { type ApiRequest, noQuery, readQuery } from "./api-request.ts";
import { ApiError } from "./errors.ts";
import { keepContents, readOutcomes } from "./outcomes.ts";
import { readJson } from "./read-json.ts";

/** `POST /runner/heartbeat`: the node lives; answers the workers it should have. */
export async function heartbeat(asked: ApiRequest): Promise<Response> {
  noQuery(asked);
  const node = await readJson(asked, Heartbeat);
  const { nodes, pipelines } = asked.context.catalogue;
  const now = Date.now();
  await nodes.record({ name: node.node, executor: node.executor, capacity: node.capacity, seenAt: now });
  const [live, all] = await Promise.all([nodes.seenSince(now - NODE_TTL_MS), pipelines.list()]);
  const spread = assignWorkers({
    pipelines: all.filter(({ state }) => state === "active"),
    nodes: live.map(({ name }) => name),
  });
  return Response.json({ workers: spread.get(node.node) ?? [] } satisfies Assignment);
}

const LeaveQuery = z.strictObject({ node: Name });

/** `DELETE /runner/heartbeat?node=`: the node leaves in good order, its share goes to the others at once. */
export async function leave(asked: ApiRequest): Promise<Response> {
  const { node } = readQuery(asked, LeaveQuery);
  await asked.context.catalogue.nodes.remove(node);
  return new Response(null, { status: 204 });
}

/** `POST /runner/lease` */
export async function lease(asked: ApiRequest): Promise<Response> {
  noQuery(asked);
  const { pipeline, node, worker, max } = await readJson(asked, LeaseRequest);
  const leased = await asked.context.pipeline(pipeline).lease({ node, worker, max, waitMs: LEASE_WAIT_MS });
  if (!leased.ok) throw new ApiError("NoSuchPipeline", `There is no pipeline '${pipeline}'.`);
  const { slot, transform, output, datums } = leased;
  return Response.json({ slot, transform, output, datums: [...datums] } satisfies Lease);
}

/** `POST /runner/renew` */
export async function renew(asked: ApiRequest): Promise<Response> {
  noQuery(asked);
  const { pipeline, worker, leases, leaving } = await readJson(asked, RenewRequest);
  const { lost } = await asked.context
    .pipeline(pipeline)
    .renew({ worker, leases, ...(leaving && { leaving }) });
  return Response.json({ lost } satisfies z.infer<typeof Renewed>);
}

/**
 * `POST /runner/finish`: contents first, results second: a crash in between leaves contents that an upload keeps
 * and no result names, and never a result without its contents.
 */
export async function finish(asked: ApiRequest): Promise<Response> {
  noQuery(asked);
  const { pipeline: name, worker, outcomes } = await readJson(asked, FinishRequest);
  const pipeline = asked.context.pipeline(name);
  const output = await pipeline.output();
  if (!output) throw new ApiError("NoSuchPipeline", `There is no pipeline '${name}'.`);
  const kept = await keepContents(asked.context.branch(output), readOutcomes(outcomes, output));
  const { lost } = await pipeline.finish({ worker, outcomes: kept });
  return Response.json({ lost } satisfies z.infer<typeof Finished>);
}
