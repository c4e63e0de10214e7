/*
 * A node of the fleet. The agent beats every two seconds, and hears how many workers of which pipeline to have. A quiet node,
 * which runs nothing and has a socket by which it is woken, beats every 40 seconds and when it is woken. A worker is
 * a slot that the pipeline's object hands out, so that "exactly n" holds whatever heartbeats say.
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
import {
  HEARTBEAT_MS,
  NODE_TTL_MS,
  type NodeAbout,
  type NodeBounds,
  type NodeWork,
  QUIET_HEARTBEAT_MS,
} from "../../protocol/runner.ts";
import type { Cache } from "../cache/cache.ts";
import type { Gateway } from "../gateway/gateway.ts";
import { about, jitteredBackoff, pause } from "../gateway/retry.ts";
import { messageOf } from "../lib/fault.ts";
import type { Log } from "../lib/log.ts";
import type { IdlePipelines } from "../worker/idle-pipelines.ts";
import { WakeUpListener } from "./wake-up-listener.ts";
import type { WorkerPool } from "./worker-pool.ts";

const BEAT_WITHIN_MS = 5000;
const LEAVE_WITHIN_MS = 2000;
/** However often a node is woken, heartbeats that come of it are so far apart at least. */
const WOKEN_APART_MS = 1000;

export interface AgentDeps {
  readonly gateway: Pick<Gateway, "heartbeat" | "leave" | "socket">;
  readonly pool: WorkerPool;
  /** Learns which pipelines have nothing to do. */
  readonly idle: IdlePipelines;
  /** Hears with each heartbeat what was erased. */
  readonly cache: Pick<Cache, "ask" | "hear">;
  readonly log: Log;
  readonly node: string;
  /** For the list of nodes. It changes when an engine comes that was waited for. */
  readonly executorName: () => string;
  /** What this node has room for. */
  readonly bounds: NodeBounds;
  /** What people are told of it. Never fails. */
  readonly describe: () => Promise<NodeAbout>;
}

/**
 * Says about every HEARTBEAT_MS, while the node is quiet about every QUIET_HEARTBEAT_MS, that it lives and what runs on it, and
 * keeps the workers that the gateway wants here: none if the node is drained. While the gateway is away the workers stay as they
 * are. Ends after `drain`, when every worker has.
 */
export async function runAgent(
  { gateway, pool, idle, cache, log, node, executorName, bounds, describe }: AgentDeps,
  drain: AbortSignal,
): Promise<void> {
  const backoff = jitteredBackoff({ minMs: HEARTBEAT_MS, maxMs: NODE_TTL_MS });
  let outage: string | undefined;
  let told: NodeAbout | undefined;
  let isDescribing = false;
  let soon = new AbortController();
  let beganAt = 0;
  let woken: AbortController | undefined;
  const beatWithin = async (withinMs: number): Promise<void> => {
    if (woken) return;
    const beaten = new AbortController();
    woken = beaten;
    const apart = beganAt + WOKEN_APART_MS - performance.now();
    await pause(Math.max(Math.random() * withinMs, apart), AbortSignal.any([drain, beaten.signal]));
    if (!beaten.signal.aborted) soon.abort();
  };
  const listener = new WakeUpListener({
    open: () => gateway.socket(node),
    beat: (withinMs) => void beatWithin(withinMs),
    work: (pipelines) => idle.wake(pipelines),
    log,
  });
  const listening = listener.run(drain);
  while (!drain.aborted) {
    // A disk that does not answer keeps no heartbeat back: a later one tells what this one asks. Nor is it asked again meanwhile,
    // since each question holds a thread.
    if (!isDescribing) {
      isDescribing = true;
      void describe().then((now) => {
        [told, isDescribing] = [now, false];
      });
    }
    const asked = cache.ask();
    const { wakeUps } = idle;
    idle.isHeard = listener.isHeard;
    const self = {
      node,
      executor: executorName(),
      capacity: availableParallelism(),
      bounds,
      work: pool.work(),
    };
    const signal = AbortSignal.any([drain, AbortSignal.timeout(BEAT_WITHIN_MS)]);
    soon = new AbortController();
    // This is the heartbeat that a wake-up before asks for, whatever brings it.
    woken?.abort();
    woken = undefined;
    beganAt = performance.now();
    const isQuiet = listener.isHeard && isIdle(self.work);
    const quiet = isQuiet && { quiet: true as const };
    const reason: string | undefined = await gateway
      .heartbeat({ ...self, about: told, erasedTo: asked.erasedTo, ...quiet }, signal)
      .then((assignment) => {
        // Emptying a large cache takes longer than a node may be silent: heartbeats go on meanwhile.
        const heard = soon;
        void cache.hear(asked, assignment.erased).then((more) => more && heard.abort());
        listener.offer(assignment.sockets === true);
        idle.hear(assignment, wakeUps);
        pool.follow(assignment);
        backoff.reset();
        return undefined;
      })
      .catch((error: unknown) => {
        idle.forget();
        return messageOf(error);
      });
    // An outage is logged when it begins, when it changes and when it ends; not with every beat.
    if (!drain.aborted && reason !== outage) {
      if (reason === undefined) log.info({ node }, "the gateway answers heartbeats again");
      else log.warn({ node, reason }, "heartbeats to the gateway fail");
    }
    outage = reason;
    const waitMs = reason === undefined ? about(HEARTBEAT_MS) : backoff.next();
    const wake = AbortSignal.any([drain, soon.signal]);
    const isNews = () =>
      !listener.isHeard ||
      executorName() !== self.executor ||
      JSON.stringify(pool.work()) !== JSON.stringify(self.work);
    await pause(waitMs, wake);
    if (isQuiet && reason === undefined) await quietly(isNews, wake);
  }
  // At the start of the draining, not at its end, so that the others take this node's share while it finishes its last datums.
  await gateway
    .leave(node, AbortSignal.timeout(LEAVE_WITHIN_MS))
    .catch((error: unknown) =>
      log.warn({ node, reason: messageOf(error) }, "the gateway could not be told that this node leaves"),
    );
  await listening;
  await pool.ended();
}

/** Workers that can't run commands say so as long as it lasts. */
function isIdle(work: readonly NodeWork[]): boolean {
  return work.every(({ running, trouble }) => running === 0 && trouble === undefined);
}

/** Waits until a quiet node is to beat again, or has something to tell. */
async function quietly(isNews: () => boolean, wake: AbortSignal): Promise<void> {
  const until = performance.now() + about(QUIET_HEARTBEAT_MS);
  while (!wake.aborted && !isNews() && performance.now() < until) await pause(HEARTBEAT_MS, wake);
}
