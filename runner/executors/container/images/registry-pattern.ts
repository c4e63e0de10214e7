/** The name under which Docker keeps the keys to its Hub, whose images are at `docker.io`. */
const HUB_KEY = "index.docker.io";
const HUB = "docker.io";

/** The place of an image, or what a key is for: a host, its port and a path. */
interface Place {
  readonly host: readonly string[];
  readonly port: string;
  readonly path: string;
}

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

function placeOf(address: string): Place {
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
