import { existsSync } from "node:fs";
import type { ContainerCreateOptions, HostConfig } from "dockerode";
import type { Limits } from "../executor.ts";
import type { Engine } from "./engine/engine.ts";
import { CONTROL } from "./resident/resident-script.ts";
import type { SecretMountpoint } from "./secrets/secret-files.ts";

/** Processes and threads of a worker's commands where nothing is said: a fork bomb stops there. */
const DEFAULT_PIDS = 4096;

export interface ContainerRequest {
  readonly image: string;
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  /** The folder that is `/pfs`, with `out` in it. */
  readonly pfs: string;
  /** The folder of the control files, where a resident is to run. */
  readonly control?: string;
  readonly secrets: readonly SecretMountpoint[];
  readonly limits: Limits;
}

/** What every container of a worker has, whatever runs in it. */
export function createOptions(
  engine: Engine,
  { image, name, labels, pfs, control, secrets, limits }: ContainerRequest,
): ContainerCreateOptions & { name: string } {
  return {
    name,
    Image: image,
    Labels: { ...labels },
    // Whatever stops it need not wait for it: a resident is deaf to everything else.
    StopSignal: "SIGKILL",
    HostConfig: {
      ...limitsOf(engine, limits),
      // Not as Binds, which are split at colons.
      Mounts: [
        bind(pfs, "/pfs", "ro"),
        bind(`${pfs}/out`, "/pfs/out", "rw"),
        ...(control === undefined ? [] : [bind(control, CONTROL, "ro")]),
        ...secrets.map(({ source, target }) => bind(source, target, "ro")),
      ],
      // Output goes to the agent alone. A container is removed by the agent: who removes itself takes its exit code along.
      LogConfig: { Type: "none", Config: {} },
      // The folders are shared with the agent and its cache, and can't get labels of a container's own.
      ...(existsSync("/sys/fs/selinux/enforce") && { SecurityOpt: ["label=disable"] }),
    },
  };
}

type Mount = NonNullable<HostConfig["Mounts"]>[number];

function bind(source: string, target: string, access: "ro" | "rw"): Mount {
  return { Type: "bind", Source: source, Target: target, ReadOnly: access === "ro" };
}

function limitsOf({ bounds, cores }: Engine, { memoryBytes, cpus, pids }: Limits): Partial<HostConfig> {
  const most = pids ?? (bounds.pids ? DEFAULT_PIDS : undefined);
  return {
    ...(memoryBytes !== undefined && { Memory: memoryBytes }),
    // As much with swap as without: none.
    ...(memoryBytes !== undefined && bounds.swap && { MemorySwap: memoryBytes }),
    // More cores than there are is refused.
    ...(cpus !== undefined && { NanoCpus: Math.round(Math.min(cpus, cores) * 1e9) }),
    ...(most !== undefined && { PidsLimit: most }),
  };
}
