import { type Dispatcher, Pool } from "undici";
import type { SignedRequest } from "./signing.ts";

export interface Answer {
  readonly headers: Dispatcher.ResponseData["headers"];
  readonly bytes: Buffer;
}

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
    const startedAt = performance.now();
    await this.each(requests, () => {});
    return (requests.length * 1000) / (performance.now() - startedAt);
  }

  /** Sends all requests in that way and shows each answer. */
  async each(requests: readonly SignedRequest[], show: (answer: Answer) => void): Promise<void> {
    let next = 0;
    const loop = async (): Promise<void> => {
      for (let request = requests[next++]; request; request = requests[next++])
        show(await this.exchange(request));
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
    const response = await this.#pool.request({ method, path, headers, body });
    const bytes = Buffer.from(await response.body.arrayBuffer());
    if (response.statusCode >= 300) throw new Error(`${method} ${path}: ${response.statusCode} ${bytes}`);
    return { headers: response.headers, bytes };
  }

  async close(): Promise<void> {
    await this.#pool.destroy();
  }
}
