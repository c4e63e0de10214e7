import type { BranchAddress } from "../../protocol/names.ts";
import type { BlobStore } from "../blobs/port.ts";
import type { BranchApi } from "../branch/contract.ts";
import type { Catalogue } from "../catalogue/catalogue.ts";
import type { LiveNode } from "../core/parallelism.ts";
import type { JobRow } from "./jobs/job-store.ts";
import type { Ledger } from "./ledger/ledger.ts";
import type { Definition } from "./lifecycle/definition.ts";

/** What a Pipeline object reaches outside of itself, the clock and the ids included. */
export interface Peers {
  branch(address: BranchAddress): BranchApi;
  readonly catalogue: Catalogue;
  readonly blobs: BlobStore;
  /** So many of the newest jobs are listed, and found by their ids. */
  readonly keptJobs: number;
  /** Milliseconds since 1970. */
  now(): number;
  /** A new ULID, greater than every one before it in this object's life and than `after`. */
  id(after?: string): string;
  /** The nodes that live, as the catalogue said a moment ago. */
  nodes(): Promise<readonly LiveNode[]>;
  /** What the nodes have for a pipeline, as the catalogue said a moment ago; undefined: it does not know. */
  room(pipeline: string): Promise<PipelineRoom | undefined>;
}

/** What a pipeline is to have and what it has, of one look at the nodes. */
export interface PipelineRoom {
  /** How many workers it is to have. */
  readonly wanted: number;
  /** Those that have workers of it. */
  readonly nodes: readonly NodeRoom[];
}

/** What a node that takes work has for one pipeline. */
export interface NodeRoom {
  /** How many workers of the pipeline it is to have. */
  readonly workers: number;
  /** How many commands run there, of all pipelines and of this one. */
  readonly running: number;
  readonly own: number;
  /** How many may run there at once; undefined: any number. */
  readonly maxRunning: number | undefined;
}

/**
 * Tells those who wait in memory that rows have changed. A wake only makes them look again, after the present turn: it
 * may be called in a transaction, and does no harm if that is undone.
 */
interface Wakes {
  /** A job may have to be filled. */
  fill(): void;
  /** The oldest job may be able to go on. */
  advance(): void;
  /** A datum may be queued. */
  queued(): void;
  /** A job has ended early: what is left of its attempts is to be called off. */
  callOff(): void;
  /** Rows may have become of no use. */
  trim(): void;
  /** A lease runs out then. */
  leases(at: number): void;
  /** The oldest job's time is over then, or may be over by now. */
  jobTime(at?: number): void;
  /** The catalogue is behind. */
  outbox(): void;
  /** A job has ended. */
  ended(job: string): void;
  /** More of what a job's datums printed is there. */
  logged(job: string): void;
}

/** All that a step of a pipeline's work can reach. */
export interface PipelineContext {
  readonly ledger: Ledger;
  readonly peers: Peers;
  readonly wakes: Wakes;
  /** Proposals that calls of this instance wait for (work/saga/propose.ts): nobody else takes them back. */
  readonly held: Set<string>;
  /** Resolves when the loop that ends jobs rests. Unless the pipeline runs, the caller alone ends them from then on. */
  advanceRests(): Promise<void>;
}

/** A job of the pipeline, as it was when the step began. */
export interface JobContext {
  readonly definition: Definition;
  readonly job: JobRow;
}
