import { readHolder } from "../../embedded/data/holder.ts";
import { readRootKey } from "../../embedded/data/keys.ts";
import { CliError, UsageError } from "../output/failure.ts";

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

const DEFAULT_ENDPOINT = "http://127.0.0.1:8787";
export const DEFAULT_DATA = ".sluice";

type Variables = Readonly<Record<string, string | undefined>>;

/**
 * The gateway to talk to. Address and key are read, each by itself, from the SLUICE_ variables, else from the AWS_ ones,
 * else from the data folder of a gateway on this machine. Throws UsageError and CliError.
 */
export function findConnection({ dataDir, env }: { dataDir: string; env: Variables }): Connection {
  return { ...findEndpoint({ dataDir, env }), ...findKey({ dataDir, env }) };
}

type Found = Pick<Connection, "endpoint" | "endpointSource">;

function findEndpoint({ dataDir, env }: { dataDir: string; env: Variables }): Found {
  for (const variable of ["SLUICE_ENDPOINT", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]) {
    const value = env[variable];
    if (value) return { endpoint: checkEndpoint(variable, value), endpointSource: variable };
  }
  const endpoint = readHolder(dataDir)?.endpoint;
  if (endpoint) return { endpoint, endpointSource: `the gateway of ${dataDir}` };
  return { endpoint: DEFAULT_ENDPOINT, endpointSource: "the default" };
}

function checkEndpoint(variable: string, value: string): string {
  const url = URL.canParse(value) ? new URL(value) : undefined;
  const bare = url && url.pathname === "/" && url.search === "" && url.username === "";
  if (!url || !bare || !["http:", "https:"].includes(url.protocol)) {
    throw new UsageError(`${variable} is '${value}': it must be http(s)://host[:port] and no more`);
  }
  return url.origin;
}

function findKey({ dataDir, env }: { dataDir: string; env: Variables }): Omit<Connection, keyof Found> {
  for (const family of ["SLUICE", "AWS"]) {
    const found = keyFromVariables(family, env);
    if (found) return found;
  }
  const kept = readRootKey(dataDir);
  if (kept) return { ...kept, keySource: `${dataDir}/root-key.json` };
  throw new CliError(
    `no key: set SLUICE_ACCESS_KEY_ID and SLUICE_SECRET_ACCESS_KEY, or name with --data the folder of a gateway that was started with 'sluice dev' (${dataDir} holds none)`,
    { code: "NoKey" },
  );
}

function keyFromVariables(family: string, env: Variables): Omit<Connection, keyof Found> | undefined {
  const [idName, secretName] = [`${family}_ACCESS_KEY_ID`, `${family}_SECRET_ACCESS_KEY`];
  const accessKeyId = env[idName];
  const secretAccessKey = env[secretName];
  if (accessKeyId && secretAccessKey) return { accessKeyId, secretAccessKey, keySource: idName };
  if (!accessKeyId && !secretAccessKey) return undefined;
  const missing = accessKeyId ? secretName : idName;
  throw new UsageError(`${missing} is not set though its partner is: set both or neither`);
}
