import { availableParallelism } from "node:os";
import { type Assignment, HEARTBEAT_MS, NODE_TTL_MS, type NodeWork } from "../../protocol/runner.ts";
import { about, jitteredBackoff, pause } from "../gateway/retry.ts";
import { messageOf } from "../lib/fault.ts";
import { Crew, type CrewDeps } from "./crew.ts";

const BEAT_WITHIN_MS = 5000;
const LEAVE_WITHIN_MS = 2000;

/**
 * Says about every HEARTBEAT_MS that this node lives and what runs on it, and keeps the workers that the gateway
 * wants here; where it is drained, that is none. While the gateway is away the workers stay as they are. Ends after
 * `drain`, when every worker has.
 */
export async function runAgent(deps: CrewDeps): Promise<void> {
  const upkeep = deps.cache.upkeep(deps.drain);
  const crew = new Crew(deps);
  const backoff = jitteredBackoff({ minMs: HEARTBEAT_MS, maxMs: NODE_TTL_MS });
  let trouble: string | undefined;
  while (!deps.drain.aborted) {
    const beat = await heartbeat(deps, crew.work());
    if (beat.ok) crew.follow(beat.assignment);
    if (beat.ok) backoff.reset();
    trouble = logChange(deps, { before: trouble, now: beat.ok ? undefined : beat.reason });
    await pause(beat.ok ? about(HEARTBEAT_MS) : backoff.next(), deps.drain);
  }
  // At the start of the draining, not at its end: the others take this node's share while it finishes its last.
  await leave(deps);
  await crew.ended();
  await upkeep;
}

type Beat =
  | { readonly ok: true; readonly assignment: Assignment }
  | { readonly ok: false; readonly reason: string };

async function heartbeat({ gateway, node, executor, drain }: CrewDeps, work: NodeWork[]): Promise<Beat> {
  const signal = AbortSignal.any([drain, AbortSignal.timeout(BEAT_WITHIN_MS)]);
  const body = { node, executor: executor.name, capacity: availableParallelism(), work };
  try {
    return { ok: true, assignment: await gateway.heartbeat(body, signal) };
  } catch (error) {
    return { ok: false, reason: messageOf(error) };
  }
}

/** An outage is told when it begins, when it changes and when it ends; not with every beat. */
function logChange(
  { log, node, drain }: CrewDeps,
  { before, now }: { before: string | undefined; now: string | undefined },
): string | undefined {
  if (drain.aborted || before === now) return before;
  if (now === undefined) log.info({ node }, "the gateway is back");
  else log.warn({ node, reason: now }, "the gateway does not hear this node");
  return now;
}

async function leave({ gateway, log, node }: CrewDeps): Promise<void> {
  try {
    await gateway.leave(node, AbortSignal.timeout(LEAVE_WITHIN_MS));
  } catch (error) {
    log.warn({ node, reason: messageOf(error) }, "the gateway did not hear the good-bye");
  }
}
