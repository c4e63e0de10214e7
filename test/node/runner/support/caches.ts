import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { Cache, type CacheOptions } from "../../../../runner/cache/cache.ts";
import { log } from "./running.ts";

type Given = Pick<CacheOptions, "gateway"> & Partial<CacheOptions> & { readonly agent?: string };

/** The cache of one agent (`agent`, "1") over a data folder, which is made; large enough for any test that says nothing else. */
export function openCache(dataDir: string, { agent = "1", ...options }: Given): Cache {
  const agents = join(dataDir, "agents");
  const incoming = join(agents, agent, "incoming");
  mkdirSync(incoming, { recursive: true });
  const dir = join(dataDir, "cache");
  const kill = new AbortController().signal;
  const terms = { maxBytes: 1e9, boot: "boot-1", erased: null };
  return new Cache({ dir, agents, incoming, ...terms, log, kill, ...options });
}
