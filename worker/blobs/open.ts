import type { Env } from "../env.ts";
import { DiskBlobStore } from "./disk-store.ts";
import type { BlobStore } from "./port.ts";
import { R2BlobStore } from "./r2-store.ts";

/** The blob store that the host bound: DISK (embedded) before BLOBS (R2). Throws where there is neither. */
export function openBlobStore(env: Pick<Env, "DISK" | "BLOBS">): BlobStore {
  if (env.DISK) return new DiskBlobStore(env.DISK);
  if (env.BLOBS) return new R2BlobStore(env.BLOBS);
  throw new Error("no blob store: bind an R2 bucket as BLOBS, or a writable disk service as DISK");
}
