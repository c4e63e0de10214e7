import { randomBytes } from "node:crypto";
import { join } from "node:path";
import {
  type Assignment,
  fairShares,
  MAX_NODE_TROUBLE_CHARACTERS,
  MAX_NODE_TROUBLES,
  MAX_NODE_WORK,
  type NodeWork,
} from "../../protocol/runner.ts";
import { messageOf } from "../lib/fault.ts";
import type { Log } from "../lib/log.ts";
import type { Activity } from "../worker/sandboxes.ts";
import type { WorkerOptions } from "../worker/worker.ts";

export interface WorkerPoolDeps {
  /** Runs one worker to its end. */
  readonly run: (worker: WorkerOptions) => Promise<void>;
  readonly log: Log;
  readonly node: string;
  /** The agent's folder; each worker gets one in it. */
  readonly dir: string;
  /** How many workers there may be, whatever the gateway wants. */
  readonly maxWorkers: number;
  readonly drain: AbortSignal;
  readonly kill: AbortSignal;
}

interface Member {
  readonly slot: number;
  /** Makes it take nothing new. */
  readonly drain: AbortController;
}

/** A worker that has not ended, whether it is still wanted or not. */
interface Running {
  readonly pipeline: string;
  readonly activity: Activity;
  readonly ended: Promise<void>;
}

/** The workers of one node: as many of each pipeline as the gateway assigned to it, if it has room for all of them. */
export class WorkerPool {
  readonly #deps: WorkerPoolDeps;
  readonly #members = new Map<string, Member[]>();
  readonly #running = new Set<Running>();
  #started = 0;

  constructor(deps: WorkerPoolDeps) {
    this.#deps = deps;
  }

  /** Starts the workers that are missing, drains those that are too many. */
  follow({ workers }: Assignment): void {
    const counts = workers.map(({ count }) => count);
    const shares = fairShares(counts, this.#deps.maxWorkers);
    const wanted = new Map(workers.map(({ pipeline }, index) => [pipeline, shares[index] ?? 0]));
    for (const pipeline of this.#members.keys()) if (!wanted.has(pipeline)) this.#resize(pipeline, 0);
    for (const [pipeline, count] of wanted) this.#resize(pipeline, count);
  }

  /** What runs here now, including those that only finish their last datum. */
  work(): NodeWork[] {
    const byPipeline = new Map<string, NodeWork>();
    for (const { pipeline, activity } of this.#running) {
      const before = byPipeline.get(pipeline) ?? { pipeline, workers: 0, running: 0 };
      const trouble = before.trouble ?? activity.condition?.slice(0, MAX_NODE_TROUBLE_CHARACTERS);
      const { workers, running } = before;
      byPipeline.set(pipeline, {
        ...{ pipeline, workers: workers + 1, running: running + activity.running },
        ...(trouble !== undefined && { trouble }),
      });
    }
    return boundedTroubles([...byPipeline.values()].slice(0, MAX_NODE_WORK));
  }

  /** Resolves when no worker is left. */
  async ended(): Promise<void> {
    while (this.#running.size > 0) await Promise.all([...this.#running].map(({ ended }) => ended));
  }

  #resize(pipeline: string, count: number): void {
    const members = this.#members.get(pipeline) ?? [];
    while (members.length > count) members.pop()?.drain.abort();
    while (members.length < count) members.push(this.#start(pipeline, freeSlot(members)));
    if (members.length > 0) this.#members.set(pipeline, members);
    else this.#members.delete(pipeline);
  }

  #start(pipeline: string, slot: number): Member {
    const { run, log, node, dir, drain, kill } = this.#deps;
    const member = { slot, drain: new AbortController() };
    const worker = `${node}/${pipeline}/${slot}/${randomBytes(6).toString("hex")}`;
    this.#started += 1;
    const activity: Activity = { running: 0 };
    log.info({ pipeline, worker }, `a worker of ${pipeline} started`);
    const ended = run({
      ...{ pipeline, worker, activity, dir: join(dir, `worker-${this.#started}`) },
      ...{ drain: AbortSignal.any([drain, member.drain.signal]), kill },
    })
      .then(() => log.info({ pipeline, worker }, `a worker of ${pipeline} ended`))
      .catch((error: unknown) =>
        log.error({ pipeline, worker, reason: messageOf(error) }, `a worker of ${pipeline} broke down`),
      )
      .finally(() => {
        this.#running.delete(running);
        // The next assignment replaces a worker that broke down.
        const members = this.#members.get(pipeline) ?? [];
        const index = members.indexOf(member);
        if (index >= 0) members.splice(index, 1);
      });
    const running = { pipeline, activity, ended };
    this.#running.add(running);
    return member;
  }
}

/** A heartbeat has room for some of the troubles. If there are more, they are mostly the same one. */
function boundedTroubles(work: readonly NodeWork[]): NodeWork[] {
  let left = MAX_NODE_TROUBLES;
  return work.map(({ trouble, ...rest }) => {
    if (trouble === undefined || left === 0) return rest;
    left -= 1;
    return { ...rest, trouble };
  });
}

function freeSlot(members: readonly Member[]): number {
  let slot = 0;
  while (members.some((member) => member.slot === slot)) slot += 1;
  return slot;
}
