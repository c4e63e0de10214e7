import { statSync } from "node:fs";
import { networkInterfaces } from "node:os";
import { holderFile, readHolder } from "../../../embedded/data/holder.ts";
import { readRootKey, rootKeyFile } from "../../../embedded/data/keys.ts";
import { CliError, EXIT, UsageError } from "../../output/failure.ts";
import { printNote } from "../../output/output.ts";
import { contextInUse, readContext } from "./contexts.ts";

/** Address of a gateway, and the key to sign with. */
export interface Connection {
  /** `http(s)://host:port`, no trailing slash. */
  readonly endpoint: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  /** What the address and the key were read from, for messages: a variable, a file, or that it is the default. */
  readonly endpointSource: string;
  readonly keySource: string;
}

/** A connection, and what else was set. */
export interface FoundConnection extends Connection {
  /** Sources that name another gateway or another key, a line each, for stderr. */
  readonly passedOver: readonly string[];
}

type Variables = Readonly<Record<string, string | undefined>>;

/** What a command was told of its gateway. */
export interface ConnectionOptions {
  /** The data folder of a gateway on this machine. */
  readonly data?: string | undefined;
  /** The name of a context. Not beside `data`. */
  readonly context?: string | undefined;
  /** The address alone: the key is that of the first source that has the same address. */
  readonly endpoint?: string | undefined;
}

const DEFAULT_ENDPOINT = "http://127.0.0.1:8787";
export const DEFAULT_DATA = ".sluice";

/** One place that may name a gateway: undefined if it names none. It throws if what it says can't be used. */
interface Source {
  readonly name: string;
  readonly read: () => Connection | undefined;
  /** The gateway that it names without a key for it. Asked only where `read` answered undefined. */
  readonly address?: () => string | undefined;
}

/**
 * The gateway to talk to. Address and key come from one source, the first that there is of: `--data` or `--context`; the
 * SLUICE_ variables; the folder `.sluice`, if it is the caller's own and its gateway is on this machine; the context in use;
 * the AWS_ variables, if they name an endpoint. So a key is never sent to a gateway that it was not kept for. Throws
 * UsageError and CliError.
 */
export function findConnection(options: ConnectionOptions, env: Variables): FoundConnection {
  const keyless = keylessGateway(options);
  if (keyless !== undefined) {
    const named = `the gateway of ${options.data}, which took its key from its environment`;
    return connectionAt(keyless, { sources: usualSources(env), named });
  }
  const told = toldSource(options, env);
  const sources = [...(told ? [told] : []), ...usualSources(env)];
  if (options.endpoint !== undefined) {
    return connectionAt(checkEndpoint("--endpoint", options.endpoint), { sources, named: "--endpoint" });
  }
  const alone = told ? undefined : addressAlone(env);
  if (alone !== undefined) {
    return connectionAt(alone, { sources, named: "SLUICE_ENDPOINT" });
  }
  const unusable: string[] = [];
  for (const [index, { read }] of sources.entries()) {
    const connection = trying(read, { unusable, isTold: told !== undefined && index === 0 });
    if (connection) return withPassedOver(connection, sources.slice(index + 1), unusable);
  }
  throw new CliError(
    `no gateway is named: start one here with 'sluice dev', name the folder of one with --data, set SLUICE_ENDPOINT, SLUICE_ACCESS_KEY_ID and SLUICE_SECRET_ACCESS_KEY, or keep it with 'sluice context add'${unusable.map((line) => ` (${line})`).join("")}`,
    { code: "NoKey" },
  );
}

/** The gateway that the options and the environment name. What else they name is told on stderr. */
export function openConnection(options: ConnectionOptions): Connection {
  const { passedOver, ...connection } = findConnection(options, process.env);
  for (const line of passedOver) printNote(line);
  return connection;
}

/** A source that is there and is not to be used by itself: why. */
class PassedOver extends Error {}

function trying(
  read: Source["read"],
  { unusable, isTold }: { unusable: string[]; isTold: boolean },
): Connection | undefined {
  try {
    return read();
  } catch (error) {
    if (isTold || !(error instanceof PassedOver)) throw error;
    unusable.push(error.message);
    return undefined;
  }
}

/** Where only the address is known, the key is that which is kept for it. */
function connectionAt(
  endpoint: string,
  { sources, named }: { sources: readonly Source[]; named: string },
): FoundConnection {
  for (const { read } of sources) {
    const connection = orNone(read);
    if (connection?.endpoint === endpoint) return { ...connection, endpointSource: named, passedOver: [] };
  }
  throw new CliError(
    `no key is known for ${endpoint} (from ${named}): set SLUICE_ENDPOINT=${endpoint}, SLUICE_ACCESS_KEY_ID and SLUICE_SECRET_ACCESS_KEY together, or keep address and key with 'sluice context add'. A key that is kept for another address is not sent there`,
    { code: "NoKey" },
  );
}

function withPassedOver(
  connection: Connection,
  others: readonly Source[],
  unusable: readonly string[],
): FoundConnection {
  const [elsewhere, otherKeys] = [new Map<string, string[]>(), [] as string[]];
  for (const { name, read, address } of others) {
    const other = orNone(() => read() ?? keyless(address?.()));
    if (!other?.endpoint) continue;
    if (other.endpoint !== connection.endpoint) {
      elsewhere.set(other.endpoint, [...(elsewhere.get(other.endpoint) ?? []), name]);
    } else if (other.accessKeyId !== undefined && other.accessKeyId !== connection.accessKeyId) {
      otherKeys.push(name);
    }
  }
  // What `sluice env` prints is in two of them: one line for each gateway is enough.
  const differing = [
    ...[...elsewhere].map(([endpoint, names]) => `${all(names)} ${verb(names, "names")} ${endpoint}`),
    ...(otherKeys.length > 0 ? [`${all(otherKeys)} ${verb(otherKeys, "has")} another key for it`] : []),
  ];
  const lines = [...unusable, ...differing];
  const chosen = `using ${connection.endpoint}, from ${connection.endpointSource}`;
  return { ...connection, passedOver: lines.map((line) => `${chosen}; ${line}, which is passed over`) };
}

function all(names: readonly string[]): string {
  return new Intl.ListFormat("en").format(names);
}

function verb({ length }: readonly string[], singular: "names" | "has"): string {
  return length === 1 ? singular : { names: "name", has: "have" }[singular];
}

function keyless(endpoint: string | undefined): Partial<Connection> | undefined {
  return endpoint === undefined ? undefined : { endpoint };
}

/** What is not to be used need not be in order. */
function orNone<T>(read: () => T | undefined): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

function toldSource({ data, context }: ConnectionOptions, env: Variables): Source | undefined {
  if (data !== undefined) return { name: data, read: () => fromFolder(data) };
  if (context !== undefined) {
    return { name: `the context ${context}`, read: () => fromContext(context, env) };
  }
  return undefined;
}

function usualSources(env: Variables): Source[] {
  return [
    { name: "SLUICE_ENDPOINT", read: () => fromVariables(env) },
    {
      name: `the gateway of ${DEFAULT_DATA}`,
      read: fromFolderHere,
      address: () => keylessGateway({ data: DEFAULT_DATA }),
    },
    {
      name: "the context in use",
      read: () => {
        const name = contextInUse(env);
        return name === undefined ? undefined : fromContext(name, env);
      },
    },
    { name: "AWS_ENDPOINT_URL", read: () => fromAwsVariables(env) },
  ];
}

/** SLUICE_ENDPOINT if no key stands beside it. */
function addressAlone(env: Variables): string | undefined {
  const { SLUICE_ENDPOINT, SLUICE_ACCESS_KEY_ID, SLUICE_SECRET_ACCESS_KEY } = env;
  if (!SLUICE_ENDPOINT || SLUICE_ACCESS_KEY_ID || SLUICE_SECRET_ACCESS_KEY) return undefined;
  return checkEndpoint("SLUICE_ENDPOINT", SLUICE_ENDPOINT);
}

function fromVariables(env: Variables): Connection | undefined {
  const key = keyFromVariables("SLUICE", env);
  if (!key) return undefined;
  const { SLUICE_ENDPOINT: endpoint } = env;
  if (!endpoint) return { ...key, endpoint: DEFAULT_ENDPOINT, endpointSource: "the default" };
  return {
    ...key,
    endpoint: checkEndpoint("SLUICE_ENDPOINT", endpoint),
    endpointSource: "SLUICE_ENDPOINT",
  };
}

/** Keys of AWS alone are for AWS: they are sent nowhere else. */
function fromAwsVariables(env: Variables): Connection | undefined {
  const variable = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"].find((name) => env[name]);
  const endpoint = variable && env[variable];
  if (!endpoint) return undefined;
  const key = keyFromVariables("AWS", env);
  return key && { ...key, endpoint: checkEndpoint(variable, endpoint), endpointSource: variable };
}

function fromContext(name: string, env: Variables): Connection {
  const { file, ...context } = readContext(name, env);
  return { ...context, endpointSource: `the context ${name}`, keySource: file };
}

/** The address of a gateway that runs on the folder that was named, if that has no key since it came from the environment. */
function keylessGateway({ data }: ConnectionOptions): string | undefined {
  if (data === undefined || readRootKey(data)) return undefined;
  return readHolder(data)?.endpoint ?? undefined;
}

function fromFolder(dataDir: string): Connection {
  const holder = readHolder(dataDir);
  const key = readRootKey(dataDir);
  if (!key) {
    throw new CliError(
      `no key: ${dataDir} holds none. Name the folder of a gateway that was started with 'sluice dev', or set SLUICE_ENDPOINT, SLUICE_ACCESS_KEY_ID and SLUICE_SECRET_ACCESS_KEY`,
      { code: "NoKey" },
    );
  }
  const source = `the gateway of ${dataDir}`;
  if (holder?.endpoint === undefined || holder.endpoint === null) {
    const state = holder
      ? `${source} is starting: try again`
      : `no gateway runs on ${dataDir}: start it with`;
    const start = holder ? "" : ` 'sluice dev${dataDir === DEFAULT_DATA ? "" : ` --data ${dataDir}`}'`;
    throw new CliError(`${state}${start}`, { code: "NoGateway", exitCode: EXIT.unreachable });
  }
  const { endpoint } = holder;
  return { ...key, endpoint, endpointSource: source, keySource: rootKeyFile(dataDir) };
}

/**
 * The folder that nobody named. It comes with the place that one works in, and so it may be somebody else's: of another user
 * of this machine, or of whoever made the repository that was cloned. What one types would go to their gateway.
 */
function fromFolderHere(): Connection | undefined {
  if (!isOwn(rootKeyFile(DEFAULT_DATA)) || !isOwn(holderFile(DEFAULT_DATA))) {
    throw new PassedOver(`the folder ${DEFAULT_DATA} has files of another user`);
  }
  const endpoint = readHolder(DEFAULT_DATA)?.endpoint;
  if (endpoint && !isHere(new URL(endpoint).hostname)) {
    throw new PassedOver(`the folder ${DEFAULT_DATA} names ${endpoint}, which is not this machine`);
  }
  // Its gateway took the key from its environment, and so whoever calls has that or another one in theirs.
  if (!readRootKey(DEFAULT_DATA)) return undefined;
  return fromFolder(DEFAULT_DATA);
}

/** Nobody else can make a file of this user, whoever has the folder. A file that is not there is nobody's. */
function isOwn(file: string): boolean {
  const owner = statSync(file, { throwIfNoEntry: false })?.uid;
  return owner === undefined || owner === process.getuid?.();
}

/** Whether a host is this machine. Names other than localhost are not looked up: who answers may change. */
function isHere(hostname: string): boolean {
  if (/^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname)) return true;
  const own = Object.values(networkInterfaces()).flatMap((addresses = []) =>
    addresses.map(({ address }) => address),
  );
  return own.includes(hostname.replace(/^\[(.*)\]$/, "$1"));
}

/** The origin of an address. `name`: what it was read from. Throws UsageError. */
export function checkEndpoint(name: string, value: string): string {
  const url = URL.canParse(value) ? new URL(value) : undefined;
  const bare = url && url.pathname === "/" && url.search === "" && url.username === "";
  if (!url || !bare || !["http:", "https:"].includes(url.protocol)) {
    throw new UsageError(`${name} is '${value}': it must be http(s)://host[:port] and no more`);
  }
  return url.origin;
}

type Key = Pick<Connection, "accessKeyId" | "secretAccessKey" | "keySource">;

function keyFromVariables(family: string, env: Variables): Key | undefined {
  const [idName, secretName] = [`${family}_ACCESS_KEY_ID`, `${family}_SECRET_ACCESS_KEY`];
  const accessKeyId = env[idName];
  const secretAccessKey = env[secretName];
  if (accessKeyId && secretAccessKey) return { accessKeyId, secretAccessKey, keySource: idName };
  if (!accessKeyId && !secretAccessKey) return undefined;
  const missing = accessKeyId ? secretName : idName;
  throw new UsageError(`${missing} is not set though its partner is: set both or neither`);
}

/**
 * The variables by which tools find a gateway and its key: all of them, so that none is left over from another key. A tool
 * that reads the names of AWS would go on with the one that was there before.
 */
export function clientVariables({
  endpoint,
  accessKeyId,
  secretAccessKey,
}: Pick<Connection, "endpoint" | "accessKeyId" | "secretAccessKey">): Record<string, string> {
  return {
    SLUICE_ENDPOINT: endpoint,
    SLUICE_ACCESS_KEY_ID: accessKeyId,
    SLUICE_SECRET_ACCESS_KEY: secretAccessKey,
    AWS_ENDPOINT_URL: endpoint,
    AWS_ACCESS_KEY_ID: accessKeyId,
    AWS_SECRET_ACCESS_KEY: secretAccessKey,
    // Any region will do, but the tools want one.
    AWS_DEFAULT_REGION: "us-east-1",
    AWS_REGION: "us-east-1",
    RCLONE_CONFIG_SLUICE_TYPE: "s3",
    RCLONE_CONFIG_SLUICE_PROVIDER: "Other",
    RCLONE_CONFIG_SLUICE_ENDPOINT: endpoint,
    RCLONE_CONFIG_SLUICE_ACCESS_KEY_ID: accessKeyId,
    RCLONE_CONFIG_SLUICE_SECRET_ACCESS_KEY: secretAccessKey,
  };
}

/** What a POSIX shell takes to set them, a line each. */
export function exportLines(variables: Readonly<Record<string, string>>): string[] {
  // A token of another key, which the tools would send along with this one.
  return [
    ...Object.entries(variables).map(([name, value]) => `export ${name}=${quoted(value)}`),
    "unset AWS_SESSION_TOKEN",
  ];
}

function quoted(value: string): string {
  return /^[A-Za-z0-9_./:@%+=-]+$/.test(value) ? value : `'${value.replaceAll("'", `'\\''`)}'`;
}
