import { availableParallelism, hostname } from "node:os";
import { resolve } from "node:path";
import { Name } from "../../protocol/names.ts";
import {
  EXECUTORS,
  type ExecutorChoice,
  type ExecutorSettings,
  noDevices,
  noNetwork,
} from "../executors/executor.ts";
import { ConfigError, messageOf } from "../lib/fault.ts";
import { parseSize } from "../lib/sizes.ts";
import type { Limits } from "../limits/limits.ts";
import { type EgressTerms, parseDestination } from "../tasks/destination.ts";

/** Values of `--device`. A command can do much with them that it could not do without: file systems, machines in a machine. */
const EXTRA_DEVICES = ["fuse", "kvm"] as const;

export interface RunnerConfig extends ExecutorSettings {
  /** Origin of the gateway, e.g. `http://127.0.0.1:8787`. */
  readonly endpoint: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  /** The source of secrets: a folder of `<name>/<key>` files, or `kubernetes[:namespace]`. Absent: there are none. */
  readonly secrets?: string;
  /** The name of the secret that the runner's own key comes from: no pipeline gets it. Absent: it comes from none. */
  readonly keySecret?: string;
  /** What egress may do from here. Absent: push with credentials of secrets, to stores that are elsewhere. */
  readonly egress?: EgressTerms;
  /** Bytes of inputs that the node keeps for later datums. */
  readonly cacheBytes: number;
  /** Commands that run at once on the node. */
  readonly maxRunning: number;
  /** Workers of the node, those included that wait for work. */
  readonly maxWorkers: number;
}

/** The flags of the command line; absent: not given. */
export interface RunnerFlags extends Readonly<Partial<Record<Flag, string | undefined>>> {
  readonly hide?: readonly string[] | undefined;
  readonly device?: readonly string[] | undefined;
  readonly egressEnvironment?: readonly string[] | undefined;
  readonly egressLocal?: boolean | undefined;
  readonly waitForEngine?: boolean | undefined;
}
type Flag =
  | ("node" | "executor" | "network" | "data" | "secrets")
  | ("cacheSize" | "maxRunning" | "maxWorkers" | "memory" | "cpus" | "pids" | "disk");

/** The runner's settings from the command line and the environment. Throws ConfigError. */
export function readRunnerConfig(flags: RunnerFlags, env: NodeJS.ProcessEnv): RunnerConfig {
  return {
    endpoint: readEndpoint(env),
    ...readKey(env),
    node: readNode(flags.node, env),
    executor: readExecutor(flags.executor ?? "auto"),
    ...readWaiting(flags),
    ...readNetwork(flags),
    dataDir: resolve(flags.data ?? ".sluice/runner"),
    ...(flags.hide && { hidden: flags.hide.map(readHidden) }),
    ...readDevices(flags),
    ...readSecrets(flags.secrets ?? env.SLUICE_SECRETS),
    ...(env.SLUICE_KEY_SECRET && { keySecret: env.SLUICE_KEY_SECRET }),
    ...readEgress(flags, env),
    cacheBytes: readSize("--cache-size", flags.cacheSize ?? DEFAULT_CACHE_SIZE),
    maxRunning: readCount("--max-running", flags.maxRunning ?? DEFAULT_MAX_RUNNING),
    maxWorkers: readCount("--max-workers", flags.maxWorkers ?? DEFAULT_MAX_WORKERS),
    limits: readLimits(flags),
  };
}

const DEFAULT_MAX_WORKERS = "256";
/** Commands mostly wait, for bytes or for each other: more of them than cores keep the cores busy. */
const DEFAULT_MAX_RUNNING = String(Math.max(16, 4 * availableParallelism()));

function readCount(flag: string, value: string): number {
  const count = /^[0-9]{1,9}$/.test(value) ? Number(value) : Number.NaN;
  if (count >= 1) return count;
  throw new ConfigError(`${flag} is "${value}"; it must be a whole number above 0`);
}

const DEFAULT_CACHE_SIZE = "20g";

function readLimits({ memory, cpus, pids, disk }: RunnerFlags): Limits {
  return {
    ...(memory !== undefined && { memoryBytes: readSize("--memory", memory) }),
    ...(cpus !== undefined && { cpus: readCpus(cpus) }),
    ...(pids !== undefined && { pids: readCount("--pids", pids) }),
    ...(disk !== undefined && { outBytes: readSize("--disk", disk) }),
  };
}

function readSize(flag: string, value: string): number {
  const bytes = parseSize(value);
  if (bytes !== undefined) return bytes;
  throw new ConfigError(`${flag} is "${value}"; it must be a size above 0, such as 500m or 20g`);
}

/** The least that container engines take. */
const LEAST_CPUS = 0.01;

function readCpus(value: string): number {
  const cpus = /^[0-9]+(\.[0-9]+)?$/.test(value) ? Number(value) : Number.NaN;
  if (cpus >= LEAST_CPUS) return cpus;
  throw new ConfigError(`--cpus is "${value}"; it must be a number of cores, such as 0.5 or 2`);
}

function readWaiting({ waitForEngine, executor }: RunnerFlags): Pick<RunnerConfig, "withoutEngine"> {
  if (!waitForEngine) return {};
  if (executor !== "process") return { withoutEngine: "wait" };
  throw new ConfigError(
    "--wait-for-engine is given, but --executor process needs no container engine: leave one of them out",
  );
}

/** As engines let networks be called. What has a colon would be another container's. */
const NETWORK = /^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}$/;

function readNetwork({ network, executor }: RunnerFlags): Pick<RunnerConfig, "network"> {
  if (network === undefined) return {};
  if (!NETWORK.test(network)) {
    throw new ConfigError(
      `--network is "${network}"; it must be none, host, bridge or the name of a network of the engine`,
    );
  }
  if (executor === "process") throw new ConfigError(noNetwork(network));
  return { network };
}

function readHidden(path: string): string {
  if (path !== "" && resolve(path) !== "/") return resolve(path);
  throw new ConfigError(`--hide is "${path}"; it must be a folder or a file, and not the whole machine`);
}

function readDevices({ device, executor = "auto" }: RunnerFlags): Pick<RunnerConfig, "devices"> {
  if (device === undefined) return {};
  const devices = device.map((name) => {
    const known = EXTRA_DEVICES.find((each) => each === name);
    if (known) return known;
    throw new ConfigError(`--device is "${name}"; it must be one of: ${EXTRA_DEVICES.join(", ")}`);
  });
  if (executor === "docker" || executor === "podman") throw new ConfigError(noDevices(devices));
  return { devices };
}

/** The folder is not looked at yet: it may be mounted after the runner has started. */
function readSecrets(value: string | undefined): Pick<RunnerConfig, "secrets"> {
  if (!value) return {};
  if (value !== "kubernetes:") return { secrets: value };
  throw new ConfigError(
    '--secrets is "kubernetes:"; behind the colon must stand a namespace, or leave the colon out',
  );
}

/** An environment variable holds several URLs with commas between them. */
function readEgress(
  { egressEnvironment, egressLocal }: RunnerFlags,
  { SLUICE_EGRESS_ENVIRONMENT: urls = "", SLUICE_EGRESS_LOCAL: local = "" }: NodeJS.ProcessEnv,
): Pick<RunnerConfig, "egress"> {
  const given = egressEnvironment ?? urls.split(",").flatMap((url) => url.trim() || []);
  const isLocal = egressLocal ?? readSwitch("SLUICE_EGRESS_LOCAL", local);
  if (given.length === 0 && !isLocal) return {};
  return { egress: { environment: given.map(readPrefix), local: isLocal } };
}

function readPrefix(url: string): EgressTerms["environment"][number] {
  try {
    return parseDestination(url);
  } catch (error) {
    const why = messageOf(error).replace(/^egress\.URL /, "it ");
    throw new ConfigError(`--egress-environment (SLUICE_EGRESS_ENVIRONMENT) is "${url}"; ${why}`);
  }
}

function readSwitch(variable: string, value: string): boolean {
  if (value === "" || value === "0" || value === "false") return false;
  if (value === "1" || value === "true") return true;
  throw new ConfigError(`${variable} is "${value}"; it must be true or false`);
}

const DEFAULT_ENDPOINT = "http://127.0.0.1:8787";

/** The gateway's address: `SLUICE_ENDPOINT`, else the AWS name. */
function readEndpoint(env: NodeJS.ProcessEnv): string {
  const variable = env.SLUICE_ENDPOINT || !env.AWS_ENDPOINT_URL ? "SLUICE_ENDPOINT" : "AWS_ENDPOINT_URL";
  const value = env[variable] || DEFAULT_ENDPOINT;
  const url = URL.canParse(value) ? new URL(value) : undefined;
  if (url && /^https?:$/.test(url.protocol) && url.href === `${url.origin}/`) return url.origin;
  throw new ConfigError(
    `${variable} is "${value}"; it must be the gateway's address without a path, such as ${DEFAULT_ENDPOINT}`,
  );
}

/** Reads both halves from one family of names: an id of one family with a secret of the other is never what is meant. */
function readKey(env: NodeJS.ProcessEnv): Pick<RunnerConfig, "accessKeyId" | "secretAccessKey"> {
  const own = env.SLUICE_ACCESS_KEY_ID || env.SLUICE_SECRET_ACCESS_KEY;
  const family = own || !env.AWS_ACCESS_KEY_ID ? "SLUICE" : "AWS";
  return {
    accessKeyId: required(env, `${family}_ACCESS_KEY_ID`),
    secretAccessKey: required(env, `${family}_SECRET_ACCESS_KEY`),
  };
}

function required(env: NodeJS.ProcessEnv, variable: string): string {
  const value = env[variable];
  if (value) return value;
  throw new ConfigError(
    `${variable} is not set; it must hold a key of level runner, as \`sluice key create --level runner\` makes it`,
  );
}

/** The flag, else a name made of `SLUICE_NODE`, which may be a host's name with its dots, else of this host's name. */
function readNode(flag: string | undefined, env: NodeJS.ProcessEnv): string {
  const parsed = Name.safeParse(flag ?? nodeNameOf(env.SLUICE_NODE || hostname()));
  if (parsed.success) return parsed.data;
  throw new ConfigError(`--node is "${flag}"; it ${parsed.error.issues[0]?.message}`);
}

/** A node name made of a host name: characters that a name can't hold become `-`. */
export function nodeNameOf(host: string): string {
  const name = host
    .replace(/[^A-Za-z0-9_-]/g, "-")
    .replace(/^[_-]+/, "")
    .slice(0, 63);
  return name === "" ? "node" : name;
}

function readExecutor(choice: string): ExecutorChoice {
  const known = EXECUTORS.find((name) => name === choice);
  if (known) return known;
  throw new ConfigError(`--executor "${choice}" is not known; take one of: ${EXECUTORS.join(", ")}`);
}
