import { availableParallelism } from "node:os";
import {
  type Assignment,
  HEARTBEAT_MS,
  NODE_TTL_MS,
  type NodeBounds,
  type NodeWork,
} from "../../protocol/runner.ts";
import type { Cache } from "../cache/cache.ts";
import type { Gateway } from "../gateway/gateway.ts";
import { about, jitteredBackoff, pause } from "../gateway/retry.ts";
import { messageOf } from "../lib/fault.ts";
import type { Log } from "../lib/log.ts";
import type { WorkerPool } from "./worker-pool.ts";

const BEAT_WITHIN_MS = 5000;
const LEAVE_WITHIN_MS = 2000;

export interface AgentDeps {
  readonly gateway: Pick<Gateway, "heartbeat" | "leave">;
  readonly pool: WorkerPool;
  /** Hears with each heartbeat what was erased. */
  readonly cache: Pick<Cache, "ask" | "hear">;
  readonly log: Log;
  readonly node: string;
  /** For the list of nodes. It changes when an engine comes that was waited for. */
  readonly executorName: () => string;
  /** What this node has room for. */
  readonly bounds: NodeBounds;
}

/**
 * Says about every HEARTBEAT_MS that this node lives and what runs on it, and keeps the workers that the gateway wants
 * here: none if the node is drained. While the gateway is away the workers stay as they are. Ends after `drain`, when
 * every worker has.
 */
export async function runAgent(
  { gateway, pool, cache, log, node, executorName, bounds }: AgentDeps,
  drain: AbortSignal,
): Promise<void> {
  const backoff = jitteredBackoff({ minMs: HEARTBEAT_MS, maxMs: NODE_TTL_MS });
  let outage: string | undefined;
  while (!drain.aborted) {
    const self = { node, executor: executorName(), capacity: availableParallelism(), bounds };
    const asked = cache.ask();
    const { erasedTo } = asked;
    const beat = await heartbeat(gateway, { self, work: pool.work(), erasedTo, drain });
    const soon = new AbortController();
    if (beat.ok) {
      // Emptying a large cache takes longer than a node may be silent: heartbeats go on meanwhile.
      void cache.hear(asked, beat.assignment.erased).then((more) => more && soon.abort());
      pool.follow(beat.assignment);
    }
    if (beat.ok) backoff.reset();
    const now = beat.ok ? undefined : beat.reason;
    if (!drain.aborted && now !== outage) logChange(log, { node, outage: now });
    outage = now;
    await pause(beat.ok ? about(HEARTBEAT_MS) : backoff.next(), AbortSignal.any([drain, soon.signal]));
  }
  // At the start of the draining, not at its end, so that the others take this node's share while it finishes its last datums.
  await leave({ gateway, log, node });
  await pool.ended();
}

type Beat =
  | { readonly ok: true; readonly assignment: Assignment }
  | { readonly ok: false; readonly reason: string };

interface BeatOptions {
  readonly self: {
    readonly node: string;
    readonly executor: string;
    readonly capacity: number;
    readonly bounds: NodeBounds;
  };
  readonly work: NodeWork[];
  /** Undefined: nothing is asked about erased contents. */
  readonly erasedTo: string | null | undefined;
  readonly drain: AbortSignal;
}

async function heartbeat(
  gateway: AgentDeps["gateway"],
  { self, work, erasedTo, drain }: BeatOptions,
): Promise<Beat> {
  const signal = AbortSignal.any([drain, AbortSignal.timeout(BEAT_WITHIN_MS)]);
  try {
    return { ok: true, assignment: await gateway.heartbeat({ ...self, work, erasedTo }, signal) };
  } catch (error) {
    return { ok: false, reason: messageOf(error) };
  }
}

/** Logs an outage when it begins, when it changes and when it ends; not with every beat. */
function logChange(log: Log, { node, outage }: { node: string; outage: string | undefined }): void {
  if (outage === undefined) log.info({ node }, "the gateway answers heartbeats again");
  else log.warn({ node, reason: outage }, "heartbeats to the gateway fail");
}

async function leave({ gateway, log, node }: Pick<AgentDeps, "gateway" | "log" | "node">): Promise<void> {
  try {
    await gateway.leave(node, AbortSignal.timeout(LEAVE_WITHIN_MS));
  } catch (error) {
    log.warn({ node, reason: messageOf(error) }, "the gateway could not be told that this node leaves");
  }
}
