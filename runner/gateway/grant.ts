import { GatewayError } from "../../protocol/requests.ts";
import { GRANT_HEADER } from "../../protocol/runner.ts";
import { STALE_GRANT } from "./client.ts";

/**
 * What the gateway lets the holder of a lease read and write, as a text that only the gateway can make. Each renewal of
 * the lease brings another. The gateway gives none and asks for none if the key may read all.
 */
export class Grant {
  readonly job: string;
  readonly #onStale: () => void;
  #text: string | undefined;

  constructor({ job, text, onStale }: { job: string; text: string | undefined; onStale: () => void }) {
    this.job = job;
    this.#text = text;
    this.#onStale = onStale;
  }

  renew(text: string): void {
    this.#text = text;
  }

  /** Makes a call that presents it. If it is good no more, has it renewed: the next try presents another. */
  async presented<T>(call: (headers: Readonly<Record<string, string>>) => Promise<T>): Promise<T> {
    try {
      return await call(this.#text === undefined ? {} : { [GRANT_HEADER]: this.#text });
    } catch (error) {
      if (isStale(error)) this.#onStale();
      throw error;
    }
  }
}

/** Whether a call failed for its grant. */
export function isStale(error: unknown): boolean {
  return error instanceof GatewayError && error.code === STALE_GRANT;
}
