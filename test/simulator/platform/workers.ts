import { actorNow } from "./world.ts";

/** What objects import from `cloudflare:workers`, in a simulation. */
export class DurableObject {
  readonly ctx: unknown;
  readonly env: unknown;

  constructor(ctx: unknown, env: unknown) {
    this.ctx = ctx;
    this.env = env;
  }
}

export class WorkerEntrypoint extends DurableObject {}

/** The entrypoints of the Worker, as whoever runs now has them. */
export const exports = {
  get Blobs(): unknown {
    return actorNow()?.world.entrypoints.Blobs;
  },
};

export function waitUntil(work: Promise<unknown>): void {
  work.catch(() => {});
}
