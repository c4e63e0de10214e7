import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type ContentId, contentName, parseContentName } from "../../protocol/content.ts";
import { ERASED_SILENCE_MS, type ErasedSince, parseErasedPlace } from "../../protocol/runner.ts";
import { messageOf } from "../lib/fault.ts";
import type { Log } from "../lib/log.ts";
import { orNothing } from "../lib/system-calls.ts";
import type { Arrivals } from "./arrivals.ts";
import type { CacheFiles } from "./files.ts";

/** Milliseconds by both clocks of the machine: one may be set to another time, the other stands still while the machine sleeps. */
interface Moment {
  readonly wall: number;
  readonly steady: number;
}

/** What a heartbeat asks the gateway about erased contents. */
export interface Asked {
  /** The place that the cache has come to; null: it has none. Undefined: nothing is asked. */
  readonly erasedTo: string | null | undefined;
  readonly at: Moment;
}

interface ErasuresOptions {
  readonly file: Pick<ErasedPlaceFile, "write">;
  /** The place that the cache has come to; null: it may have anything. */
  readonly place: string | null;
  readonly files: Pick<CacheFiles, "remove" | "empty">;
  readonly underway: Underway;
  readonly arrivals: Pick<Arrivals, "forget">;
  readonly now: () => Moment;
  readonly log: Log;
}

/**
 * Takes out of the cache what was erased at the gateway. The order is this: the gateway writes an erasure down, then it
 * stands in the list that heartbeats are answered from. So what is fetched after an answer is nothing that the answer names,
 * unless something else has the same bytes; what set out before is not kept (Underway); and what is there is removed. The place
 * is written down last: a crash before has all of it done again.
 *
 * The cache is of use only while this is *up to date*: not before the first answer, whatever was erased while no agent ran
 * here, and not after a silence.
 */
export class Erasures {
  readonly #options: ErasuresOptions;
  #place: string | null;
  /** When the last answer was asked for that left nothing to do. */
  #heardAt: Moment | undefined;
  #busy = false;
  #failure: string | undefined;

  constructor(options: ErasuresOptions) {
    this.#options = options;
    this.#place = options.place;
  }

  get upToDate(): boolean {
    if (!this.#heardAt) return false;
    const now = this.#options.now();
    const silence = Math.max(now.wall - this.#heardAt.wall, now.steady - this.#heardAt.steady);
    return silence < ERASED_SILENCE_MS;
  }

  ask(): Asked {
    return { erasedTo: this.#place, at: this.#options.now() };
  }

  /**
   * Does what an answer says. Resolves, when that is done, to whether there is more to ask for at once. Never fails: what could
   * not be removed is named by the next answer, too, and meanwhile the cache gets out of date.
   */
  async hear({ erasedTo, at }: Asked, told: ErasedSince | undefined): Promise<boolean> {
    // The answer to an earlier question is being worked on, or was: this one says what that said.
    if (this.#busy || erasedTo !== this.#place) return false;
    this.#busy = true;
    try {
      if (told) await this.#follow(told);
      if (told?.more) return true;
      this.#heardAt = at;
      this.#failure = undefined;
    } catch (error) {
      this.#tell(messageOf(error));
    } finally {
      this.#busy = false;
    }
    return false;
  }

  async #follow({ upTo, contents, everything }: ErasedSince): Promise<void> {
    const { file, files, underway, arrivals, log } = this.#options;
    if (everything) {
      // It takes a while, and nobody knows which of them are good.
      this.#heardAt = undefined;
      if (this.#place !== null) log.warn("emptying the cache: the gateway can't say what was erased");
      underway.erase("all");
      arrivals.forget("all");
      await files.empty();
    } else if (contents.length > 0) {
      const names = new Set(contents);
      underway.erase(names);
      arrivals.forget(names);
      await files.remove(contents.flatMap((name) => parseContentName(name) ?? []));
    }
    if (upTo === this.#place) return;
    await file.write(upTo);
    this.#place = upTo;
  }

  #tell(reason: string): void {
    if (reason !== this.#failure) {
      this.#options.log.error(
        { reason },
        "removing erased contents from the cache failed: it is not used until that succeeds",
      );
    }
    this.#failure = reason;
  }
}

/** A content on its way into the cache. */
export interface Coming {
  /** Whether it was erased since it set out: these bytes are not to be kept. */
  readonly erased: boolean;
  /** It has arrived, or never will. */
  end(): void;
}

/** Contents on their way into the cache: one erased since it set out may arrive after it was taken out, and stay. */
export class Underway {
  readonly #all = new Set<{ readonly name: string; erased: boolean }>();

  /** Call this before the gateway is asked for it. */
  begin(content: ContentId): Coming {
    const coming = { name: contentName(content), erased: false };
    this.#all.add(coming);
    return {
      get erased() {
        return coming.erased;
      },
      end: () => void this.#all.delete(coming),
    };
  }

  /** Those of these names, or all, are not to be kept when they come. */
  erase(names: ReadonlySet<string> | "all"): void {
    for (const coming of this.#all) if (names === "all" || names.has(coming.name)) coming.erased = true;
  }
}

export interface ErasedPlaceOptions {
  /** The folder of the cache. */
  readonly dir: string;
  /** The name of this agent. */
  readonly agent: string;
  /** Whether an agent that shares the cache still runs. */
  readonly isAlive: (agent: string) => Promise<boolean>;
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
  static async open({ dir, agent, isAlive }: ErasedPlaceOptions) {
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
