import { z } from "zod";
import { type ContentId, INLINE_LIMIT_BYTES } from "../../protocol/content.ts";
import { OpenUpload } from "../../protocol/files.ts";
import { type BranchAddress, bucketName, Name, parseUploadId } from "../../protocol/names.ts";
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
  type Outcome,
  QUIET_TTL_MS,
  type Renewed,
  RenewRequest,
} from "../../protocol/runner.ts";
import type { Content } from "../blobs/content.ts";
import type { BranchApi } from "../branch/contract/api.ts";
import type { Grant } from "../keys/grants.ts";
import type { InputCommit, Leased } from "../pipeline/contract.ts";
import { apiError } from "./answer/errors.ts";
import { accepted } from "./answer/failures.ts";
import { slowJson } from "./answer/slow.ts";
import { type ApiRequest, readJson, readQuery, waitMsFor } from "./request/api-request.ts";
import { invalidField } from "./request/issues.ts";
import { inlineContent, uploadAddress } from "./uploads.ts";

/**
 * `POST /runner/heartbeat`: the node lives. The answer is the workers that it should have, none while it is being drained, and
 * what was erased since the place that it names.
 */
export async function heartbeat(asked: ApiRequest): Promise<Response> {
  const node = await readJson(asked, Heartbeat);
  const { catalogue, config, fleet } = asked.context;
  const { nodes, erasedContents } = catalogue;
  const now = Date.now();
  const { executor, capacity, work = [], bounds, about, erasedTo } = node;
  const quiet = node.quiet && { quietUntil: now + QUIET_TTL_MS };
  const newest = await nodes.record({
    name: node.node,
    executor,
    capacity,
    seenAt: now,
    work,
    bounds,
    about,
    ...quiet,
  });
  const erasedSince = (place: string | null) =>
    place !== null && place === newest ? { upTo: place, contents: [] } : erasedContents.since(place);
  const [workers, erased] = await Promise.all([
    fleet.assigned(node.node, { isWoken: config.takesSockets, isQuiet: node.quiet === true }),
    erasedTo === undefined ? undefined : erasedSince(erasedTo),
  ]);
  const sockets = config.takesSockets && { sockets: true as const };
  return Response.json({ workers, ...(erased && { erased }), ...sockets } satisfies Assignment);
}

const NodeQuery = z.strictObject({ node: Name });

/** `GET /runner/socket?node=`: a socket over which the node is woken (fleet/fleet.ts). */
export async function openSocket(asked: ApiRequest): Promise<Response> {
  const { node } = readQuery(asked, NodeQuery);
  const { config, fleet } = asked.context;
  const { keyId } = asked.caller;
  const isGiven = [...config.rootKeys, config.runnerKey].some((given) => given?.id === keyId);
  if (!config.takesSockets) throw apiError.NotFound("This gateway takes no sockets of nodes.");
  if (asked.request.headers.get("upgrade")?.toLowerCase() !== "websocket")
    throw apiError.InvalidRequest("Here a WebSocket is opened: send an Upgrade.");
  const { status, webSocket } = await fleet.open(node, isGiven ? undefined : keyId);
  return new Response(null, { status, webSocket });
}

/** `DELETE /runner/heartbeat?node=`: the node leaves, and others get its share at once. A drained node stays drained. */
export async function leave(asked: ApiRequest): Promise<Response> {
  const { node } = readQuery(asked, NodeQuery);
  const { catalogue, fleet } = asked.context;
  await catalogue.nodes.leave(node, Date.now());
  await fleet.leave(node);
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
 * result names, and never a result without its contents. If no result came of them, they go again: at once, or if the gateway
 * died in between, when the branch has asked for them (worker/branch/work/shared-uploads.ts).
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

/** The outcome of a datum or task, and the small contents that came with the message, verified. */
interface ReadOutcome {
  readonly outcome: Outcome;
  readonly contents: readonly Content[];
}

/** Takes the contents out of the outcomes. `output`: the output branch of the pipeline. */
function readOutcomes(outcomes: readonly Outcome[], output: BranchAddress): ReadOutcome[] {
  return outcomes.map((outcome, index) => {
    if (outcome.state !== "success" && outcome.state !== "merged") return { outcome, contents: [] };
    const path = `outcomes[${index}]`;
    if (outcome.upload !== undefined) checkUpload(outcome.upload, { path: `${path}.upload`, output });
    if (outcome.state === "merged") {
      const { bytes, ...merged } = outcome;
      return { outcome: merged, contents: contentOf({ ...outcome.content, bytes }, path) };
    }
    return {
      outcome: { ...outcome, outputs: outcome.outputs.map(({ bytes: _, ...named }) => named) },
      // An empty directory has no content.
      contents: outcome.outputs.flatMap((each, at) =>
        each.path.endsWith("/") ? [] : contentOf(each, `${path}.outputs[${at}]`),
      ),
    };
  });
}

/** Outcomes whose contents are kept. */
interface Kept {
  /** Each with the upload that keeps its contents. */
  readonly outcomes: readonly Outcome[];
  /** Uploads that were opened for these outcomes, and that nothing else can name. */
  readonly shared: readonly string[];
}

/**
 * Adds the contents to the output branch, one call an upload. An outcome may name its upload. Those without one share
 * an upload. Merged contents share one of their own, because it is given up with them, earlier than that of the outputs.
 * If an upload is closed, its lease is lost: the outcome must not take along those that came with it, so it is passed on
 * as a failure, which a lost lease does not record.
 */
async function keepContents(branch: BranchApi, read: readonly ReadOutcome[]): Promise<Kept> {
  const shared = {
    success: await sharedUpload(branch, { read, state: "success" }),
    merged: await sharedUpload(branch, { read, state: "merged" }),
  };
  const byUpload = new Map<string, Content[]>();
  const outcomes = read.map(({ outcome, contents }) => {
    if ((outcome.state !== "success" && outcome.state !== "merged") || contents.length === 0) return outcome;
    const upload = outcome.upload ?? shared[outcome.state];
    if (upload === undefined) return outcome;
    const together = byUpload.get(upload) ?? [];
    byUpload.set(upload, together);
    together.push(...contents);
    return { ...outcome, upload };
  });
  const closed = new Set<string>();
  for (const [upload, contents] of byUpload) {
    const added = await branch.uploads.add({ upload, contents });
    if (!added.ok) closed.add(upload);
  }
  return {
    outcomes: outcomes.map((outcome) => (closed.has(uploadOf(outcome) ?? "") ? unkept(outcome) : outcome)),
    shared: [shared.success, shared.merged].filter((upload) => upload !== undefined),
  };
}

/** Gives up the shared uploads of which no outcome was recorded. `lost`: the leases whose outcomes were not. */
async function giveUpUnused(
  branch: BranchApi,
  { kept: { outcomes, shared }, lost }: { kept: Kept; lost: readonly string[] },
): Promise<void> {
  if (shared.length === 0 || lost.length === 0) return;
  const isLost = new Set(lost);
  const used = new Set(outcomes.filter(({ lease }) => !isLost.has(lease)).map(uploadOf));
  for (const upload of shared) if (!used.has(upload)) await branch.uploads.abort({ upload });
}

function uploadOf(outcome: Outcome): string | undefined {
  return outcome.state === "success" || outcome.state === "merged" ? outcome.upload : undefined;
}

function unkept({ lease }: Outcome): Outcome {
  const reason = "its outputs could not be stored: the upload that it names is closed";
  return { lease, state: "failed", blame: "node", exitCode: null, reason, log: "", millis: 0 };
}

/** For the outcomes that bring contents and name no upload to keep them; undefined if there is none. */
async function sharedUpload(
  branch: BranchApi,
  { read, state }: { read: readonly ReadOutcome[]; state: "success" | "merged" },
): Promise<string | undefined> {
  const first = read.find(
    ({ outcome, contents }) => outcome.state === state && outcome.upload === undefined && contents.length > 0,
  );
  if (first === undefined) return undefined;
  // Not the lease's own: if that is lost, what others have in here must stay. And of this call alone: a runner that got
  // no answer sends the same outcomes again, and what one call finds lost the other may have recorded.
  const lease = `shared.${first.outcome.lease}.${crypto.randomUUID()}`;
  return accepted(await branch.uploads.open({ lease })).upload;
}

function checkUpload(upload: string, { path, output }: { path: string; output: BranchAddress }): void {
  const address = parseUploadId(upload);
  if (address && bucketName(address) === bucketName(output)) return;
  throw invalidField(path, `must be an upload to the pipeline's output, the branch '${bucketName(output)}'`);
}

function contentOf(
  { digest, size, bytes }: ContentId & { readonly bytes?: string | undefined },
  at: string,
): Content[] {
  if (bytes === undefined) return [];
  if (size <= INLINE_LIMIT_BYTES) return [inlineContent({ digest, size, bytes }, at)];
  throw invalidField(
    `${at}.bytes`,
    `at most ${INLINE_LIMIT_BYTES} bytes travel here: upload larger contents`,
  );
}

/**
 * What the grant of a lease lets a runner's key do: list its input commits, read contents of the branches that it names,
 * and upload to its output branch. A content is known by its digest alone, so that a branch is granted for it as a whole.
 */

/** The files of a commit: of an input as the lease has it, with the commit after which it counts if there is one. */
export function grantsFiles({ inputs }: Grant, asked: ApiRequest): boolean {
  const bucket = bucketInPath(asked);
  const { commit } = asked.params;
  const since = asked.query.get("since");
  return inputs.some(
    (input) => bucketName(input) === bucket && input.commit === commit && input.from === since,
  );
}

/** Contents of an input branch, and of the output branch: merges and egress read those. */
export function grantsContents({ inputs, output }: Grant, asked: ApiRequest): boolean {
  const bucket = bucketInPath(asked);
  return [output, ...inputs].some((branch) => bucketName(branch) === bucket);
}

/** An upload to the output branch that belongs to a lease. */
export async function grantsNewUpload({ output }: Grant, asked: ApiRequest): Promise<boolean> {
  const { lease, ...branch } = await readJson(asked, OpenUpload);
  return lease !== undefined && bucketName(branch) === bucketName(output);
}

/** What is added to an upload to the output branch. */
export function grantsUpload({ output }: Grant, asked: ApiRequest): boolean {
  return bucketName(uploadAddress(asked)) === bucketName(output);
}

function bucketInPath({ params }: ApiRequest): string {
  const { repo = "", branch = "" } = params;
  return bucketName({ repo, branch } satisfies BranchAddress);
}
