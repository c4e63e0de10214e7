import { z } from "zod";

/** Most markers in one page of a rebuild. */
export const MAX_REBUILT = 50;

/**
 * `POST /api/v1/admin/rebuild?limit=&after=`: a page of the branches and pipelines tell the catalogue of themselves; `next`
 * goes into `after`. The jobs of a pipeline follow by themselves within seconds.
 */
export const CatalogueRebuilt = z.object({
  /** So many branches and pipelines there are, in this page. */
  branches: z.int(),
  pipelines: z.int(),
  /** So many branches there were, which are deleted. */
  deleted: z.int(),
  /** What has a marker and no object: it was never finished, or its object is lost. */
  missing: z.array(z.string()),
  /** What could not tell it just now: try again. */
  failed: z.array(z.string()),
  next: z.string().nullable(),
});
export type CatalogueRebuilt = z.infer<typeof CatalogueRebuilt>;

/**
 * `POST /api/v1/admin/scrub`: the databases that owe it are written anew, or with `all` every one; the gateway is away for
 * that. `id` is the caller's own: asked again with the same one, it answers how that scrub stands. One that is under way is joined.
 * 501 on Cloudflare.
 */
export const ScrubAsk = z.strictObject({ id: z.string().min(1).max(64), all: z.boolean().optional() });
export type ScrubAsk = z.infer<typeof ScrubAsk>;

/** `GET /api/v1/admin/scrub`: the last scrub that was asked for since the gateway was started. */
export const ScrubState = z.object({
  /** Null: none was. */
  id: z.string().nullable(),
  state: z.enum(["none", "running", "done", "failed"]),
  /** So many databases were written anew; together they had so many bytes before and after. */
  rewritten: z.int(),
  bytesBefore: z.int(),
  bytesAfter: z.int(),
  /** Databases that could not be, and why: they are tried again at the next start. */
  failed: z.array(z.object({ file: z.string(), message: z.string() })),
});
export type ScrubState = z.infer<typeof ScrubState>;

/** What is free on the disks of an embedded gateway, which its Worker hears of the host alone; bytes. */
export const HostDisks = z.object({
  spaces: z.array(z.object({ freeBytes: z.number(), totalBytes: z.number() })),
});
export type HostDisks = z.infer<typeof HostDisks>;

/** File handles of an embedded gateway, which its Worker hears of the host alone. */
export const HostHandles = z.object({
  /** Of the host and of the runtime, as far as the system tells. */
  processes: z.array(z.object({ open: z.int(), most: z.int() })),
  /** How long ago one of them had none left; milliseconds. Null: never, as far as the host knows. */
  ranOutMs: z.int().nullable(),
});
export type HostHandles = z.infer<typeof HostHandles>;

/** Blobs of an embedded gateway that were written or removed since, and are to stay so after a power cut. */
export const HostFlush = z.object({ written: z.array(z.string()), removed: z.array(z.string()) });
export type HostFlush = z.infer<typeof HostFlush>;

/** Null: all of them are as they were asked to be. */
export const HostFlushed = z.object({
  failure: z.object({ message: z.string(), isFull: z.boolean() }).nullable(),
});
export type HostFlushed = z.infer<typeof HostFlushed>;

/**
 * `GET /api/v1/admin/log`: the newest lines of the log of an embedded gateway and of the runners that were started with it, oldest
 * first, each a text of JSON; at most 512 KiB. Of a line of more than 64 KiB there is its beginning, in a field `cut`. 501 on Cloudflare.
 */
export const KeptLines = z.object({ lines: z.array(z.string()) });
export type KeptLines = z.infer<typeof KeptLines>;

/**
 * `GET /api/v1/pipelines/{name}/loops`: how the work of an object stands that needs no runner, for whoever looks for a fault.
 */
export const Loops = z.object({
  loops: z.array(
    z.object({
      name: z.string(),
      state: z.enum(["idle", "due", "running", "failing"]),
      /** When it goes on by itself; milliseconds since 1970. Null: it runs, or rests until something wakes it. */
      due: z.int().nullable(),
      /** How often in a row it failed, and with what the last time. */
      tries: z.int(),
      error: z.string().nullable(),
    }),
  ),
});
export type Loops = z.infer<typeof Loops>;
