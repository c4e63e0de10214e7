import { WorkerEntrypoint } from "cloudflare:workers";
import type { Env } from "../../env.ts";
import { parseBlobName } from "../blob-name.ts";
import { openBlobStore } from "../stores.ts";
import { nameIn } from "./near.ts";

/** How long a copy stays that Cloudflare forgets everywhere when it is told to; seconds. */
const PURGED_SECONDS = 60 * 60;
/** How long one stays that can only be deleted in the data center where it is; seconds. */
const UNPURGED_SECONDS = 120;

/**
 * Blobs as files that caches may keep. The Workers cache is in front of this entrypoint and of no other (wrangler.toml): so
 * nothing that depends on who asks is ever in it. Nobody but the Worker itself reaches it. The cache takes a Range away before
 * it asks, and cuts the answer itself. Where there is no such cache, the Cache API of the data center does the same.
 */
export class Blobs extends WorkerEntrypoint<Env> {
  override async fetch(request: Request): Promise<Response> {
    const hasCache = this.ctx.cache !== undefined && !request.headers.has("range");
    if (hasCache) return await this.#whole(nameIn(request.url), PURGED_SECONDS);
    const kept = await caches.default.match(request);
    if (kept) return kept;
    const whole = await this.#whole(nameIn(request.url), UNPURGED_SECONDS);
    if (!whole.ok) return whole;
    await caches.default.put(request.url, whole);
    const { status, body, headers } =
      (await caches.default.match(request)) ?? new Response(null, { status: 503 });
    const fresh = new Response(body, { status, headers });
    fresh.headers.set("cf-cache-status", "MISS");
    return fresh;
  }

  /** Has the cache forget all copies with one of these tags, in all data centers. Rejects if it did not confirm that. */
  async purge(tags: readonly string[]): Promise<void> {
    const purged = await this.ctx.cache?.purge({ tags: [...tags] });
    if (purged && !purged.success)
      throw new Error(`the cache did not purge: ${JSON.stringify(purged.errors)}`);
  }

  async #whole(name: string, keptSeconds: number): Promise<Response> {
    const { sizeBytes: length, write, uid } = parseBlobName(name) ?? {};
    const body = length === undefined ? null : await openBlobStore(this.env).get(name, { offset: 0, length });
    if (body === null) return new Response(null, { status: 404, headers: { "cache-control": "no-store" } });
    const headers = {
      // Without `must-revalidate` Cloudflare serves what has run out while the store is away, for as long as that lasts.
      "cache-control": `public, max-age=${keptSeconds}, must-revalidate`,
      "cache-tag": `${write},${uid}`,
      "content-type": "application/octet-stream",
    };
    return new Response(body, { headers });
  }
}
