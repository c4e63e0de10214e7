import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { Lease } from "../../protocol/runner.ts";
import { type Executor, type NamedSecret, NodeCondition, type Sandbox } from "../executors/executor.ts";
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
  condition?: string | undefined;
}

/** What a sandbox is made for. */
interface Terms {
  readonly image: string;
  readonly container: Lease["transform"]["container"];
  readonly pullSecrets: readonly string[];
  /** Whether the pipeline belongs to a limited key, as the lease says. */
  readonly limited: boolean;
}

/** The terms of a lease. */
export function termsOf({
  transform: { image, container, imagePullSecrets = [] },
  limited,
}: Pick<Lease, "transform" | "limited">): Terms {
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

/** Makes a sandbox for the commands of a pipeline. Throws NodeCondition, SecretMissing for a pull secret, and what `signal` is aborted with. */
export async function prepareSandbox(
  { executor, secrets, pipeline }: Pick<SandboxesDeps, "executor" | "secrets" | "pipeline">,
  { terms, dir, signal }: Wanted,
): Promise<Sandbox> {
  const { image, container, limited } = terms;
  // The gateway gives such work to other nodes. It may have heard only of the agent before, which had containers.
  if (container === "required" && executor.name === "process") throw new NodeCondition(NO_CONTAINER);
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

interface Condition {
  readonly terms: Terms;
  /** What failed: making a sandbox ready, or running a command in it. Only doing the same again shows that the condition is over. */
  readonly at: "prepare" | "run";
  readonly reason: string;
}

/** While the condition lasts, one in so many tries leases datums: only a lease tells what an update changed. */
const TRIES_PER_LEASE = 2;

const NO_CONTAINER =
  'its specification demands a container ("container": "required"), and this node runs commands as processes';

/**
 * The worker's sandbox, made anew when the pipeline gets another image, other secrets to pull it with, or becomes limited
 * or unlimited: what commands have left in a container is not for those on the other side, and an image is not pulled for
 * good. If it can't be made, or breaks, that is a node condition: the worker reports it, keeps its slot, and tries again, ever more
 * slowly, up to once a minute.
 */
export class Sandboxes {
  readonly #deps: SandboxesDeps;
  readonly #backoff = jitteredBackoff({ minMs: 1000, maxMs: 60_000 });
  #ready: { readonly terms: Terms; readonly sandbox: Sandbox } | undefined;
  #condition: Condition | undefined;
  #tries = 0;
  #made = 0;

  constructor(deps: SandboxesDeps) {
    this.#deps = deps;
  }

  /** The sandbox for these terms, if it is there already. */
  at(terms: Terms): Sandbox | undefined {
    return this.#ready && isSame(this.#ready.terms, terms) ? this.#ready.sandbox : undefined;
  }

  /** The sandbox for these terms. Throws NodeCondition, SecretMissing for a pull secret, and what `signal` is aborted with. */
  async get(terms: Terms, signal: AbortSignal): Promise<Sandbox> {
    const there = this.at(terms);
    if (there) return there;
    await this.close();
    try {
      const sandbox = await this.#deps.renewer.keepingSlot(() => this.#prepare(terms, signal));
      this.#ready = { terms, sandbox };
      if (this.#condition?.at === "prepare") this.#recover();
      return sandbox;
    } catch (error) {
      signal.throwIfAborted();
      // That a secret is missing is no condition of this node: the caller fails the job.
      if (error instanceof SecretMissing) this.#recover();
      else this.#impaired(error, { terms, at: "prepare" });
      throw error;
    }
  }

  /** To be called if commands can't be run in the sandbox: its engine is away. */
  async broke(terms: Terms, condition: NodeCondition): Promise<void> {
    await this.close();
    this.#impaired(condition, { terms, at: "run" });
  }

  /** To be called if commands were run in it. */
  worked(): void {
    if (this.#condition) this.#recover();
  }

  /** Waits and tries again if the node has a condition. Returns false if it still has, so that nothing should be leased yet. */
  async recovered(signal: AbortSignal): Promise<boolean> {
    if (!this.#condition) return true;
    await pause(this.#backoff.next(), signal);
    // Commands that can't be run can only be tried with a datum.
    if (signal.aborted || this.#condition?.at !== "prepare") return true;
    this.#tries += 1;
    if (this.#tries % TRIES_PER_LEASE === 0) return true;
    await this.get(this.#condition.terms, signal).catch(() => undefined);
    return this.#condition === undefined;
  }

  /** Ends the condition if the terms have changed: it was one of the terms before. */
  learn(terms: Terms): void {
    if (this.#condition && !isSame(this.#condition.terms, terms)) this.#recover();
  }

  async close(): Promise<void> {
    const { log, pipeline } = this.#deps;
    const sandbox = this.#ready?.sandbox;
    this.#ready = undefined;
    await sandbox?.close().catch((error: unknown) => {
      log.warn({ reason: messageOf(error) }, `a sandbox of ${pipeline} could not be closed`);
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

  #impaired(error: unknown, { terms, at }: Pick<Condition, "terms" | "at">): void {
    const { renewer, log, pipeline, activity } = this.#deps;
    const said = messageOf(error);
    const reason = error instanceof NodeCondition ? said : `commands can't be run: ${said}`;
    if (this.#condition?.reason !== reason)
      log.warn({ reason }, `this node can't run commands of ${pipeline} just now`);
    this.#condition = { terms, at, reason };
    activity.condition = reason;
    renewer.say(reason);
  }

  #recover(): void {
    this.#backoff.reset();
    this.#tries = 0;
    if (!this.#condition) return;
    this.#condition = undefined;
    const { renewer, log, pipeline, activity } = this.#deps;
    activity.condition = undefined;
    log.info(`this node can run commands of ${pipeline} again`);
    renewer.say(null);
  }
}
