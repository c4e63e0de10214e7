import { readFileSync } from "node:fs";
import { join } from "node:path";
import { eventually } from "./eventually.ts";
import { type Door, doorVariables, ROOT_KEY } from "./keys.ts";
import { freePort } from "./ports.ts";
import { type Ended, run, type Started, start } from "./processes.ts";
import { removeScratch, scratchFolder } from "./scratch.ts";

/** The root of the repository. */
export const ROOT = join(import.meta.dirname, "../..");

/** A server that a test started. */
export interface Server extends Door {
  /** Ends it and removes its data. */
  stop(): Promise<void>;
}

/** The embedded gateway, started as a user would. */
export interface DevServer extends Server {
  /** The folder with all that lasts. */
  readonly data: string;
  /** As of any server. `mayHaveDied`: the runtime may have ended by itself; else that is an error. */
  stop(options?: { readonly mayHaveDied?: boolean }): Promise<void>;
  /** SIGKILL to the whole gateway: the host and the runtime under it. Its data stays. */
  kill9(): Promise<void>;
  /** SIGKILL to the runtime alone; answers when the host has started another one, which is ready. */
  killRuntime(): Promise<void>;
  /** Starts it again, over the same data, on the same port; with other variables, if they are given. */
  restart(changed?: { readonly variables: Readonly<Record<string, string>> }): Promise<void>;
  /** What it has printed since it was started last. */
  output(): string;
}

/** Starts `sluice dev --runners 0` on a free port with data of its own; answers when it is ready. `variables`: of the gateway, beside its key. `host`: what it listens on, such as 0.0.0.0. */
export async function startDevServer({
  variables = {},
  host = "127.0.0.1",
  data = scratchFolder(),
  bodyLimit,
  through = [],
}: {
  readonly variables?: Readonly<Record<string, string>>;
  readonly host?: string;
  /** Where all that lasts lies; it is removed in the end. */
  readonly data?: string;
  /** Larger bodies are refused in front of the gateway. */
  readonly bodyLimit?: number;
  /** A program, with its arguments, that becomes the gateway. */
  readonly through?: readonly string[];
} = {}): Promise<DevServer> {
  const port = await freePort();
  const endpoint = `http://127.0.0.1:${port}`;
  const door: Door = { endpoint, ...ROOT_KEY };
  const limit = bodyLimit === undefined ? [] : ["--body-limit", String(bodyLimit)];
  const command = ["dev", "--runners", "0", "--host", host, "--port", String(port), "--data", data, ...limit];
  // The host starts a runtime that died anew; a test must not pass over a crash because of that.
  const runtime = (): string => readFileSync(join(data, "workerd.pid"), "utf8");
  let started = await startSluice(command, { door, variables, through });
  let startedRuntime = runtime();
  return {
    ...door,
    data,
    kill9: () => started.kill9(),
    async killRuntime() {
      const killed = runtime();
      process.kill(Number(killed), "SIGKILL");
      await eventually("the host has started another runtime", () => !["", killed].includes(runtime()));
      await healthy(endpoint, started);
      startedRuntime = runtime();
    },
    output: () => started.output(),
    async restart(changed = { variables }) {
      started = await startSluice(command, { door, variables: changed.variables, through });
      startedRuntime = runtime();
    },
    async stop({ mayHaveDied = false }: { readonly mayHaveDied?: boolean } = {}) {
      const crashed = !mayHaveDied && runtime() !== startedRuntime;
      await started.stop();
      removeScratch(data);
      if (crashed)
        throw new Error(`the runtime died under the gateway; it had printed:\n${started.output()}`);
    },
  };
}

async function startSluice(
  command: readonly string[],
  {
    door,
    variables,
    through,
  }: { door: Door; variables: Readonly<Record<string, string>>; through: readonly string[] },
): Promise<Started> {
  const env = { ...sluiceEnv(door), ...variables };
  const started = start([...through, ...sluiceCommand(command)], { cwd: ROOT, env });
  await healthy(door.endpoint, started);
  tellUnexpectedEnd(started);
  return started;
}

// A test that meets a dead gateway says little; what the gateway said before it died says more.
function tellUnexpectedEnd(server: Started): void {
  void server.ended.then(({ code, signal }) => {
    if (!server.wasTold())
      console.error(`the gateway ended by itself (${code ?? signal}):\n${server.output()}`);
  });
}

/** Waits until `GET /healthz` is 200; fails with its output where the server ends before. */
export async function healthy(endpoint: string, server: Started): Promise<void> {
  let gone = false;
  void server.ended.then(() => {
    gone = true;
  });
  const ready = await eventually(`${endpoint}/healthz is 200`, async () => {
    if (gone) return "gone";
    return (await fetch(`${endpoint}/healthz`)).status === 200 && "ready";
  });
  if (ready === "gone") throw new Error(`the server ended at once:\n${server.output()}`);
}

/** Starts `sluice runner`; its data folder goes when it is stopped. `variables`: of the runner, beside its key. */
export function startRunner(
  door: Door,
  {
    node,
    executor = "process",
    variables = {},
    options = [],
  }: {
    readonly node: string;
    readonly options?: readonly string[];
    readonly executor?: "process" | "docker" | "podman";
    readonly variables?: Readonly<Record<string, string>>;
  },
): Started {
  const data = scratchFolder();
  const command = ["runner", "--node", node, "--executor", executor, "--data", data, ...options];
  const started = start(sluiceCommand(command), { cwd: ROOT, env: { ...sluiceEnv(door), ...variables } });
  void started.ended.then(() => removeScratch(data));
  return started;
}

/** Runs one `sluice` command to its end. */
export function sluice(door: Door, ...args: string[]): Promise<Ended> {
  return run(sluiceCommand(args), { cwd: ROOT, env: sluiceEnv(door) });
}

/** Runs a `sluice` command that must end with 0 and say nothing on stderr; answers what it printed. */
export async function sluiceOk(door: Door, ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await sluice(door, ...args);
  if (code !== 0 || stderr !== "") throw new Error(`sluice ${args.join(" ")} ended with ${code}: ${stderr}`);
  return stdout.toString();
}

/** The command line of a `sluice` command. */
export function sluiceCommand(args: readonly string[]): string[] {
  return [process.execPath, join(ROOT, "bin/sluice.js"), ...args];
}

/** Where Node keeps what it made of the sources: with it a command starts in half the time. */
const NODE_COMPILE_CACHE = join(ROOT, "node_modules/.cache/compiled");

/** The environment of a `sluice` command: no settings but the door. */
export function sluiceEnv(door: Door): Record<string, string> {
  return { HOME: scratchHome, NODE_COMPILE_CACHE, ...doorVariables(door) };
}

/** A home folder with no settings in it. */
export const scratchHome = scratchFolder();
