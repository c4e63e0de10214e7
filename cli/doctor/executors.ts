import type { RunnerConfig } from "../../runner/agent/config.ts";
import { findEngine } from "../../runner/executors/container/engine/find-engine.ts";
import { detectProcessExecutor } from "../../runner/executors/detect.ts";
import { NoExecutorError } from "../../runner/executors/executor.ts";
import { messageOf } from "../../runner/lib/fault.ts";
import type { Finding } from "./finding.ts";

/** A way to run commands: what works, or why it does not. */
interface Way {
  readonly name: Exclude<RunnerConfig["executor"], "auto">;
  readonly found: string;
  readonly works: "yes" | "no";
  readonly fix: string;
}

export interface ExecutorsOptions {
  readonly choice: RunnerConfig["executor"];
  /** A folder for the tries: absolute, and without links on the way. */
  readonly folder: string;
  readonly node: string;
  /** A name for what is tried, that no agent has. */
  readonly agent: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** Each way that `--executor` allows, really tried. One is needed; `auto` does not take processes, which are tried all the same. */
export async function executorFindings(options: ExecutorsOptions): Promise<Finding[]> {
  const asked = WAYS.filter(({ name }) => options.choice === "auto" || options.choice === name);
  const ways: Way[] = [];
  for (const { look } of asked) ways.push(await look(options));
  const taken = ways.find((way) => way.works === "yes" && isTaken(way, options));
  return ways.map((way): Finding => {
    const { name, found, works, fix } = way;
    // One way is all that a runner needs, as in the image, which has no engine of its own and whose rights make no namespaces.
    if (works === "no" && taken) {
      return { check: name, state: "ok", found: `not needed, since ${taken.name} runs commands (${found})` };
    }
    if (works === "no") return { check: name, state: "fail", found, fix };
    if (taken || isTaken(way, options)) return { check: name, state: "ok", found };
    return { check: name, state: "warn", found: `${found}; but they must be asked for`, fix: ASK_FOR_IT };
  });
}

const ASK_FOR_IT = "start the runner with --executor process, if commands may have its rights";

/** Whether a runner would take it. */
function isTaken({ name }: Way, { choice }: ExecutorsOptions): boolean {
  return choice === name || (choice === "auto" && name !== "process");
}

/** The engines in the order in which `auto` takes them. */
const WAYS: readonly { name: Way["name"]; look: (options: ExecutorsOptions) => Promise<Way> }[] = [
  { name: "docker", look: ({ env }) => engine("docker", env) },
  { name: "podman", look: ({ env }) => engine("podman", env) },
  { name: "process", look: process },
];

const ENGINE_FIX = {
  docker:
    "install Docker (Debian: apt-get install docker.io) and add the runner's user to the group docker; a socket elsewhere: DOCKER_HOST; in a container: -v /var/run/docker.sock:/var/run/docker.sock",
  podman:
    "install Podman (Debian: apt-get install podman) and start its service: systemctl enable --now podman.socket; a socket elsewhere: CONTAINER_HOST; in a container: -v /run/podman/podman.sock:/run/podman/podman.sock",
} as const;

async function engine(name: "docker" | "podman", env: ExecutorsOptions["env"]): Promise<Way> {
  const found = await findEngine(name, env);
  const fix = ENGINE_FIX[name];
  if (Array.isArray(found)) {
    const tries = found.map((problem) => problem.replace(`${name}: `, ""));
    return { name, works: "no", found: tries.join("; "), fix };
  }
  return { name, works: "yes", found: `${found.version} at ${found.socket}`, fix };
}

async function process({ folder, node, agent }: ExecutorsOptions): Promise<Way> {
  const name = "process";
  const fix = "install bubblewrap (Debian: apt-get install bubblewrap); see also namespaces";
  try {
    // Whether limits can be kept is a finding of its own.
    const terms = { limits: {}, node, agent };
    const { executor, tool } = await detectProcessExecutor({ dataDir: folder, scratch: folder, terms });
    await executor.close();
    return { name, works: "yes", found: `with ${tool}; commands have this machine's tools`, fix };
  } catch (error) {
    const found = error instanceof NoExecutorError ? triesOf(error) : messageOf(error);
    return { name, works: "no", found, fix };
  }
}

/** What was tried; the advice comes behind and is in the fix. */
function triesOf({ message }: NoExecutorError): string {
  return message
    .split("\n")
    .filter((line) => /^(bubblewrap|unshare): /.test(line))
    .join("; ");
}
