import { z } from "zod";

/**
 * What the gateway needs before it can serve; `GET /readyz` names those that fail. Without `disk` it goes on all the same: it
 * reads and deletes, and takes no new files. With `handles` it serves some clients, and refuses others.
 */
export type ReadyCheck = "configuration" | "catalogue" | "migrations" | "blobs" | "disk" | "handles";

/** Why a check fails, and what mends it. */
export const ReadyCause = z.object({ check: z.string(), cause: z.string(), fix: z.string() });
export type ReadyCause = z.infer<typeof ReadyCause>;

/** A database that is almost full: of a branch (by its bucket), a pipeline, or the catalogue. */
export const AlmostFull = z.object({
  kind: z.string(),
  name: z.string(),
  usedBytes: z.int(),
  limitBytes: z.int(),
  fix: z.string(),
});
export type AlmostFull = z.infer<typeof AlmostFull>;

/**
 * `GET /readyz`. Everybody hears whether the gateway can serve, and the names of what fails. Keys that are not limited to
 * some repos also hear why, which versions are there, and what is near its limit.
 */
export const Readiness = z.object({
  ready: z.boolean(),
  /** Names of checks; a later release may have others. `disk` and `handles` alone leave it ready. */
  failed: z.array(z.string()),
  causes: z.array(ReadyCause).optional(),
  versions: z
    .object({
      /** Of the wire between gateway, runner and command line. */
      wire: z.int(),
      /** The newest migration of D1 that this release has. */
      migration: z.string(),
      /** Of the Worker, as Cloudflare names it. Absent elsewhere. */
      upload: z.string().optional(),
    })
    .optional(),
  /** Objects near their limit. The gateway serves all the same: this makes it not unready. */
  almostFull: z.array(AlmostFull).optional(),
});
export type Readiness = z.infer<typeof Readiness>;
