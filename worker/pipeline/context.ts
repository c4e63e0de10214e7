import type { BranchAddress } from "../../protocol/names.ts";
import type { BlobStore } from "../blobs/port.ts";
import type { BranchApi } from "../branch/contract/api.ts";
import type { Catalogue } from "../catalogue/catalogue.ts";
import type { LiveNode } from "../core/parallelism.ts";
import type { Place } from "../core/places.ts";
import type { FleetDoor } from "../fleet/door.ts";
import type { Engine } from "../objects/engine.ts";
import { KeyedWaiters, Waiters } from "../objects/waiters.ts";
import type { CreationRefused } from "./contract.ts";
import type { JobRow } from "./jobs/job-store.ts";
import type { Ledger } from "./ledger/ledger.ts";
import type { Definition } from "./lifecycle/definition.ts";

/** What a Pipeline object reaches outside of itself, the clock and the ids included. */
export interface Peers {
  /** `place`: where the branch is to live if a call makes it. */
  branch(address: BranchAddress, place?: Place | null): BranchApi;
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
  /** Hears when nodes are to have other workers, when workers have something to do, and which nodes let leases run out. */
  readonly fleet: Pick<FleetDoor, "wake" | "wakeWorkers" | "suspect">;
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

/** More than calls wait for at a time: a call reads why its creation was refused in the turn in which that is known. */
const MAX_KEPT = 100;

/**
 * Why creations were refused, by the uid of what was to be the pipeline: for the calls that wait for them. Only the last
 * ones are kept, as nobody reads those of calls that have gone.
 */
export class Refusals {
  readonly #byUid = new Map<string, CreationRefused>();

  add(uid: string, refusal: CreationRefused): void {
    this.#byUid.set(uid, refusal);
    const [oldest] = this.#byUid.keys();
    if (this.#byUid.size > MAX_KEPT && oldest !== undefined) this.#byUid.delete(oldest);
  }

  of(uid: string): CreationRefused | undefined {
    return this.#byUid.get(uid);
  }
}

/**
 * What an instance has in memory alone. A crash takes it, and nothing is lost: whoever waited calls again. A waiter only
 * looks again, after the present turn: it may be woken in a transaction, and does no harm if that is undone.
 */
export class Memory {
  /**
   * For a datum or task that is queued. Whatever ends a lease queues its datum, or another that waited for it. One lease call is woken,
   * and passes it on to the next one unless it has seen that nothing is queued: so as many are woken as there is something for.
   */
  readonly queued = new Waiters();
  /** For a job that the catalogue is to hear of before others. */
  readonly urgent = new Waiters();
  /** For the end of a job, and for more of what its datums print. */
  readonly ended = new KeyedWaiters();
  readonly logged = new KeyedWaiters();
  /** Proposals that calls wait for (work/saga/propose.ts): nobody else takes them back. */
  readonly held = new Set<string>();
  readonly refusals = new Refusals();
  /** Nodes that let leases run out, of which the fleet is to hear. Nothing depends on it. */
  readonly suspects = new Set<string>();
  /** When somebody last looked at leases; undefined: nobody has. */
  heardAt: number | undefined;
  /** How many wake-ups of inputs came. */
  wakeUps = 0;
  /** When branches last got low-water marks. */
  markedAt = Number.NEGATIVE_INFINITY;
}

/** All that a step of a pipeline's work can reach. */
export interface PipelineContext {
  readonly ledger: Ledger;
  readonly peers: Peers;
  readonly memory: Memory;
  readonly engine: Engine;
}

/** The work on one job, which is as it was when the step began. */
export interface JobWork extends PipelineContext {
  readonly definition: Definition;
  readonly job: JobRow;
}
