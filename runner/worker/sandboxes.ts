import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { Lease } from "../../protocol/runner.ts";
import { type Executor, type NamedSecret, NodeTrouble, type Sandbox } from "../executors/executor.ts";
import { jitteredBackoff, pause } from "../gateway/retry.ts";
import { messageOf } from "../lib/fault.ts";
import type { Log } from "../lib/log.ts";
import { removeTree } from "../pfs/remove.ts";
import type { Secrets } from "../secrets/open.ts";
import { SecretMissing } from "../secrets/source.ts";
import type { Renewer } from "./leases.ts";

export interface SandboxesDeps {
  readonly executor: Executor;
  readonly secrets: Secrets;
  readonly renewer: Pick<Renewer, "say" | "keepingSlot">;
  readonly log: Log;
  readonly pipeline: string;
  readonly worker: string;
  /** The worker's folder. */
  readonly dir: string;
  /** What the node tells of the worker; kept up to date here. */
  readonly activity: Activity;
}

/** What a worker does at the moment. */
export interface Activity {
  /** Commands. */
  running: number;
  /** Why it can't run any. */
  trouble?: string | undefined;
}

/** What a sandbox is made for. */
interface Terms {
  readonly image: string;
  readonly container: Lease["container"];
  readonly pullSecrets: readonly string[];
  /** Whether the pipeline belongs to a limited key, as the lease says. */
  readonly limited: boolean | undefined;
}

/** The terms of a lease. */
export function termsOf({
  transform: { image, imagePullSecrets = [] },
  container,
  limited,
}: Pick<Lease, "transform" | "container" | "limited">): Terms {
  return { image, container, pullSecrets: imagePullSecrets, limited };
}

function isSame(one: Terms, other: Terms): boolean {
  const sameSecrets = one.pullSecrets.join("\n") === other.pullSecrets.join("\n");
  const sameRest = one.container === other.container && one.limited === other.limited;
  return one.image === other.image && sameRest && sameSecrets;
}

/** A sandbox that is wanted; `dir`: a folder for it alone, not there yet. */
interface Wanted {
  readonly terms: Terms;
  readonly dir: string;
  readonly signal: AbortSignal;
}

/** Makes a sandbox for the commands of a pipeline. Throws NodeTrouble, SecretMissing for a pull secret, and what `signal` is aborted with. */
export async function prepareSandbox(
  { executor, secrets, pipeline }: Pick<SandboxesDeps, "executor" | "secrets" | "pipeline">,
  { terms, dir, signal }: Wanted,
): Promise<Sandbox> {
  const { image, container, limited } = terms;
  // The gateway gives such work to other nodes. It may have heard only of the agent before, which had containers.
  if (container === "required" && executor.name === "process") throw new NodeTrouble(NO_CONTAINER);
  // The process executor pulls nothing.
  const names = executor.name === "process" ? [] : terms.pullSecrets;
  const source = secrets.for({ pipeline, limited });
  const pullSecrets = await Promise.all(
    names.map(async (name): Promise<NamedSecret> => ({ name, secret: await source.read(name, signal) })),
  );
  await mkdir(dir);
  try {
    return await executor.prepare({ dir, image, pipeline, pullSecrets, signal });
  } catch (error) {
    await removeTree(dir).catch(() => undefined);
    throw error;
  }
}

interface Trouble {
  readonly terms: Terms;
  /** What failed: making a sandbox ready, or running a command in it. Only doing the same again shows that the trouble is over. */
  readonly at: "prepare" | "run";
  readonly reason: string;
}

/** While there is trouble, one in so many tries leases datums: only a lease tells what an update changed. */
const TRIES_PER_LEASE = 2;

const NO_CONTAINER =
  'its specification demands a container ("container": "required"), and this node runs commands as processes';

/**
 * The worker's sandbox, made anew when the pipeline gets another image, other secrets to pull it with, or becomes limited
 * or unlimited: what commands have left in a container is not for those on the other side, and an image is not pulled for
 * good. If it can't be made, or breaks, the worker is in trouble: it says so, keeps its slot, and tries again, ever more
 * slowly, up to once a minute.
 */
export class Sandboxes {
  readonly #deps: SandboxesDeps;
  readonly #backoff = jitteredBackoff({ minMs: 1000, maxMs: 60_000 });
  #ready: { readonly terms: Terms; readonly sandbox: Sandbox } | undefined;
  #trouble: Trouble | undefined;
  #tries = 0;
  #made = 0;

  constructor(deps: SandboxesDeps) {
    this.#deps = deps;
  }

  /** The sandbox for these terms, if it is there already. */
  at(terms: Terms): Sandbox | undefined {
    return this.#ready && isSame(this.#ready.terms, terms) ? this.#ready.sandbox : undefined;
  }

  /** The sandbox for these terms. Throws NodeTrouble, SecretMissing for a pull secret, and what `signal` is aborted with. */
  async get(terms: Terms, signal: AbortSignal): Promise<Sandbox> {
    const there = this.at(terms);
    if (there) return there;
    await this.close();
    try {
      const sandbox = await this.#deps.renewer.keepingSlot(() => this.#prepare(terms, signal));
      this.#ready = { terms, sandbox };
      if (this.#trouble?.at === "prepare") this.#calm();
      return sandbox;
    } catch (error) {
      signal.throwIfAborted();
      // A missing secret is no trouble of this node: the caller fails the job.
      if (error instanceof SecretMissing) this.#calm();
      else this.#troubled(error, { terms, at: "prepare" });
      throw error;
    }
  }

  /** To be called if commands can't be run in the sandbox: its engine is away. */
  async broke(terms: Terms, trouble: NodeTrouble): Promise<void> {
    await this.close();
    this.#troubled(trouble, { terms, at: "run" });
  }

  /** To be called if commands were run in it. */
  worked(): void {
    if (this.#trouble) this.#calm();
  }

  /** Waits and tries again if there is trouble. Returns false if there still is, so that nothing should be leased yet. */
  async recovered(signal: AbortSignal): Promise<boolean> {
    if (!this.#trouble) return true;
    await pause(this.#backoff.next(), signal);
    // Commands that can't be run can only be tried with a datum.
    if (signal.aborted || this.#trouble?.at !== "prepare") return true;
    this.#tries += 1;
    if (this.#tries % TRIES_PER_LEASE === 0) return true;
    await this.get(this.#trouble.terms, signal).catch(() => undefined);
    return this.#trouble === undefined;
  }

  /** Ends the trouble if the terms have changed: it was with the terms before. */
  learn(terms: Terms): void {
    if (this.#trouble && !isSame(this.#trouble.terms, terms)) this.#calm();
  }

  async close(): Promise<void> {
    const { log, pipeline, worker } = this.#deps;
    const sandbox = this.#ready?.sandbox;
    this.#ready = undefined;
    await sandbox?.close().catch((error: unknown) => {
      log.warn({ pipeline, worker, reason: messageOf(error) }, "a sandbox could not be closed");
    });
  }

  async #prepare(terms: Terms, signal: AbortSignal): Promise<Sandbox> {
    const { executor, secrets, pipeline } = this.#deps;
    this.#made += 1;
    const dir = join(this.#deps.dir, `sandbox-${this.#made}`);
    return this.#counted(await prepareSandbox({ executor, secrets, pipeline }, { terms, dir, signal }));
  }

  #counted(sandbox: Sandbox): Sandbox {
    const { activity } = this.#deps;
    return {
      async run(command) {
        activity.running += 1;
        try {
          return await sandbox.run(command);
        } finally {
          activity.running -= 1;
        }
      },
      close: () => sandbox.close(),
    };
  }

  #troubled(error: unknown, { terms, at }: Pick<Trouble, "terms" | "at">): void {
    const { renewer, log, pipeline, worker, activity } = this.#deps;
    const said = messageOf(error);
    const reason = error instanceof NodeTrouble ? said : `commands can't be run: ${said}`;
    if (this.#trouble?.reason !== reason)
      log.warn({ pipeline, worker, reason }, "this node can't run commands just now");
    this.#trouble = { terms, at, reason };
    activity.trouble = reason;
    renewer.say(reason);
  }

  #calm(): void {
    this.#backoff.reset();
    this.#tries = 0;
    if (!this.#trouble) return;
    this.#trouble = undefined;
    const { renewer, log, pipeline, worker, activity } = this.#deps;
    activity.trouble = undefined;
    log.info({ pipeline, worker }, "this node can run commands again");
    renewer.say(null);
  }
}
