import { setTimeout as pause } from "node:timers/promises";
import { HostError } from "./host-error.ts";

const READY_WITHIN_MS = 30_000;
const PROBE_EVERY_MS = 20;

/** Returns when `GET /healthz` is 200. Throws a HostError with the last answer if it is not in time. */
export async function waitUntilHealthy(endpoint: string): Promise<void> {
  const deadline = performance.now() + READY_WITHIN_MS;
  for (;;) {
    const answer = await probe(endpoint);
    if (answer === "healthy") return;
    if (performance.now() > deadline)
      throw new HostError(`the gateway at ${endpoint} does not get ready: ${answer}`);
    await pause(PROBE_EVERY_MS);
  }
}

async function probe(endpoint: string): Promise<string> {
  try {
    const response = await fetch(`${endpoint}/healthz`);
    const text = await response.text();
    return response.status === 200 ? "healthy" : `${response.status} ${text}`;
  } catch (error) {
    return error instanceof Error ? String(error.cause ?? error) : String(error);
  }
}
