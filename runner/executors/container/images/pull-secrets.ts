import { z } from "zod";
import type { NamedSecret } from "../../executor.ts";
import type { ImageReference } from "./reference.ts";

/** A key to a registry, in the fields of the engines' API, which refuses the `auth` that secrets have. */
export interface Credentials {
  /** The name of the secret that it comes from. */
  readonly secret: string;
  readonly login: {
    readonly username?: string;
    readonly password?: string;
    readonly identitytoken?: string;
    readonly registrytoken?: string;
    readonly serveraddress: string;
  };
}

export interface FoundCredentials {
  /** Those that fit the image, in the order in which they should be tried. */
  readonly credentials: readonly Credentials[];
  /** What is wrong with secrets, by their names and never with what is in them. */
  readonly problems: readonly string[];
}

/** The keys for an image in pull secrets: those of the first secret first, and of one secret those for the longest address first. */
export function credentialsFor(image: ImageReference, secrets: readonly NamedSecret[]): FoundCredentials {
  const credentials = new Map<string, Credentials>();
  const problems: string[] = [];
  for (const { name, secret } of secrets) {
    const read = readPullSecret(secret);
    if (!read.ok) {
      problems.push(`secret "${name}" ${read.reason}`);
      continue;
    }
    for (const { login } of read.entries.filter(({ address }) => opensRegistry(address, image))) {
      const key = JSON.stringify(login);
      if (!credentials.has(key)) {
        credentials.set(key, { secret: name, login: { ...login, serveraddress: image.registry } });
      }
    }
  }
  return { credentials: [...credentials.values()], problems };
}

type Login = Omit<Credentials["login"], "serveraddress">;

interface Entry {
  readonly address: string;
  readonly login: Login;
}

type Read =
  | { readonly ok: true; readonly entries: readonly Entry[] }
  | { readonly ok: false; readonly reason: string };

const KEY = ".dockerconfigjson";
const LEGACY_KEY = ".dockercfg";
const ADVICE = `make one with "kubectl create secret docker-registry"`;

const Login = z.object({
  auth: z.string().optional(),
  username: z.string().optional(),
  password: z.string().optional(),
  identitytoken: z.string().optional(),
  registrytoken: z.string().optional(),
});
const Logins = z.record(z.string(), Login);
const DockerConfig = z.object({
  auths: Logins,
  credsStore: z.string().optional(),
  credHelpers: z.unknown().optional(),
});

function readPullSecret(secret: NamedSecret["secret"]): Read {
  const [key, bytes] = [KEY, LEGACY_KEY]
    .map((name) => [name, secret.get(name)] as const)
    .find(([, value]) => value !== undefined) ?? [KEY, undefined];
  if (bytes === undefined) return { ok: false, reason: `has no key "${KEY}"; ${ADVICE}` };
  const value = parseJson(bytes);
  if (value === undefined) return { ok: false, reason: `holds no JSON in "${key}"; ${ADVICE}` };
  const parsed = DockerConfig.safeParse(key === KEY ? value : { auths: value });
  if (!parsed.success)
    return { ok: false, reason: `must hold {"auths": {<registry>: {…}}} in "${KEY}"; ${ADVICE}` };
  return readLogins(parsed.data, key);
}

// The parser's own message shows what it stumbled over.
function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    return undefined;
  }
}

function readLogins({ auths, credsStore, credHelpers }: z.infer<typeof DockerConfig>, key: string): Read {
  const entries: Entry[] = [];
  for (const [address, given] of Object.entries(auths)) {
    const login = readLogin(given);
    if (login === "malformed") {
      return { ok: false, reason: `has an "auth" in "${key}" that is not the base64 of user:password` };
    }
    if (login !== undefined) entries.push({ address, login });
  }
  if (entries.length === 0 && (credsStore !== undefined || credHelpers !== undefined)) {
    return {
      ok: false,
      reason: `holds no credentials: they are in the credential store of the machine that "${key}" comes from; ${ADVICE}`,
    };
  }
  if (entries.length === 0) return { ok: false, reason: `holds no credentials in "${key}"; ${ADVICE}` };
  return { ok: true, entries: entries.sort((a, b) => b.address.length - a.address.length) };
}

/** `auth` goes before the other two, as in Kubernetes. Undefined: there is nothing in it. */
function readLogin({
  auth,
  username,
  password,
  ...tokens
}: z.infer<typeof Login>): Login | "malformed" | undefined {
  const named = auth ? readAuth(auth) : { username, password };
  if (named === undefined) return "malformed";
  const fields = Object.entries({ ...named, ...tokens }).filter(([, value]) => value);
  return fields.length === 0 ? undefined : Object.fromEntries(fields);
}

const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;

function readAuth(auth: string): Pick<Login, "username" | "password"> | undefined {
  if (!BASE64.test(auth.trim())) return undefined;
  const text = Buffer.from(auth, "base64").toString();
  const colon = text.indexOf(":");
  if (colon === -1) return undefined;
  // Docker pads passwords with null bytes.
  return { username: text.slice(0, colon), password: text.slice(colon + 1).replace(/^\0+|\0+$/g, "") };
}

/** The name under which Docker keeps the keys to its Hub, whose images are at `docker.io`. */
const HUB_KEY = "index.docker.io";
const HUB = "docker.io";

/**
 * Whether a key that a secret keeps under `pattern` is for this image. The rules are Kubernetes': with or without
 * scheme, `/v1/` and `/v2/` count for nothing, `*`, `?` and `[…]` stand for characters within one part of the host, the port
 * must be the same, and the path is a beginning of the image's.
 */
export function opensRegistry(
  pattern: string,
  { registry, repository }: { registry: string; repository: string },
): boolean {
  const { host, port, path } = placeOf(pattern);
  if (registry === HUB && host.join(".") === HUB_KEY) return true;
  const wanted = placeOf(`${registry}/${repository}`);
  return (
    port === wanted.port &&
    host.length === wanted.host.length &&
    host.every((part, index) => matchesPart(part, wanted.host[index] ?? "")) &&
    wanted.path.startsWith(path)
  );
}

/** The place of an image, or what a key is for: a host by its parts, its port and a path. */
function placeOf(address: string) {
  const [, authority = "", rest = ""] = /^(?:https?:\/\/)?([^/]*)(.*)$/s.exec(address) ?? [];
  const [, name = "", port = ""] = /^(.*?)(?::([0-9]*))?$/s.exec(authority) ?? [];
  const path = rest.replace(/^\/v[12]\//, "/");
  return { host: name.toLowerCase().split("."), port, path: path === "/" ? "" : path };
}

/** Matches like Go's path.Match, without its escapes, which no host needs. */
function matchesPart(pattern: string, part: string): boolean {
  const source = pattern.replace(/\[\^?[^\]]+\]|[\s\S]/g, (token) => {
    if (token === "*") return ".*";
    if (token === "?") return ".";
    if (token.length > 1) return token.replace(/\\/g, "\\\\");
    return token.replace(/[\\^$.|+(){}[\]]/g, "\\$&");
  });
  try {
    return new RegExp(`^${source}$`, "u").test(part);
  } catch {
    // A class that makes no sense matches nothing.
    return false;
  }
}
