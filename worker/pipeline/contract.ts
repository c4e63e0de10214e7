import type { Job, Pipeline as PipelineInfo } from "../../protocol/pipelines.ts";
import type { LeasedDatum, Outcome } from "../../protocol/runner.ts";
import type { PipelineSpec, Transform } from "../../protocol/spec.ts";
import type { Done, Refused } from "../branch/contract.ts";

/** What a Pipeline object answers to the gateway and to Branch objects. */
export interface PipelineApi {
  /** Makes the pipeline: claims its output, subscribes to its inputs, tells the catalogue; goes on by itself after a crash. Answers when it is active. */
  create(spec: PipelineSpec): Promise<
    | { ok: true; pipeline: PipelineInfo }
    | Refused<"already-exists" | "unavailable">
    /** The output branch exists and is not this pipeline's. */
    | Refused<"output-exists">
  >;
  inspect(): Promise<{ ok: true; pipeline: PipelineInfo } | Refused<"no-such-pipeline">>;
  /** Stops everything and releases the output branch, which is deleted unless `keepOutput`. */
  destroy(request: { keepOutput: boolean }): Promise<Done | Refused<"no-such-pipeline" | "unavailable">>;

  /** An input may have news. Idempotent; answers at once. `uid` is the pipeline's the subscriber was made for; a stale one is ignored. */
  ring(request: { uid: string }): Promise<void>;

  /** Newest first, those before `after`. */
  jobs(request: { after?: string; limit: number }): Promise<{ jobs: Job[]; next: string | null }>;
  job(id: string): Promise<Job | null>;
  /** The job when it has ended, or as it is after `waitMs`. */
  waitJob(request: { id: string; waitMs: number }): Promise<Job | null>;

  /** Datums for a worker; waits up to `waitMs` for one. Never empty while a datum is queued and the worker has a slot. */
  lease(request: {
    node: string;
    worker: string;
    max: number;
    waitMs: number;
  }): Promise<Leased | Refused<"no-such-pipeline">>;
  renew(request: Renewal): Promise<{ lost: string[] }>;
  /** Records outcomes; the lease is the fence. Output contents were added to the output branch before. */
  finish(request: { worker: string; outcomes: readonly Outcome[] }): Promise<{ lost: string[] }>;
  /** Where outputs go. */
  output(): Promise<{ repo: string; branch: string } | null>;
}

export interface Renewal {
  readonly worker: string;
  readonly leases: readonly string[];
  /** The worker ends: its slot is free at once. */
  readonly leaving?: true;
}

export interface Leased {
  readonly ok: true;
  readonly slot: boolean;
  readonly transform: Transform;
  readonly output: { readonly repo: string; readonly branch: string };
  readonly datums: readonly LeasedDatum[];
}
