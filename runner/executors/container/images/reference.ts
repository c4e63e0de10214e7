import type { Engine } from "../engine/engine.ts";

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

/** An image that is named by its id is one that the engine has: no registry knows ids, so it can't be pulled. */
export type ParsedImage =
  | { readonly ok: true; readonly image: ImageReference | { readonly id: string } }
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

/** Most images whose names are remembered. */
const MAX_KNOWN = 1000;

/**
 * The names by which lineage tells of images: a tag may be another image tomorrow. If the registry that the
 * specification names has the image, that is its digest there, by which anybody can pull it. Else it is the id, which
 * only this node's engine knows. Each is asked for once.
 */
export class ToldImages {
  readonly #engine: Pick<Engine, "docker">;
  readonly #known = new Map<string, string>();

  constructor(engine: Pick<Engine, "docker">) {
    this.#engine = engine;
  }

  /** `image`: as the specification has it. `id`: what the engine took for it. */
  async nameOf({ image, id }: { image: string; id: string }): Promise<string> {
    const asked = `${image} ${id}`;
    const known = this.#known.get(asked);
    if (known !== undefined) return known;
    // That the engine does not answer is no reason for a command not to run.
    const digests = await this.#engine.docker
      .getImage(id)
      .inspect()
      .then(
        ({ RepoDigests }) => RepoDigests ?? [],
        () => undefined,
      );
    if (digests === undefined) return id;
    const name = digestIn(digests, image) ?? id;
    if (this.#known.size >= MAX_KNOWN) this.#known.clear();
    this.#known.set(asked, name);
    return name;
  }
}

/** The digest, with registry and repository, that an image has where the specification says it is. */
export function digestIn(digests: readonly string[], image: string): string | undefined {
  const wanted = parseImage(image);
  if (!wanted.ok || "id" in wanted.image) return undefined;
  const { registry, repository } = wanted.image;
  const there = digests.flatMap((digest) => {
    const parsed = parseImage(digest);
    if (!parsed.ok || "id" in parsed.image || !parsed.image.full.includes("@")) return [];
    const isThere = parsed.image.registry === registry && parsed.image.repository === repository;
    return isThere ? [parsed.image.full] : [];
  });
  // Podman may know several, in no order: the same one each time.
  return there.sort()[0];
}
