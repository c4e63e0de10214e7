import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { Transform } from "../../protocol/spec.ts";
import { type Executor, type NamedSecret, NodeTrouble, type Sandbox } from "../executors/executor.ts";
import { jitteredBackoff, pause } from "../gateway/retry.ts";
import { messageOf } from "../lib/fault.ts";
import type { Log } from "../lib/log.ts";
import { removeTree } from "../pfs/remove.ts";
import { SecretMissing, type SecretSource } from "../secrets/source.ts";
import type { Renewer } from "./leases.ts";

export interface SandboxesDeps {
  readonly executor: Executor;
  readonly secrets: SecretSource;
  readonly renewer: Pick<Renewer, "say" | "keepingSlot">;
  readonly log: Log;
  readonly pipeline: string;
  readonly worker: string;
  /** The worker's folder. */
  readonly dir: string;
  /** How many commands of the worker run. */
  readonly activity: Activity;
}

/** What a worker does just now. */
export interface Activity {
  running: number;
}

type Terms = Pick<Transform, "image" | "imagePullSecrets">;

interface Trouble {
  readonly terms: Terms;
  /** What goes wrong: making a sandbox ready, or running commands in it. Whether that is over only the same can tell. */
  readonly at: "prepare" | "run";
  readonly words: string;
}

/** While there is trouble, datums are asked for once in so many tries: only with them comes what an update changed. */
const TRIES_PER_LEASE = 2;

/**
 * The worker's sandbox, made anew when the pipeline gets another image. Where it can't be made, or breaks, the
 * worker is in trouble: it says so, keeps its slot, and tries again, ever more slowly, up to once a minute.
 */
export class Sandboxes {
  readonly #deps: SandboxesDeps;
  readonly #backoff = jitteredBackoff({ minMs: 1000, maxMs: 60_000 });
  #ready: { readonly image: string; readonly sandbox: Sandbox } | undefined;
  #trouble: Trouble | undefined;
  #tries = 0;
  #made = 0;

  constructor(deps: SandboxesDeps) {
    this.#deps = deps;
  }

  /** The sandbox for an image, where it is there already. */
  at(image: string): Sandbox | undefined {
    return this.#ready?.image === image ? this.#ready.sandbox : undefined;
  }

  /** The sandbox for these terms. Throws NodeTrouble, SecretMissing where a pull secret is not there, and what `signal` is aborted with. */
  async get(terms: Terms, signal: AbortSignal): Promise<Sandbox> {
    const there = this.at(terms.image);
    if (there) return there;
    await this.close();
    try {
      const sandbox = await this.#deps.renewer.keepingSlot(() => this.#prepare(terms, signal));
      this.#ready = { image: terms.image, sandbox };
      if (this.#trouble?.at === "prepare") this.#calm();
      return sandbox;
    } catch (error) {
      signal.throwIfAborted();
      // That is no trouble of this node: whoever asked fails the job.
      if (error instanceof SecretMissing) this.#calm();
      else this.#troubled(error, { terms, at: "prepare" });
      throw error;
    }
  }

  /** Commands can't be run in the sandbox: its engine is away. */
  async broke(terms: Terms, trouble: NodeTrouble): Promise<void> {
    await this.close();
    this.#troubled(trouble, { terms, at: "run" });
  }

  /** Commands were run in it. */
  worked(): void {
    if (this.#trouble) this.#calm();
  }

  /** Where there is trouble, waits and tries again. False where there still is, and nothing should be leased yet. */
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

  /** The terms are these now: the trouble was with others. */
  learn({ image, imagePullSecrets = [] }: Terms): void {
    if (!this.#trouble) return;
    const { terms } = this.#trouble;
    const before = [terms.image, ...(terms.imagePullSecrets ?? [])];
    if (before.join("\n") !== [image, ...imagePullSecrets].join("\n")) this.#calm();
  }

  async close(): Promise<void> {
    const { log, pipeline, worker } = this.#deps;
    const sandbox = this.#ready?.sandbox;
    this.#ready = undefined;
    await sandbox?.close().catch((error: unknown) => {
      log.warn({ pipeline, worker, reason: messageOf(error) }, "a sandbox could not be closed");
    });
  }

  async #prepare({ image, imagePullSecrets = [] }: Terms, signal: AbortSignal): Promise<Sandbox> {
    const { executor, pipeline } = this.#deps;
    // Nothing is pulled there.
    const names = executor.name === "process" ? [] : imagePullSecrets;
    const pullSecrets = await Promise.all(names.map((name) => this.#read(name, signal)));
    this.#made += 1;
    const dir = join(this.#deps.dir, `sandbox-${this.#made}`);
    await mkdir(dir);
    try {
      return this.#counted(await executor.prepare({ dir, image, pipeline, pullSecrets, signal }));
    } catch (error) {
      await removeTree(dir).catch(() => undefined);
      throw error;
    }
  }

  async #read(name: string, signal: AbortSignal): Promise<NamedSecret> {
    return { name, secret: await this.#deps.secrets.read(name, signal) };
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
    const { renewer, log, pipeline, worker } = this.#deps;
    const said = messageOf(error);
    const words = error instanceof NodeTrouble ? said : `commands can't be run: ${said}`;
    if (this.#trouble?.words !== words)
      log.warn({ pipeline, worker, reason: words }, "this node can't run commands just now");
    this.#trouble = { terms, at, words };
    renewer.say(words);
  }

  #calm(): void {
    this.#backoff.reset();
    this.#tries = 0;
    if (!this.#trouble) return;
    this.#trouble = undefined;
    const { renewer, log, pipeline, worker } = this.#deps;
    log.info({ pipeline, worker }, "this node can run commands again");
    renewer.say(null);
  }
}
