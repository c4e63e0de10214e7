import { isGone } from "../../../support/http.ts";

/** Whether the gateway answers just now, for clients that must not give up because it does not. */
export class Gate {
  #open: PromiseWithResolvers<void> = Promise.withResolvers();
  #isOver = false;

  constructor() {
    this.#open.resolve();
  }

  /** Clients are to end: the gateway does not come back before they have. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** From now on the gateway is gone. */
  shut(): void {
    this.#open = Promise.withResolvers();
  }

  /** It answers again. */
  open(): void {
    this.#isOver = false;
    this.#open.resolve();
  }

  end(): void {
    this.#isOver = true;
    this.#open.resolve();
  }

  /** Waits until it answers; false: clients are to end. */
  async passes(): Promise<boolean> {
    await this.#open.promise;
    return !this.#isOver;
  }

  /** Asks as often as it takes, over deaths of the gateway. Throws what a client sees of a gateway that is gone if clients are to end. */
  async again<T>(ask: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await ask();
      } catch (error) {
        if (!isGone(error) || !(await this.passes())) throw error;
      }
    }
  }
}
