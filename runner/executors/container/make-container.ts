import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { access } from "node:fs/promises";
import type { Container, ContainerCreateOptions, HostConfig } from "dockerode";
import type { Limits } from "../../limits/limits.ts";
import type { Command, PrepareRequest } from "../executor.ts";
import { type Disposal, labelsOf, type Owner } from "./engine/disposal.ts";
import { asCondition, ask, type Engine, EngineRefusal, notSeen } from "./engine/engine.ts";
import { ensureImage } from "./images/ensure-image.ts";
import type { PrivateImages } from "./images/private-images.ts";
import type { ToldImages } from "./images/reference.ts";
import { CONTROL } from "./init-script.ts";
import type { SecretMountpoint } from "./secrets.ts";

/** An engine as one agent uses it: shared by all its sandboxes. */
export interface AgentEngine {
  readonly engine: Engine;
  /** Whose containers they are. */
  readonly owner: Owner;
  /** What the commands of one worker may take. */
  readonly limits: Limits;
  /** As the engine names it; undefined: its default. */
  readonly network: string | undefined;
  readonly privates: PrivateImages;
  readonly told: ToldImages;
  readonly disposal: Disposal;
}

/** What the containers of one sandbox share. */
export interface WorkerTerms extends Omit<PrepareRequest, "signal"> {
  /** The image's, as it names it. */
  readonly user: string;
}

/**
 * What root may do in a container, by the names of capabilities(7): handle files whoever owns them, become another
 * user, and end other users' processes. All that engines grant by default beside these is dropped: devices, raw
 * sockets, chroot, ports below 1024 where the engine guards them, file capabilities and the audit log.
 */
const ROOT_CAPABILITIES = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID"];

/** Whether an image's user is root, with or without a group. */
export function isRoot(user: string): boolean {
  return /^(0|root)?(:.*)?$/.test(user);
}

export interface MakeOptions {
  /** The folder that is `/pfs`, with `out` in it. */
  readonly pfs: string;
  /** The folder of the control files, if an init is to run. */
  readonly control?: string;
  readonly secrets: readonly SecretMountpoint[];
  /** What is to run in it, and how. */
  readonly config: ContainerCreateOptions;
  /** Ends the wait for the image. */
  readonly signal: AbortSignal;
}

/** A container, and the name by which it is to be removed. */
export interface Made {
  readonly name: string;
  readonly container: Container;
  /** What it was made of, as lineage tells it. */
  readonly image: string;
}

/** Makes a container, which must be removed through `disposal`. Throws NodeCondition. */
export async function makeContainer(
  { engine, owner, limits, network, privates, told, disposal }: AgentEngine,
  worker: WorkerTerms,
  { pfs, control, secrets, config, signal }: MakeOptions,
): Promise<Made> {
  // Podman would make what is not there, as root's.
  for (const source of [`${pfs}/out`, ...secrets.map((secret) => secret.source)]) await access(source);
  await disposal.sweep();
  const { image, pullSecrets, pipeline } = worker;
  const Image = await ensureImage(engine, { image, pullSecrets, privates, signal });
  const toldImage = await told.nameOf({ image, id: Image });
  const name = `sluice-${owner.node}-${pipeline}-${randomBytes(4).toString("hex")}`;
  const options = {
    ...{ name, Image, Labels: labelsOf(owner, worker) },
    // SIGKILL, so that nobody who stops it has to wait: an init is deaf to every other signal.
    StopSignal: "SIGKILL",
    HostConfig: {
      ...limitsOf(engine, limits),
      ...privilegesOf(config.User ?? worker.user),
      ...(network !== undefined && { NetworkMode: network }),
      // Not as Binds, which are split at colons.
      Mounts: [
        bind(pfs, "/pfs", "ro"),
        bind(`${pfs}/out`, "/pfs/out", "rw"),
        ...(control === undefined ? [] : [bind(control, CONTROL, "ro")]),
        ...secrets.map(({ source, target }) => bind(source, target, "ro")),
      ],
      // Output goes to the agent alone.
      LogConfig: { Type: "none", Config: {} },
      // No AutoRemove: a container that removes itself takes its exit code along.
    },
    ...config,
  };
  try {
    const container = await ask(engine, () => engine.docker.createContainer(options));
    return { name, container, image: toldImage };
  } catch (error) {
    // The engine may have made it all the same.
    await disposal.remove(name).catch(() => undefined);
    if (error instanceof EngineRefusal && /bind source path/.test(error.message)) {
      throw notSeen(engine, error.message);
    }
    throw asCondition(error, engine);
  }
}

/** Whoever is not root gets nothing: Podman would give a user what is added, and not only allow it. */
function privilegesOf(user: string): HostConfig {
  return {
    CapDrop: ["ALL"],
    ...(isRoot(user) && { CapAdd: ROOT_CAPABILITIES }),
    SecurityOpt: [
      "no-new-privileges",
      // The folders are shared with the agent and its cache, and can't get labels of a container's own.
      ...(existsSync("/sys/fs/selinux/enforce") ? ["label=disable"] : []),
    ],
  };
}

function bind(source: string, target: string, access: "ro" | "rw") {
  return { Type: "bind" as const, Source: source, Target: target, ReadOnly: access === "ro" };
}

/** Most processes and threads of a worker's commands if no limit is set: a fork bomb stops there. */
const DEFAULT_PIDS = 4096;

function limitsOf({ bounds, cores }: Engine, { memoryBytes, cpus, pids }: Limits): Partial<HostConfig> {
  const most = pids ?? (bounds.pids ? DEFAULT_PIDS : undefined);
  return {
    ...(memoryBytes !== undefined && { Memory: memoryBytes }),
    // The bound with swap is the bound without: no swap.
    ...(memoryBytes !== undefined && bounds.swap && { MemorySwap: memoryBytes }),
    // Engines refuse more cores than there are.
    ...(cpus !== undefined && { NanoCpus: Math.round(Math.min(cpus, cores) * 1e9) }),
    ...(most !== undefined && { PidsLimit: most }),
  };
}

/** The environment of a command over that of its image: what is only true of this machine is left out. */
export function imageEnv({ env, machineEnv = [] }: Command): Record<string, string> {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !machineEnv.includes(name)));
}
