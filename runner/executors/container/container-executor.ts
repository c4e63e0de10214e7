import { mkdir } from "node:fs/promises";
import { join, posix } from "node:path";
import {
  type Command,
  type Executor,
  type ExecutorSettings,
  KILLED,
  NodeCondition,
  type PrepareRequest,
  type Run,
  type Sandbox,
} from "../executor.ts";
import { Unmountable } from "../mounted-secrets.ts";
import { Disposal, ownerOf } from "./engine/disposal.ts";
import { asCondition, type Engine, EngineRefusal, mustAsk } from "./engine/engine.ts";
import { ensureImage } from "./images/ensure-image.ts";
import { PrivateImages } from "./images/private-images.ts";
import { ToldImages } from "./images/reference.ts";
import { KeptContainer } from "./kept-container.ts";
import { type AgentEngine, isRoot, type WorkerTerms } from "./make-container.ts";
import { runAlone } from "./run-alone.ts";
import {
  planSecrets,
  type SecretFiles,
  type SecretPlan,
  type SecretReader,
  writeSecrets,
} from "./secrets.ts";
import { type MovedIn, SharedPfs } from "./shared-pfs.ts";

/** `dataDir` must be there. Leftovers of its dead agents are found by it. */
type ContainerTerms = Pick<ExecutorSettings, "dataDir" | "node" | "limits" | "network">;

/** Runs commands in containers of an engine, in the image that the pipeline names. */
export async function containerExecutor({
  engine,
  dataDir,
  node,
  limits,
  network,
}: ContainerTerms & { readonly engine: Engine }): Promise<Executor> {
  const owner = await ownerOf({ dataDir, node });
  const disposal = new Disposal(engine);
  const privates = new PrivateImages(dataDir);
  const told = new ToldImages(engine);
  const agentEngine: AgentEngine = { engine, owner, limits, network, privates, told, disposal };
  return {
    name: engine.kind,
    prepare: (request) => prepare(agentEngine, request),
    // The next agent removes what can't be removed because the engine is away.
    close: () => disposal.sweep(),
  };
}

async function prepare(
  agentEngine: AgentEngine,
  { dir, image, pipeline, pullSecrets, signal }: PrepareRequest,
): Promise<Sandbox> {
  const { engine, privates } = agentEngine;
  const id = await ensureImage(engine, { image, pullSecrets, privates, signal });
  const { Config } = await mustAsk(engine, () => engine.docker.getImage(id).inspect());
  const user = Config.User ?? "";
  const reader = isRoot(user) && !engine.remapped ? "root" : "anybody";
  return new ContainerSandbox(agentEngine, { dir, image, pipeline, pullSecrets, user }, reader);
}

/** Runs a worker's commands in one container that it keeps, or in one for each if no init can run in the image. */
class ContainerSandbox implements Sandbox {
  readonly #agentEngine: AgentEngine;
  readonly #worker: WorkerTerms;
  readonly #reader: SecretReader;
  #shared: SharedPfs | undefined;
  #kept: KeptContainer | undefined;
  /** Of the secrets in the kept container. */
  #fingerprint: string | undefined;
  /** Whether an init can run in the image. */
  #inits: "possible" | "impossible" = "possible";
  #made = 0;

  constructor(agentEngine: AgentEngine, worker: WorkerTerms, reader: SecretReader) {
    this.#agentEngine = agentEngine;
    this.#worker = worker;
    this.#reader = reader;
  }

  async run(given: Command): Promise<Run> {
    const command = { ...given, ...normalised(given) };
    if (command.signal.aborted) return STOPPED;
    let secrets: SecretPlan["secrets"] = [];
    try {
      const plan = planSecrets(command.secrets ?? []);
      secrets = plan.secrets;
      const kept = await this.#keptFor(command, plan);
      return kept ? await this.#runIn(kept, command) : await this.#runAlone(command, plan);
    } catch (error) {
      if (command.signal.aborted) return STOPPED;
      if (error instanceof NoMemoryFolder || error instanceof Unmountable) return hopeless(error.message);
      if (!(error instanceof EngineRefusal)) throw error;
      const culprit = secrets.find(({ path }) => error.message.includes(path));
      if (culprit) return hopeless(new Unmountable(culprit.mounted, error.message).message);
      throw asCondition(error, this.#agentEngine.engine);
    }
  }

  /** What can't be removed because the engine is away is removed later. */
  async close(): Promise<void> {
    await this.#removeKept().catch((error: unknown) => {
      if (!(error instanceof NodeCondition)) throw error;
    });
  }

  /** The kept container for the command; undefined if the command needs one of its own. */
  async #keptFor({ terminal, signal }: Command, plan: SecretPlan): Promise<KeptContainer | undefined> {
    // A terminal is one container's own.
    if (terminal || this.#inits === "impossible") return undefined;
    if (this.#kept?.fit && this.#fingerprint === plan.fingerprint) return this.#kept;
    await this.#removeKept();
    const { dir: pfs } = await this.#sharedPfs();
    const secrets = await this.#secretFiles(plan);
    const options = { dir: this.#newPath("control"), pfs, secrets, signal };
    const made = await KeptContainer.make(this.#agentEngine, this.#worker, options);
    if (made instanceof KeptContainer) {
      this.#kept = made;
      this.#fingerprint = plan.fingerprint;
      return made;
    }
    this.#inits = "impossible";
    return undefined;
  }

  async #runIn(kept: KeptContainer, command: Command): Promise<Run> {
    const shared = await this.#sharedPfs();
    let moved: MovedIn | undefined;
    try {
      moved = await shared.moveIn(command.pfs);
      return await kept.run(command);
    } finally {
      await this.#moveBack(kept, moved);
    }
  }

  /** Moves the datum back. Whatever goes wrong, the next datum gets a `/pfs` that holds nothing of this one, and to which this one can't write. */
  async #moveBack(kept: KeptContainer, moved: MovedIn | undefined): Promise<void> {
    let clean = false;
    try {
      if (!kept.fit) await this.#removeKept();
      await moved?.moveBack();
      clean = moved !== undefined;
    } finally {
      if (!clean) {
        this.#shared = undefined;
        await this.#removeKept();
      }
    }
  }

  async #runAlone(command: Command, plan: SecretPlan): Promise<Run> {
    const secrets = await this.#secretFiles(plan);
    try {
      return await runAlone(this.#agentEngine, this.#worker, { command, secrets: secrets.mounts });
    } finally {
      await secrets.remove();
    }
  }

  async #removeKept(): Promise<void> {
    const kept = this.#kept;
    this.#kept = undefined;
    await kept?.remove();
  }

  async #sharedPfs(): Promise<SharedPfs> {
    if (this.#shared) return this.#shared;
    const base = this.#newPath("pfs");
    await mkdir(base);
    this.#shared = await SharedPfs.make(base);
    return this.#shared;
  }

  async #secretFiles({ secrets }: SecretPlan): Promise<SecretFiles> {
    const files = await writeSecrets(secrets, { owner: this.#agentEngine.owner, reader: this.#reader });
    if (files) return files;
    throw new NoMemoryFolder();
  }

  #newPath(name: string): string {
    this.#made += 1;
    return join(this.#worker.dir, `${name}-${this.#made}`);
  }
}

/** Nobody has to understand `.` and `..` any more: engines do, and so would this machine's own paths. */
function normalised({ workingDir }: Command): Pick<Command, "workingDir"> {
  if (workingDir === undefined) return {};
  return { workingDir: posix.normalize(`/${workingDir}/`).slice(0, -1) || "/" };
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
