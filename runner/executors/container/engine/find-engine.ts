import { access, constants } from "node:fs/promises";
import { messageOf } from "../../../lib/fault.ts";
import { type Engine, type EngineKind, openEngine } from "./engine.ts";

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
