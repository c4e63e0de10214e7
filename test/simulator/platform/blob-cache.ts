import { Blobs } from "../../../worker/blobs/near/entrypoint.ts";
import { nameIn } from "../../../worker/blobs/near/near.ts";
import { streamOf } from "./r2.ts";
import type { Remote } from "./remote.ts";
import type { World } from "./world.ts";

/** How late a copy is there for others, and how late one goes that was purged, at most; milliseconds. */
const STORED_LATE_MS = [0, 10, 60_000, 8 * 60_000];
const PURGED_LATE_MS = 1000;

interface Copy {
  readonly bytes: Uint8Array;
  readonly tags: readonly string[];
  /** By time itself. */
  readonly until: number;
}

interface CacheOptions {
  readonly world: World;
  readonly remote: Remote;
  readonly env: () => unknown;
}

/** The cache in front of the entrypoint `Blobs`: what was read is there later, and what was purged goes later. */
export class SimulatedBlobCache {
  readonly #options: CacheOptions;
  readonly #copies = new Map<string, Copy>();

  constructor(options: CacheOptions) {
    this.#options = options;
  }

  /** The names of blobs that it has copies of. */
  get names(): string[] {
    const { now } = this.#options.world;
    return [...this.#copies].flatMap(([name, { until }]) => (until > now ? [name] : []));
  }

  /** A read of a blob: the cache takes the range away, and cuts the answer itself. */
  async fetch(url: string, { headers = {} }: { headers?: { range?: string } } = {}): Promise<Response> {
    const name = nameIn(url);
    const { world, remote } = this.#options;
    const kept = await remote.ask(() => this.#copies.get(name));
    if (kept && kept.until > world.now) return answerOf(kept.bytes, headers.range, "HIT");
    const answer = await this.#entrypoint().fetch({ url, headers: new Headers() } as Request);
    if (!answer.ok) return answer;
    const bytes = new Uint8Array(await answer.arrayBuffer());
    const [, seconds] = /max-age=(\d+)/.exec(answer.headers.get("cache-control") ?? "") ?? [];
    const tags = answer.headers.get("cache-tag")?.split(",") ?? [];
    const lateMs = world.random.pick(STORED_LATE_MS) * world.random.next();
    world.after(lateMs, () => {
      this.#copies.set(name, { bytes, tags, until: world.now + Number(seconds) * 1000 });
    });
    return answerOf(bytes, headers.range, "MISS");
  }

  /** By the tags of copies. */
  async purge(tags: readonly string[]): Promise<void> {
    await this.#entrypoint().purge(tags);
  }

  #entrypoint(): Blobs {
    const { world, remote, env } = this.#options;
    const purge = async ({ tags }: { tags: readonly string[] }) => {
      await remote.ask(() => {
        const gone = [...this.#copies].filter(([, copy]) => copy.tags.some((tag) => tags.includes(tag)));
        for (const [name, copy] of gone) {
          world.after(world.random.next() * PURGED_LATE_MS, () => {
            if (this.#copies.get(name) === copy) this.#copies.delete(name);
          });
        }
      });
      return { success: true };
    };
    return new Blobs({ cache: { purge } } as never, env() as never);
  }
}

function answerOf(whole: Uint8Array, range: string | undefined, status: "HIT" | "MISS"): Response {
  const [, from, to] = /bytes=(\d+)-(\d+)/.exec(range ?? "") ?? [];
  const bytes = from === undefined ? whole : whole.slice(Number(from), Number(to) + 1);
  return new Response(streamOf(bytes), {
    status: from === undefined ? 200 : 206,
    headers: { "content-length": String(bytes.length), "cf-cache-status": status },
  });
}
