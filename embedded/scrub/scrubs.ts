import { setTimeout as pause } from "node:timers/promises";
import { ScrubAsk, type ScrubState } from "../../protocol/admin.ts";
import type { HostRequest } from "../workerd/runtime.ts";
import type { Scrubbed } from "./scrub.ts";

/** So long the runtime still has to carry the answer to who asked; milliseconds. What is under way then is cut. */
const ANSWER_MS = 250;

interface ScrubsOptions {
  /** Stops the runtime, does the work, and starts the runtime again. */
  readonly whileAway: (work: () => Promise<void>) => Promise<void>;
  readonly scrub: (extent: "owed" | "all") => Promise<Scrubbed | undefined>;
}

const NOTHING: Scrubbed = { rewritten: 0, bytesBefore: 0, bytesAfter: 0, failed: [] };

/** The scrubs that a gateway is asked for while it runs: one at a time. The Worker passes on who may ask. */
export class Scrubs {
  readonly #options: ScrubsOptions;
  #state: ScrubState = { id: null, state: "none", ...NOTHING };
  #running: Promise<void> = Promise.resolve();

  constructor(options: ScrubsOptions) {
    this.#options = options;
  }

  /** Begins one, if the Worker sends what is asked for; tells how far it is. */
  async answer(request: HostRequest): Promise<ScrubState> {
    const isAsked = request.method === "POST";
    return isAsked ? this.#ask(ScrubAsk.parse(await request.json())) : this.#state;
  }

  /** Resolves when none is under way. */
  async rest(): Promise<void> {
    await this.#running;
  }

  #ask({ id, all }: ScrubAsk): ScrubState {
    if (this.#state.state === "running" || this.#state.id === id) return this.#state;
    this.#state = { id, state: "running", ...NOTHING };
    this.#running = this.#run(id, all ? "all" : "owed");
    return this.#state;
  }

  async #run(id: string, extent: "owed" | "all"): Promise<void> {
    await pause(ANSWER_MS);
    let done = NOTHING;
    try {
      await this.#options.whileAway(async () => {
        done = (await this.#options.scrub(extent)) ?? NOTHING;
      });
      this.#state = { id, state: "done", ...done };
    } catch (error) {
      const failed = [...done.failed, { file: "", message: String((error as Error).message) }];
      this.#state = { id, state: "failed", ...done, failed };
    }
  }
}
