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

/** The entrypoints of the Worker, of which a simulation has none. */
export const exports = {};

export function waitUntil(work: Promise<unknown>): void {
  work.catch(() => {});
}
