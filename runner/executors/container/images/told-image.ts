import type { Engine } from "../engine/engine.ts";
import { parseImage } from "./reference.ts";

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
