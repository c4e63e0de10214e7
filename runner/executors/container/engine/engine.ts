import { access, constants } from "node:fs/promises";
import { Agent } from "node:http";
import type Dockerode from "dockerode";
import { z } from "zod";
import { errorCode, messageOf } from "../../../lib/fault.ts";
import { NodeCondition } from "../../executor.ts";

export type EngineKind = "docker" | "podman";

/** A container engine on this machine that has answered. */
export interface Engine {
  readonly kind: EngineKind;
  readonly version: string;
  /** Path of its socket. */
  readonly socket: string;
  /** For calls that are answered soon. */
  readonly docker: Dockerode;
  /** For calls that may be silent for long: pulls. */
  readonly patient: Dockerode;
  /** Cores of the machine, as it counts them. */
  readonly cores: number;
  /** Whether it can bound what is named so. */
  readonly bounds: { readonly swap: boolean; readonly pids: boolean };
  /** Runs as an ordinary user: root in a container is that user here. */
  readonly rootless: boolean;
  /** Root in a container is some other user here. */
  readonly remapped: boolean;
}

/** The engine has refused a request, in its own words. */
export class EngineRefusal extends Error {
  override readonly name = "EngineRefusal";
  readonly status: number;

  constructor(status: number, words: string) {
    super(words);
    this.status = status;
  }
}

/** How soon an engine has to say what it is. */
const PRESENTS_WITHIN_MS = 30_000;
/** The longest silence that counts as work: a loaded machine needs seconds to start a container. */
const ANSWER_MS = 120_000;

// Both of them say the engine's kind in the names of their components.
const Version = z.object({
  Version: z.string(),
  Components: z.array(z.object({ Name: z.string() })).default([]),
});
const Info = z.object({
  NCPU: z.number().catch(1),
  SwapLimit: z.boolean().catch(false),
  PidsLimit: z.boolean().catch(false),
  Rootless: z.boolean().catch(false),
  SecurityOptions: z.array(z.string()).catch([]),
});

/** Asks the engine behind a socket what it is. Throws NodeCondition and EngineRefusal. */
export async function openEngine(socket: string): Promise<Engine> {
  // Loaded only here: it brings much that a runner without an engine has no use for.
  const { default: Dockerode } = await import("dockerode");
  const connection = {
    // Without it, DOCKER_HOST of the environment would win over the socket.
    host: "",
    socketPath: socket,
    // A connection that is kept would break with the next restart of the engine.
    agent: new Agent({ keepAlive: false }),
  };
  const quick = new Dockerode({ ...connection, timeout: PRESENTS_WITHIN_MS });
  const docker = new Dockerode({ ...connection, timeout: ANSWER_MS });
  const patient = new Dockerode(connection);
  const version = Version.parse(await ask({ socket }, () => quick.version()));
  const info = Info.parse(await ask({ socket }, () => quick.info()));
  const podman = version.Components.some(({ Name }) => /^podman/i.test(Name));
  return {
    kind: podman ? "podman" : "docker",
    version: version.Version,
    ...{ socket, docker, patient },
    cores: info.NCPU,
    bounds: { swap: info.SwapLimit, pids: info.PidsLimit },
    rootless: info.Rootless || info.SecurityOptions.some((option) => option.includes("name=rootless")),
    remapped: info.SecurityOptions.some((option) => option.includes("name=userns")),
  };
}

/** Does `work`, which asks the engine. Throws EngineRefusal if it said no, and NodeCondition if it did not answer. */
export async function ask<T>(
  { kind, socket }: { kind?: EngineKind; socket: string },
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const refusal = refusalOf(error);
    if (refusal) throw refusal;
    const why = errorCode(error) ?? messageOf(error);
    throw new NodeCondition(
      `the container engine${kind ? ` (${kind})` : ""} at ${socket} does not answer: ${why}`,
    );
  }
}

const Answer = z.object({ message: z.string() });

function refusalOf(error: unknown): EngineRefusal | undefined {
  if (!(error instanceof Error && "statusCode" in error && typeof error.statusCode === "number"))
    return undefined;
  return refused(error.statusCode, {
    answer: "json" in error ? error.json : undefined,
    words: error.message,
  });
}

/** The refusal that an engine's answer says. `words`: what to say if it holds no message. */
export function refused(
  status: number,
  { answer, words }: { answer: unknown; words: string },
): EngineRefusal {
  return new EngineRefusal(status, (Answer.safeParse(answer).data?.message ?? words).trim());
}

/** Turns a refusal of the engine into a condition of this node, in the engine's words. Other errors stay as they are. */
export function asCondition(error: unknown, { kind }: Engine): unknown {
  return error instanceof EngineRefusal ? new NodeCondition(`${kind} refused: ${error.message}`) : error;
}

/** Like `ask`, where a refusal is a condition of this node, too. */
export function mustAsk<T>(engine: Engine, work: () => Promise<T>): Promise<T> {
  return ask(engine, work).catch((error: unknown) => {
    throw asCondition(error, engine);
  });
}

/** The engine runs on another machine than the agent, or sees its folders under other names. */
export function notSeen({ kind, socket }: Engine, why: string): NodeCondition {
  return new NodeCondition(
    `${kind} at ${socket} does not see the runner's data folder as the runner does (${why}): the engine must run on this machine, and in a container the runner needs its data folder mounted at the same path as outside`,
  );
}

/** Whether an engine's message says that the image has no such program, or that it can't be executed. */
export function isNoProgram(words: string): boolean {
  return /executable file|exec(ve)?:? .*(no such file|permission denied|exec format error|is a directory)/i.test(
    words,
  );
}

type Environment = Readonly<Record<string, string | undefined>>;

/** The variable that names the engine's address, and its usual addresses. */
const PLACES: Readonly<Record<EngineKind, { variable: string; usual: (env: Environment) => string[] }>> = {
  docker: {
    variable: "DOCKER_HOST",
    usual: ({ XDG_RUNTIME_DIR }) => ["/var/run/docker.sock", ...below(XDG_RUNTIME_DIR, "docker.sock")],
  },
  podman: {
    variable: "CONTAINER_HOST",
    usual: ({ XDG_RUNTIME_DIR }) => [
      "/run/podman/podman.sock",
      ...below(XDG_RUNTIME_DIR, "podman/podman.sock"),
    ],
  },
};

function below(folder: string | undefined, name: string): string[] {
  return folder ? [`${folder}/${name}`] : [];
}

/** This machine's engine of this kind, or what was tried and why each try failed. */
export async function findEngine(kind: EngineKind, env: Environment): Promise<Engine | string[]> {
  const problems: string[] = [];
  const { variable, usual } = PLACES[kind];
  const told = env[variable];
  // If an address is given, no other is tried. Podman behind DOCKER_HOST is a common way to have it.
  const addresses = told ? [told] : usual(env).map((path) => `unix://${path}`);
  if (kind === "podman" && !told && env.DOCKER_HOST) addresses.push(env.DOCKER_HOST);
  for (const address of addresses) {
    const found = await tryAddress(address, kind);
    if (typeof found !== "string") return found;
    problems.push(`${kind}: ${address}${address === told ? ` (${variable})` : ""}: ${found}`);
  }
  return problems;
}

async function tryAddress(address: string, kind: EngineKind): Promise<Engine | string> {
  const socket = /^(?:unix:\/\/)?(\/.*)$/.exec(address)?.[1];
  if (socket === undefined) {
    return "an engine on another machine can't see this one's folders; only unix:// addresses can be used";
  }
  const denied = await access(socket, constants.R_OK | constants.W_OK).then(
    () => undefined,
    (error: unknown) => (/EACCES|EPERM/.test(messageOf(error)) ? DENIED : "there is no such socket"),
  );
  if (denied) return denied;
  try {
    const engine = await openEngine(socket);
    return engine.kind === kind ? engine : `${engine.kind} answers there`;
  } catch (error) {
    return messageOf(error);
  }
}

const DENIED = "permission denied; the runner's user must be in the group that owns it";
