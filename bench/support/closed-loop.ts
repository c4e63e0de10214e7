import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { type Dispatcher, Pool } from "undici";
import type { SignedRequest } from "./signing.ts";

export interface Answer {
  readonly headers: Dispatcher.ResponseData["headers"];
  readonly bytes: Buffer;
}

/** What a number of requests came to. */
interface Load {
  readonly perSecond: number;
  /** How long each took, in milliseconds, in no order. */
  readonly latencies: readonly number[];
}

setFlagsFromString("--expose-gc");
const collectGarbage: () => void = runInNewContext("gc");

/** A number of connections to one server that are kept open. */
export class Connections {
  readonly #pool: Pool;
  readonly #count: number;

  constructor(endpoint: string, { count }: { count: number }) {
    this.#pool = new Pool(endpoint, { connections: count, pipelining: 1 });
    this.#count = count;
  }

  /** Sends all requests, on every connection the next one as soon as the one before is answered. Returns requests per second. */
  async requestsPerSecond(requests: readonly SignedRequest[]): Promise<number> {
    return (await this.load(requests)).perSecond;
  }

  /**
   * Sends all requests in that way, and tells how long each took, too. Garbage is collected before: moving thousands of
   * new requests to where V8 keeps what lives long stops this process for 20 ms, which would look like the server's tail.
   */
  async load(requests: readonly SignedRequest[]): Promise<Load> {
    collectGarbage();
    const startedAt = performance.now();
    const latencies: number[] = [];
    await this.each(requests, (_, tookMs) => latencies.push(tookMs));
    return { perSecond: (requests.length * 1000) / (performance.now() - startedAt), latencies };
  }

  /** Sends all requests in that way and shows each answer, and how long it took, in milliseconds. */
  async each(
    requests: readonly SignedRequest[],
    show: (answer: Answer, tookMs: number) => void,
  ): Promise<void> {
    let next = 0;
    const loop = async (): Promise<void> => {
      for (let request = requests[next++]; request; request = requests[next++]) {
        const sentAt = performance.now();
        show(await this.exchange(request), performance.now() - sentAt);
      }
    };
    await Promise.all(Array.from({ length: this.#count }, loop));
  }

  /** Sends the requests one after the other. Returns how long each took, in milliseconds. */
  async latencies(requests: readonly SignedRequest[]): Promise<number[]> {
    const all: number[] = [];
    for (const request of requests) {
      const startedAt = performance.now();
      await this.send(request);
      all.push(performance.now() - startedAt);
    }
    return all;
  }

  /** Returns the body of one request, which must succeed. */
  async send(request: SignedRequest): Promise<Buffer> {
    return (await this.exchange(request)).bytes;
  }

  /** One request that must succeed. */
  async exchange({ method, path, headers, body }: SignedRequest): Promise<Answer> {
    // `reset: false` keeps a connection behind a HEAD whose answer tells a length. undici closes it otherwise.
    const response = await this.#pool.request({ method, path, headers, body, reset: false });
    const bytes = Buffer.from(await response.body.arrayBuffer());
    if (response.statusCode >= 300) throw new Error(`${method} ${path}: ${response.statusCode} ${bytes}`);
    return { headers: response.headers, bytes };
  }

  async close(): Promise<void> {
    await this.#pool.destroy();
  }
}
