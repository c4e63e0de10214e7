import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseErasedPlace } from "../../protocol/runner.ts";
import { orNothing } from "../lib/system-calls.ts";

export interface ErasedPlaceOptions {
  /** The folder of the cache. */
  readonly dir: string;
  /** The name of this agent. */
  readonly agent: string;
  /** Whether an agent that shares the cache still runs. */
  readonly isAlive: (agent: string) => Promise<boolean>;
}

interface OpenedPlace {
  readonly file: ErasedPlaceFile;
  readonly place: string | null;
}

/** Ends the name of a file that is being written. */
const UNFINISHED = ".new";

/**
 * The place in the gateway's list of erased contents up to which this agent has taken them out of the cache:
 * `<cache>/erased/<agent>`. Each agent has one of its own, since it answers for what it puts there: an agent may put there
 * what another one has just taken out. Whoever starts takes over the earliest of all that are there, for those that are dead.
 */
export class ErasedPlaceFile {
  readonly #folder: string;
  readonly #path: string;

  private constructor(folder: string, agent: string) {
    this.#folder = folder;
    this.#path = join(folder, agent);
  }

  /**
   * Returns the file, and the place that is taken over; null if it is none, so that the cache may have anything. It is none, too, if
   * it can't be written down, on a full disk: emptying the cache gives room.
   */
  static async open({ dir, agent, isAlive }: ErasedPlaceOptions): Promise<OpenedPlace> {
    const file = new ErasedPlaceFile(join(dir, "erased"), agent);
    const place = await file.#takeOver({ agent, isAlive }).catch(() => null);
    return { file, place };
  }

  async #takeOver({ agent, isAlive }: Pick<ErasedPlaceOptions, "agent" | "isAlive">): Promise<string | null> {
    const left = (await orNothing(readdir(this.#folder))) ?? [];
    const whole = left.filter((name) => !name.endsWith(UNFINISHED));
    const texts = await Promise.all(
      whole.map((name) => orNothing(readFile(join(this.#folder, name), "utf8"))),
    );
    const place = earliest(texts.filter((text) => text !== undefined));
    // A crash after the first of the two leaves both: neither is lost.
    await this.write(place ?? "");
    for (const name of left) {
      if (name !== agent && !(await isAlive(name))) await rm(join(this.#folder, name), { force: true });
    }
    return place;
  }

  /** A crash leaves the place of before, or this one. */
  async write(place: string): Promise<void> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    const made = `${this.#path}${UNFINISHED}`;
    await writeFile(made, place);
    await rename(made, this.#path);
  }
}

/** Null if there is none, or if one of them can't be read as one. */
function earliest(texts: readonly string[]): string | null {
  let first: { readonly number: number; readonly text: string } | undefined;
  for (const text of texts) {
    const place = parseErasedPlace(text);
    if (!place) return null;
    if (!first || place.number < first.number) first = { number: place.number, text };
  }
  return first?.text ?? null;
}
