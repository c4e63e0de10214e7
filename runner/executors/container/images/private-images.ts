import { createHash, randomUUID } from "node:crypto";
import { mkdir, readdir, rm, rmdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { errorCode } from "../../../lib/fault.ts";
import { orNothing } from "../../../lib/system-calls.ts";
import type { Credentials } from "./pull-secrets.ts";
import type { ImageReference } from "./reference.ts";

/** A key to a registry; undefined: none, as anybody comes. */
export type Login = Credentials["login"] | undefined;

const PULLED = "pulled";

/**
 * The repositories from which agents of a data folder have pulled with somebody's key. An engine gives what it has to
 * everybody, so a pipeline that names an image of such a repository must first show that its own key, or none, opens
 * it. Images that people put on a node otherwise are for all its pipelines.
 *
 * The marks are in the data folder, and outlive the agent as the images do. What was shown is in memory alone: no key,
 * and nothing made of one, is written down.
 */
export class PrivateImages {
  readonly #folder: string;
  readonly #shown = new Set<string>();

  /** `dataDir`: the node's data folder. */
  constructor(dataDir: string) {
    this.#folder = join(dataDir, "private-images");
  }

  /** Whether anything was pulled from the image's repository with a key, or is being pulled so just now. */
  async has(image: ImageReference): Promise<boolean> {
    return ((await orNothing(readdir(this.#markOf(image)))) ?? []).length > 0;
  }

  /** Whether this key has opened the image's repository since the agent started. */
  isOpenTo(image: ImageReference, login: Login): boolean {
    return this.#shown.has(shownKey(image, login));
  }

  /** The key has opened the repository. */
  open(image: ImageReference, login: Login): void {
    this.#shown.add(shownKey(image, login));
  }

  /**
   * Does a pull, and marks the repository first if it is done with a key: after a crash in between, an image that needs
   * no key is asked about once too often, and none that needs one is given away. Each pull has a mark of its own while it
   * goes on, so that one that fails takes away no other's.
   */
  async pulling<T extends { readonly ok: boolean }>(
    image: ImageReference,
    { login, pull }: { login: Login; pull: () => Promise<T> },
  ): Promise<T> {
    const pulling = async () => {
      const answer = await pull();
      if (answer.ok) this.open(image, login);
      return answer;
    };
    if (login === undefined) return pulling();
    const mark = this.#markOf(image);
    const own = join(mark, randomUUID());
    await mkdir(mark, { recursive: true });
    await writeFile(own, repositoryOf(image));
    // If it throws, nobody knows whether the engine has the image by now: the mark stays.
    const answer = await pulling();
    if (answer.ok) await writeFile(join(mark, PULLED), repositoryOf(image));
    await rm(own);
    await rmdir(mark).catch(unlessTaken);
    return answer;
  }

  #markOf(image: ImageReference): string {
    return join(this.#folder, createHash("sha256").update(repositoryOf(image)).digest("hex"));
  }
}

/** A registry admits to repositories, not to single images. */
function repositoryOf({ registry, repository }: ImageReference): string {
  return `${registry}/${repository}`;
}

function shownKey(image: ImageReference, login: Login): string {
  return JSON.stringify([repositoryOf(image), login ?? null]);
}

/** Other marks are in it, or another pull has removed it. */
function unlessTaken(error: unknown): void {
  if (!["ENOTEMPTY", "EEXIST", "ENOENT"].includes(errorCode(error) ?? "")) throw error;
}
