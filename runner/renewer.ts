import { LEASE_MS, MAX_BATCH } from "../protocol/runner.ts";
import { pause } from "./backoff.ts";
import { messageOf } from "./fault.ts";
import type { Gateway } from "./gateway.ts";
import type { Leases } from "./leases.ts";
import type { Log } from "./log.ts";

export interface RenewerDeps {
  readonly gateway: Pick<Gateway, "renew">;
  readonly leases: Leases;
  readonly log: Log;
  readonly pipeline: string;
  readonly worker: string;
}

const RENEW_MS = LEASE_MS / 3;
const TRY_AGAIN_MS = 1000;

/**
 * Keeps a worker's leases until `stop`, and stops the work of those that are lost. While the gateway does not
 * answer the work goes on: whether a lease is lost is for the gateway to say, and it accepts nothing under a lost one.
 */
export async function runRenewer(deps: RenewerDeps, stop: AbortSignal): Promise<void> {
  let wait = RENEW_MS;
  while (!stop.aborted) {
    await pause(wait, stop);
    wait = (await renewAll(deps, stop)) ? RENEW_MS : TRY_AGAIN_MS;
  }
}

async function renewAll(deps: RenewerDeps, stop: AbortSignal): Promise<boolean> {
  const { gateway, leases, log, pipeline, worker } = deps;
  const held = leases.ids;
  try {
    for (let start = 0; start < held.length && !stop.aborted; start += MAX_BATCH) {
      const some = held.slice(start, start + MAX_BATCH);
      const { lost } = await gateway.renew({ pipeline, worker, leases: some }, stop);
      for (const lease of lost) {
        if (leases.stop(lease, "lost"))
          log.warn({ pipeline, worker, lease }, "lease lost: its work is stopped");
      }
    }
    return true;
  } catch (error) {
    if (!stop.aborted)
      log.warn({ pipeline, worker, reason: messageOf(error) }, "leases could not be renewed");
    return false;
  }
}
