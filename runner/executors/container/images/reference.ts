/** An image as a spec names it, understood. */
export interface ImageReference {
  /** Host, and port if one is given, of the registry that has it. */
  readonly registry: string;
  /** Its name there, such as `library/busybox`. */
  readonly repository: string;
  /** Its name as given, with the default tag if none is given. Engines look for images of this machine by it. */
  readonly short: string;
  /** The name with its registry: what is pulled. */
  readonly full: string;
}

/** An id of an image that the engine has. No registry knows ids, so it can't be pulled. */
interface ImageId {
  readonly id: string;
}

export type ParsedImage =
  | { readonly ok: true; readonly image: ImageReference | ImageId }
  | { readonly ok: false; readonly reason: string };

const DEFAULT_REGISTRY = "docker.io";
const DEFAULT_TAG = "latest";

/** The grammar is that of github.com/distribution/reference, which both engines take. */
const ID = /^(?:sha256:)?([0-9a-f]{64})$/;
const HOST_PART = "(?:[a-zA-Z0-9]|[a-zA-Z0-9][-a-zA-Z0-9]*[a-zA-Z0-9])";
const REGISTRY = new RegExp(`^(?:${HOST_PART}(?:\\.${HOST_PART})*|\\[[0-9a-fA-F:]+\\])(?::[0-9]+)?$`);
const REPOSITORY_PART = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*";
const REPOSITORY = new RegExp(`^${REPOSITORY_PART}(?:/${REPOSITORY_PART})*$`);
const TAG = /^[a-zA-Z0-9_][-.a-zA-Z0-9_]{0,127}$/;
const DIGEST = /^[a-zA-Z][a-zA-Z0-9]*(?:[-+._][a-zA-Z][a-zA-Z0-9]*)*:[0-9a-fA-F]{32,}$/;
const MAX_NAME = 255;

/** Understands `[registry/]name[:tag][@digest]`, or an id. `reason` says what is wrong, without the image's name. */
export function parseImage(text: string): ParsedImage {
  const [, id] = ID.exec(text) ?? [];
  if (id !== undefined) return { ok: true, image: { id: `sha256:${id}` } };

  const [named = "", digest, ...more] = text.split("@");
  const { name, tag } = splitTag(named);
  const { given, registry, repository } = splitRegistry(name);
  const reason =
    nameProblem({ registry, repository }) ??
    (tag !== undefined && !TAG.test(tag) ? `"${tag}" is no tag` : undefined) ??
    (more.length > 0 || (digest !== undefined && !DIGEST.test(digest))
      ? "behind the @ must stand a digest, such as sha256: and 64 hexadecimal digits"
      : undefined);
  if (reason !== undefined) return { ok: false, reason };

  // Podman refuses a name with both; the digest alone says which image it is.
  const version = digest === undefined ? `:${tag ?? DEFAULT_TAG}` : `@${digest}`;
  const short = `${given}${repository.given}${version}`;
  return {
    ok: true,
    image: { registry, repository: repository.full, short, full: `${registry}/${repository.full}${version}` },
  };
}

/** A colon behind the last slash begins the tag; any other belongs to a port. */
function splitTag(named: string): { name: string; tag: string | undefined } {
  const colon = named.indexOf(":", named.lastIndexOf("/") + 1);
  if (colon === -1) return { name: named, tag: undefined };
  return { name: named.slice(0, colon), tag: named.slice(colon + 1) };
}

interface Repository {
  readonly given: string;
  readonly full: string;
}

/** The part before the first slash is a registry only if it looks like a host. Else all of it is a name at Docker Hub. */
function splitRegistry(name: string): { given: string; registry: string; repository: Repository } {
  const slash = name.indexOf("/");
  const host = slash === -1 ? "" : name.slice(0, slash);
  const isHost = /[.:]/.test(host) || host === "localhost" || host !== host.toLowerCase();
  const rest = isHost ? name.slice(slash + 1) : name;
  const registry = !isHost || host === `index.${DEFAULT_REGISTRY}` ? DEFAULT_REGISTRY : host;
  const full = registry === DEFAULT_REGISTRY && !rest.includes("/") ? `library/${rest}` : rest;
  return { given: isHost ? `${host}/` : "", registry, repository: { given: rest, full } };
}

function nameProblem({
  registry,
  repository: { given, full },
}: {
  registry: string;
  repository: Repository;
}): string | undefined {
  if (given === "") return "it has no name";
  if (!REGISTRY.test(registry)) return `"${registry}" is no registry's address`;
  if (given !== given.toLowerCase()) return "its name must be in lower case";
  if (!REPOSITORY.test(full)) {
    return "its name must be made of letters, digits, '.', '_' and '-', in parts with '/' between";
  }
  return full.length > MAX_NAME ? `its name is longer than ${MAX_NAME} characters` : undefined;
}
