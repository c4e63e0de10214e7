import { Pool } from "undici";
import type { SignedRequest } from "./signing.ts";

/** A number of connections to one server that are kept open. */
export class Connections {
  readonly #pool: Pool;
  readonly #count: number;

  constructor(endpoint: string, { count }: { count: number }) {
    this.#pool = new Pool(endpoint, { connections: count, pipelining: 1 });
    this.#count = count;
  }

  /** Sends all requests, on every connection the next one as soon as the one before is answered; answers requests per second. */
  async requestsPerSecond(requests: readonly SignedRequest[]): Promise<number> {
    let next = 0;
    const loop = async (): Promise<void> => {
      for (let request = requests[next++]; request; request = requests[next++]) await this.send(request);
    };
    const startedAt = performance.now();
    await Promise.all(Array.from({ length: this.#count }, loop));
    return (requests.length * 1000) / (performance.now() - startedAt);
  }

  /** Sends the requests one after the other; answers how long each took, in milliseconds. */
  async latencies(requests: readonly SignedRequest[]): Promise<number[]> {
    const all: number[] = [];
    for (const request of requests) {
      const startedAt = performance.now();
      await this.send(request);
      all.push(performance.now() - startedAt);
    }
    return all;
  }

  /** One request that must succeed; answers its body. */
  async send({ method, path, headers, body }: SignedRequest): Promise<Buffer> {
    const response = await this.#pool.request({ method, path, headers, body });
    const bytes = Buffer.from(await response.body.arrayBuffer());
    if (response.statusCode >= 300) throw new Error(`${method} ${path}: ${response.statusCode} ${bytes}`);
    return bytes;
  }

  async close(): Promise<void> {
    await this.#pool.destroy();
  }
}
