/*
 * A node of the fleet. The agent beats every two seconds, and hears how many workers of which pipeline to have. A worker
 * is a slot that the pipeline's object hands out, so that "exactly n" holds whatever heartbeats say.
 *
 * A worker (worker/) prepares its sandbox, leases a few datums, lays the next one out while the present one runs, and
 * reports in batches. It fetches contents by digest into the node's cache and links them under `/pfs/<input>` read-only.
 * It runs the command in a private mount namespace or in its own container, walks `/pfs/out` without following links, and
 * sends what the output branch lacks. What the command prints is made into lines, bounded per datum and per worker, and
 * shipped about once a second, always before the outcomes of their datums. The first lines of a burst and the last ones
 * are kept; what is left out between is counted. Outcomes wait for logs at most 20 seconds.
 *
 * If a worker can't run commands through no fault of the datum (the image can't be pulled, the engine is away), that is a
 * *node condition*. The datums are given back, and the job's reason says so in the words of the registry or the engine.
 * The worker tries again with growing waits, and leases nothing meanwhile.
 *
 * The lease is the fence everywhere. If an agent was stopped, cut off or delayed for longer than its lease, it stops that
 * work when it hears so, and what it reports late changes nothing. Nothing depends on a node's clock: ages, not times, go
 * over the wire, and signatures follow the gateway's clock.
 */

import { availableParallelism } from "node:os";
import { HEARTBEAT_MS, NODE_TTL_MS, type NodeBounds } from "../../protocol/runner.ts";
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
    const asked = cache.ask();
    const self = { node, executor: executorName(), capacity: availableParallelism(), bounds };
    const signal = AbortSignal.any([drain, AbortSignal.timeout(BEAT_WITHIN_MS)]);
    const soon = new AbortController();
    const reason: string | undefined = await gateway
      .heartbeat({ ...self, work: pool.work(), erasedTo: asked.erasedTo }, signal)
      .then((assignment) => {
        // Emptying a large cache takes longer than a node may be silent: heartbeats go on meanwhile.
        void cache.hear(asked, assignment.erased).then((more) => more && soon.abort());
        pool.follow(assignment);
        backoff.reset();
        return undefined;
      }, messageOf);
    // An outage is logged when it begins, when it changes and when it ends; not with every beat.
    if (!drain.aborted && reason !== outage) {
      if (reason === undefined) log.info({ node }, "the gateway answers heartbeats again");
      else log.warn({ node, reason }, "heartbeats to the gateway fail");
    }
    outage = reason;
    const waitMs = reason === undefined ? about(HEARTBEAT_MS) : backoff.next();
    await pause(waitMs, AbortSignal.any([drain, soon.signal]));
  }
  // At the start of the draining, not at its end, so that the others take this node's share while it finishes its last datums.
  await gateway
    .leave(node, AbortSignal.timeout(LEAVE_WITHIN_MS))
    .catch((error: unknown) =>
      log.warn({ node, reason: messageOf(error) }, "the gateway could not be told that this node leaves"),
    );
  await pool.ended();
}
