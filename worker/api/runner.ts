import { z } from "zod";
import { INLINE_LIMIT_BYTES } from "../../protocol/content.ts";
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
  type Outcome,
  type Renewed,
  RenewRequest,
} from "../../protocol/runner.ts";
import type { Content } from "../blobs/content.ts";
import { assignWorkers } from "../core/parallelism.ts";
import { type ApiRequest, noQuery, readQuery } from "./api-request.ts";
import { ApiError } from "./errors.ts";
import { branchFailure } from "./failures.ts";
import { readJson } from "./read-json.ts";
import { inlineContent } from "./uploads.ts";

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
  const { pipeline, worker, leases } = await readJson(asked, RenewRequest);
  const { lost } = await asked.context.pipeline(pipeline).renew({ worker, leases });
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
  await keepContents(asked, { output, outcomes });
  const { lost } = await pipeline.finish({ worker, outcomes: outcomes.map(withoutBytes) });
  return Response.json({ lost } satisfies z.infer<typeof Finished>);
}

/** Adds what came inside the message to the output branch: one upload for the call, named by its first such lease. */
async function keepContents(
  { context }: ApiRequest,
  { output, outcomes }: { output: { repo: string; branch: string }; outcomes: readonly Outcome[] },
): Promise<void> {
  const contents = outcomes.flatMap(inlineContents);
  const first = outcomes.find((outcome) => inlineContents(outcome).length > 0);
  if (!first) return;
  const branch = context.branch(output);
  const opened = await branch.openUpload({ lease: first.lease });
  if (!opened.ok) throw branchFailure(opened);
  const added = await branch.addContents({ upload: opened.upload, contents });
  if (!added.ok) throw branchFailure(added);
}

function inlineContents(outcome: Outcome, index = 0): Content[] {
  if (outcome.state !== "success") return [];
  return outcome.outputs.flatMap(({ path, digest, size, bytes }, at) => {
    if (bytes === undefined || path.endsWith("/")) return [];
    const where = `outcomes[${index}].outputs[${at}]`;
    if (size <= INLINE_LIMIT_BYTES) return [inlineContent({ digest, size, bytes }, where)];
    const message = `${where}.bytes: at most ${INLINE_LIMIT_BYTES} bytes travel here: upload larger contents`;
    throw new ApiError("InvalidRequest", message, { issues: [{ path: `${where}.bytes`, message }] });
  });
}

function withoutBytes(outcome: Outcome): Outcome {
  if (outcome.state !== "success") return outcome;
  return { ...outcome, outputs: outcome.outputs.map(({ bytes: _, ...named }) => named) };
}
