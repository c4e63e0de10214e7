import type { BranchAddress } from "../protocol/names.ts";
import { bucketName } from "../protocol/names.ts";
import { openBlobStore } from "./blobs/open.ts";
import type { BlobStore } from "./blobs/port.ts";
import type { BranchApi } from "./branch/contract.ts";
import { type Catalogue, openCatalogue } from "./catalogue/catalogue.ts";
import type { Env } from "./env.ts";
import type { PipelineApi } from "./pipeline/contract.ts";

/** Who sent a request whose signature is good. */
export interface Caller {
  readonly keyId: string;
  /** The signed SHA-256 (hex) that the body must have; null where the client sent UNSIGNED-PAYLOAD. */
  readonly bodySha256: string | null;
}

/** What S3 operations and control API handlers reach the rest through. One per request. */
export interface Context {
  readonly requestId: string;
  readonly blobs: BlobStore;
  readonly catalogue: Catalogue;
  branch(address: BranchAddress): BranchApi;
  pipeline(name: string): PipelineApi;
}

/** Puts the parts together over what the platform binds. */
export function openContext(env: Env): Context {
  return {
    requestId: crypto.randomUUID(),
    blobs: openBlobStore(env),
    catalogue: openCatalogue(env.DB),
    branch: (address) => env.BRANCH.getByName(bucketName(address)) as unknown as BranchApi,
    pipeline: (name) => env.PIPELINE.getByName(name) as unknown as PipelineApi,
  };
}
