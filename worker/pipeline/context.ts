import type { BranchAddress } from "../../protocol/names.ts";
import type { BlobStore } from "../blobs/port.ts";
import type { BranchApi } from "../branch/contract.ts";
import type { Catalogue } from "../catalogue/catalogue.ts";
import type { Definition } from "./definition.ts";
import type { JobRow } from "./jobs/job-store.ts";
import type { Ledger } from "./ledger/ledger.ts";

/** What a Pipeline object reaches outside of itself, the clock and the ids included. */
export interface Peers {
  branch(address: BranchAddress): BranchApi;
  readonly catalogue: Catalogue;
  readonly blobs: BlobStore;
  /** Milliseconds since 1970. */
  now(): number;
  /** A new ULID, greater than every one before it in this object's life and than `after`. */
  id(after?: string): string;
  /** The nodes that live, as of a moment ago. */
  fleet(): Promise<Fleet>;
}

/** The nodes that live: those that take work, and those that are being drained. */
export interface Fleet {
  readonly live: number;
  readonly draining: number;
}

/** Tells those who wait in memory that rows have changed. Each call only makes them look again. */
interface Wakes {
  /** A job may have to be filled. */
  fill(): void;
  /** The oldest job may be able to go on. */
  front(): void;
  /** A datum may be queued. */
  queued(): void;
  /** A job was cut short: its attempts are to be called off. */
  reap(): void;
  /** Rows may have become of no use. */
  trim(): void;
  /** The catalogue is behind. */
  outbox(): void;
  /** A job has ended. */
  ended(job: string): void;
  /** More of what a job's datums printed is there. */
  logged(job: string): void;
}

export interface PipelineContext {
  readonly ledger: Ledger;
  readonly peers: Peers;
  readonly wakes: Wakes;
  /** Resolves when nobody is at the end of the front: from then on only whoever asked is, unless the pipeline runs. */
  frontRests(): Promise<void>;
}

/** What of the context a function touches: these stores and guards of the ledger, and these others. */
export type Uses<Stores extends keyof Ledger, Others extends keyof PipelineContext = never> = {
  readonly ledger: Pick<Ledger, Stores>;
} & Pick<PipelineContext, Others>;

/** A job of the pipeline, as it was when the step began. */
export interface JobContext {
  readonly definition: Definition;
  readonly job: JobRow;
}

/** Lets other calls of the object in between two slices of long work. */
export async function yieldToOthers(): Promise<void> {
  await scheduler.wait(0);
}
