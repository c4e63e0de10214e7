import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { type Command, NodeTrouble, type Run, type Sandbox } from "../executor.ts";
import { asTrouble, EngineRefusal } from "./engine/engine.ts";
import type { Machinery, WorkerTerms } from "./machinery.ts";
import { Home, KILLED } from "./resident/home.ts";
import { runAlone } from "./run-alone.ts";
import { type SecretFiles, type SecretReader, writeSecrets } from "./secrets/secret-files.ts";
import { planSecrets, type SecretPlan, unmountable } from "./secrets/secret-plan.ts";
import { Slot, type Stay } from "./slot.ts";

export interface SandboxOptions {
  readonly worker: WorkerTerms;
  readonly reader: SecretReader;
}

type Planned = Extract<SecretPlan, { ok: true }>;

/** Runs a worker's commands in a container that it keeps, or where the image allows none, in one for each. */
export class ContainerSandbox implements Sandbox {
  readonly #machinery: Machinery;
  readonly #options: SandboxOptions;
  #slot: Slot | undefined;
  #home: Home | undefined;
  /** Of the secrets that the home has. */
  #fingerprint: string | undefined;
  #residents: "possible" | "impossible" = "possible";
  #made = 0;

  constructor(machinery: Machinery, options: SandboxOptions) {
    this.#machinery = machinery;
    this.#options = options;
  }

  async run(command: Command): Promise<Run> {
    const plan = planSecrets(command.secrets ?? []);
    if (!plan.ok) return hopeless(plan.reason);
    if (command.signal.aborted) return STOPPED;
    try {
      const home = await this.#homeFor(command, plan);
      return home ? await this.#runIn(home, command) : await this.#runAlone(command, plan);
    } catch (error) {
      if (command.signal.aborted) return STOPPED;
      if (error instanceof NoMemoryFolder) return hopeless(error.message);
      if (!(error instanceof EngineRefusal)) throw error;
      const culprit = plan.secrets.find(({ target }) => error.message.includes(target));
      if (culprit) return hopeless(unmountable(culprit.mounted, error.message));
      throw asTrouble(error, this.#machinery.engine);
    }
  }

  /** What can't be removed because the engine is away is removed later. */
  async close(): Promise<void> {
    await this.#leaveHome().catch((error: unknown) => {
      if (!(error instanceof NodeTrouble)) throw error;
    });
  }

  /** The container that the command is to run in; undefined where it needs one of its own. */
  async #homeFor({ signal }: Command, plan: Planned): Promise<Home | undefined> {
    if (this.#residents === "impossible") return undefined;
    if (this.#home?.fit && this.#fingerprint === plan.fingerprint) return this.#home;
    await this.#leaveHome();
    const slot = await this.#slotFor();
    const secrets = await this.#secretFiles(plan);
    const dir = this.#newPath("control");
    const { worker } = this.#options;
    const made = await Home.make(this.#machinery, worker, { dir, slot: slot.dir, secrets, signal });
    if (made instanceof Home) {
      this.#home = made;
      this.#fingerprint = plan.fingerprint;
      return made;
    }
    this.#residents = "impossible";
    return undefined;
  }

  async #runIn(home: Home, command: Command): Promise<Run> {
    const slot = await this.#slotFor();
    let stay: Stay | undefined;
    try {
      stay = await slot.enter(command.pfs);
      return await home.run(command);
    } finally {
      await this.#endStay(home, stay);
    }
  }

  /** Whatever goes wrong here, the next datum has a slot in which nothing of this one is, and to which it can't write. */
  async #endStay(home: Home, stay: Stay | undefined): Promise<void> {
    let clean = false;
    try {
      if (!home.fit) await this.#leaveHome();
      await stay?.leave();
      clean = stay !== undefined;
    } finally {
      if (!clean) {
        this.#slot = undefined;
        await this.#leaveHome();
      }
    }
  }

  async #runAlone(command: Command, plan: Planned): Promise<Run> {
    const secrets = await this.#secretFiles(plan);
    const { worker } = this.#options;
    try {
      return await runAlone(this.#machinery, worker, { command, secrets: secrets.mounts });
    } finally {
      await secrets.remove();
    }
  }

  async #leaveHome(): Promise<void> {
    const home = this.#home;
    this.#home = undefined;
    await home?.remove();
  }

  async #slotFor(): Promise<Slot> {
    if (this.#slot) return this.#slot;
    const base = this.#newPath("slot");
    await mkdir(base);
    this.#slot = await Slot.make(base);
    return this.#slot;
  }

  async #secretFiles({ secrets }: Planned): Promise<SecretFiles> {
    const { reader } = this.#options;
    const files = await writeSecrets(secrets, { owner: this.#machinery.owner, reader });
    if (files) return files;
    throw new NoMemoryFolder();
  }

  #newPath(name: string): string {
    this.#made += 1;
    return join(this.#options.worker.dir, `${name}-${this.#made}`);
  }
}

class NoMemoryFolder extends Error {
  constructor() {
    super(
      "secrets can't be shown: they are kept in memory alone, and on this node neither $XDG_RUNTIME_DIR nor /dev/shm nor /run is a tmpfs that the runner may write to",
    );
  }
}

const STOPPED: Run = { kind: "exited", code: KILLED, log: "" };

function hopeless(reason: string): Run {
  return { kind: "not-started", reason, log: "", hopeless: true };
}
