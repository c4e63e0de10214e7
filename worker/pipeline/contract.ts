import type { Loops } from "../../protocol/admin.ts";
import type { Maker } from "../../protocol/commits.ts";
import type { BranchAddress } from "../../protocol/names.ts";
import type { PlanReason } from "../../protocol/pipeline-check.ts";
import type {
  DatumDetail,
  DatumOutputPage,
  DatumPage,
  FateState,
  Job,
  JobSummary,
  LogLine,
  Pipeline as PipelineInfo,
  PipelineVersion,
} from "../../protocol/pipelines.ts";
import type { Lease, LogStream, LogsRequest, Outcome, RenewRequest } from "../../protocol/runner.ts";
import type { PipelineSpec } from "../../protocol/spec.ts";
import type { Done, Refused } from "../branch/contract/answers.ts";
import type { FileSpans } from "../branch/contract/erasures.ts";
import type { CommitPosition, WakeUpCalls } from "../branch/contract/pipelines.ts";
import type { CatalogueFault } from "../core/catalogue-fault.ts";

/** Who submits a specification: the pipeline is theirs from then on. */
export interface Submitter {
  /** Whether their key is limited to repos. Absent: it counts as if it was. */
  readonly limited?: boolean;
  /** The id of their key. Absent: it is not known. */
  readonly key?: string;
  /** The text that the specification was read from, which comes to it. Absent: it did not come along. */
  readonly text?: string;
}

/** What an update would come to. */
export type PlanAnswer =
  | {
      readonly ok: true;
      /** The fields that change, such as `transform.image` and `inputs.images.glob`. */
      readonly changes: string[];
      /** Whether results of before count no more. */
      readonly runsAll: boolean;
      /** Of each id that was asked about. */
      readonly kept: readonly boolean[];
      /** Of each id whose paths were given: why its datum would run; null if it keeps its result. */
      readonly why?: readonly (PlanReason | null)[];
    }
  | Refused<"no-such-pipeline">;

/** What a Pipeline object does for the gateway and for Branch objects. */
export interface PipelineApi {
  readonly lifecycle: LifecycleCalls;
  readonly specification: SpecificationCalls;
  readonly jobs: JobCalls;
  readonly datums: DatumCalls;
  readonly logs: LogCalls;
  readonly lineage: LineageCalls;
  readonly leases: LeaseCalls;
  readonly wakeUps: WakeUpCalls;
  readonly admin: AdminCalls;
}

export interface LifecycleCalls {
  /** Makes the pipeline: claims its output, subscribes to its inputs, tells the catalogue; goes on by itself after a crash. Returns when it is active. */
  create(
    spec: PipelineSpec,
    by?: Submitter,
  ): Promise<
    | { ok: true; pipeline: PipelineInfo }
    /** `no-such-commit`: an input is to start after one that its branch does not have. */
    | Refused<"already-exists" | "unavailable" | "no-such-commit">
    | CreationRefused
    /** Nothing was begun. */
    | Refused<CatalogueFault>
  >;
  inspect(): Promise<Found | Refused<"no-such-pipeline">>;
  /** Ends the jobs and follows the inputs no more; succeeds if it is stopped. `unavailable`: it goes on by itself. */
  stop(): Promise<Found | Refused<"no-such-pipeline" | "unavailable">>;
  /** Follows the inputs again, with one job for their HEADs if those moved; succeeds if it runs. */
  start(): Promise<Found | Refused<"no-such-pipeline" | "unavailable">>;
  /** Stops everything and releases the output branch, which is deleted unless `keepOutput`. */
  destroy(request: { keepOutput: boolean }): Promise<Done | Refused<"no-such-pipeline" | "unavailable">>;
}

export interface SpecificationCalls {
  /** The versions of it that are kept, newest first, those before `before`. */
  versions(request: {
    before?: number;
    limit: number;
  }): Promise<({ ok: true } & VersionPage) | Refused<"no-such-pipeline">>;
  /** One version whole. Null: the present one. `not-kept`: it was there, and is kept no more. */
  version(
    version: number | null,
  ): Promise<({ ok: true } & WholeVersion) | Refused<"no-such-pipeline" | "no-such-version" | "not-kept">>;
  /**
   * A new version, which was checked. With `reprocess`, results count no more even if nothing else changes. `other-output`:
   * the output branch can't change.
   */
  update(request: UpdateCall): Promise<
    | Found
    | Refused<"no-such-pipeline" | "unavailable" | "other-output" | "no-such-commit" | "errors-exist">
    /** Nothing was begun: the version of before runs on. */
    | Refused<CatalogueFault>
    | CircleRefused
  >;
  /**
   * What an update would change, which of these datums would keep their results, and why the others would run. Nothing is
   * written.
   */
  plan(request: PlanCall): Promise<PlanAnswer>;
}

export interface JobCalls {
  /** Newest first, those before `after`. */
  list(request: { after?: string; limit: number }): Promise<{ jobs: Job[]; next: string | null }>;
  view(id: string): Promise<Job | null>;
  /** Those of these jobs that have not ended, each with what it waits for. For lists that do not come from here. */
  unfinished(jobs: readonly string[]): Promise<Job[]>;
  /** The job when it has ended, or as it is after `waitMs`. */
  wait(request: { id: string; waitMs: number }): Promise<Job | null>;
  /** How the datums of a job did, put together. */
  summary(id: string): Promise<({ ok: true } & DatumSummary) | Refused<"no-such-job">>;
  /**
   * Ends a job at once, `killed`; succeeds if it was killed before. What it has committed stays. `job-ended`: it has
   * ended otherwise; `job-ending`: its output is being committed.
   */
  stop(id: string): Promise<{ ok: true; job: Job } | Refused<"no-such-job" | "job-ended" | "job-ending">>;
  /**
   * Makes one job for the HEADs of the inputs that tries what failed, or runs every datum. `newest`: the job before it.
   * `job-running`: the newest job has not ended; if that was made by this very retry, it is the answer instead.
   * `no-data`: an input holds nothing since the inputs were changed.
   */
  retry(request: { job: string; every: boolean; key?: string }): Promise<RetryAnswer>;
}

export interface DatumCalls {
  /** What a job ran and skipped. Pages may be short; `next` says whether that was all. `why`: with the reasons of each. */
  list(request: {
    job: string;
    after?: string;
    limit: number;
    why?: true;
  }): Promise<({ ok: true } & DatumPage) | Refused<"no-such-job" | "no-such-place">>;
  /** All that it takes to run a datum of a job again; `datum`: what its id begins with. */
  view(request: DatumCall): Promise<({ ok: true } & DatumDetail) | DatumRefused>;
  /** The files that a job has of a datum, a page. `no-such-place`: `after` is no page's `next`. */
  outputs(
    request: DatumCall & { after?: string; limit: number },
  ): Promise<({ ok: true } & DatumOutputPage) | DatumRefused | Refused<"no-such-place">>;
}

export interface LogCalls {
  /**
   * What the datums of a job printed, a page; `datum`: of one, by what its id begins with. With `waitMs`,
   * it follows a job that goes on: it waits so long for more. Null: it does not follow.
   */
  read(request: LogsCall): Promise<
    | ({ ok: true } & LogPage)
    | Refused<"no-such-job" | "no-such-datum" | "no-such-place">
    /** More than one datum's id begins so. */
    | Refused<"several-datums">
  >;
  /** Keeps what leases printed. Returns the leases that are lost. */
  add(request: { worker: string; entries: LogsRequest["entries"] }): Promise<{ lost: string[] }>;
}

export interface LineageCalls {
  /**
   * The datums that made a path of a job's output commit, in order of their keys, after one. `branch`: the one that the
   * commit is in; absent: the output branch. No datum made what a job tells of bad ones. `not-yet`: its end is being written down.
   */
  provenance(
    request: ProvenanceCall,
  ): Promise<({ ok: true } & MakerPage) | Refused<"no-such-job" | "not-yet">>;
  /** Files of the output that were computed from files of an input branch as some of its commits had them. Pages may be empty. */
  outputsOf(request: OutputsCall): Promise<OutputsPage>;
  /** What became of a commit on one of its inputs: the oldest job that reads it, or why there is none. */
  fate(request: FateCall): Promise<({ ok: true } & Fate) | Refused<"no-such-pipeline">>;
}

export interface LeaseCalls {
  /**
   * Tasks or datums for a worker; waits up to `waitMs` for one. Never empty while one is queued and the worker has a slot.
   * A peek waits in the same way, and leaves them to be leased.
   * `present` is called after a wait: if it fails, the caller has gone, and nothing is leased to it.
   */
  take(request: LeaseCall): Promise<Leased | Refused<"no-such-pipeline">>;
  /** The caller of `take` went away while it waited: its slot is free, unless it called again or holds a lease. */
  vacate(request: { worker: string; visit: string }): Promise<void>;
  /** Keeps leases. Returns those that are lost, and what the jobs of the others read, by job. */
  renew(request: Renewal): Promise<RenewedLeases>;
  /** Records outcomes; the lease is the fence. Output contents were added to the output branch before. */
  finish(request: { worker: string; outcomes: readonly Outcome[] }): Promise<{ lost: string[] }>;
  /** Where outputs go. */
  output(): Promise<{ repo: string; branch: string } | null>;
}

export interface AdminCalls {
  /** How its loops stand; null if there is no such pipeline. */
  loops(): Promise<Loops | null>;
  /** How large its database is; null if there is no such pipeline. */
  space(): Promise<{ readonly usedBytes: number; readonly limitBytes: number } | null>;
  /**
   * Tells the catalogue of the pipeline and of its newest jobs again, whatever that knows. It knows the pipeline when this
   * answers; jobs follow by themselves. `unavailable`: a change is under way, or the catalogue is away; it goes on by itself.
   */
  announce(): Promise<Done | Refused<"no-such-pipeline" | "unavailable">>;
}

export interface UpdateCall extends Submitter {
  readonly spec: PipelineSpec;
  readonly reprocess: boolean;
}

export interface PlanCall {
  readonly spec: PipelineSpec;
  readonly reprocess: boolean;
  readonly ids: readonly string[];
  /** Of each id the paths that its datum reads, in order of the inputs' names. */
  readonly paths?: readonly (readonly string[])[];
}

export interface ProvenanceCall {
  readonly job: string;
  readonly branch?: string;
  readonly path: string;
  readonly after: string | null;
  readonly limit: number;
}

export interface OutputsCall extends BranchAddress {
  readonly files: readonly FileSpans[];
  readonly after?: string;
}

export interface FateCall extends BranchAddress {
  readonly commit: string;
  /** Where the commit is in the history of the branch; null: that is not known any more. */
  readonly at: CommitPosition | null;
}
export interface Fate {
  readonly state: FateState;
  /** For who may read what the pipeline reads, and not what it makes: nothing that was printed, no address, no node. */
  readonly reason: string | null;
  readonly job: string | null;
  /** The repos that it reads, and those that the job read. */
  readonly reads: readonly string[];
  /** What the job has committed. */
  readonly outputs: readonly (BranchAddress & { readonly commit: string })[];
}

export interface OutputsPage {
  readonly outputs: readonly ComputedOutput[];
  readonly next: string | null;
}
export interface ComputedOutput {
  readonly repo: string;
  readonly branch: string;
  readonly path: string;
  /** The job whose commit wrote it, and that commit. */
  readonly job: string;
  readonly commit: string | null;
}

/** A version of a specification, as the object knows it. */
export type KnownVersion = Omit<PipelineVersion, "keyDescription">;

/** `next`: versions before that one go on; null: these were the last. */
export interface VersionPage {
  readonly versions: readonly KnownVersion[];
  readonly next: number | null;
}

export interface WholeVersion {
  readonly version: KnownVersion;
  readonly spec: PipelineSpec;
  /** The text that it was read from; null: none is kept. */
  readonly text: string | null;
  /** The repos that this version reads, and those that the present one does. */
  readonly reads: readonly string[];
}

export type RetryAnswer =
  | { readonly ok: true; readonly job: Job; readonly newest: string }
  | Refused<"no-such-job">
  | Refused<"stopped" | "no-data" | "unavailable">
  | { readonly ok: false; readonly reason: "job-running"; readonly job: string };

export interface Found {
  readonly ok: true;
  readonly pipeline: PipelineInfo;
}

/** The pipelines that would make an input of a pipeline out of its own output. */
export interface Circle {
  readonly input: BranchAddress;
  /** The branch of its own that the input would be made of. */
  readonly made: BranchAddress;
  /** In the order in which data passes through them. */
  readonly through: readonly string[];
  /** Whether one of them only is about to: it may be refused, too. */
  readonly isProposed: boolean;
}

interface CircleRefused {
  readonly ok: false;
  readonly reason: "circle";
  readonly circle: Circle;
}

/**
 * Why a creation that had begun was undone: there would be a circle, or the output branch, or the one that is to tell of bad
 * datums, exists and is not this pipeline's.
 */
export type CreationRefused = Refused<"output-exists" | "errors-exist"> | CircleRefused;

/** By the datum's key; `next` goes into `after`. */
export interface MakerPage {
  readonly datums: readonly Maker[];
  readonly next: string | null;
}

export type DatumSummary = Omit<JobSummary, "job">;

export interface DatumCall {
  readonly job: string;
  readonly datum: string;
}

/**
 * `several-datums`: the ids of more than one begin so. `input-gone`: what it read can't be told any more; `input-not-kept`: a
 * branch keeps the commit no more that it read.
 */
export type DatumRefused = Refused<
  "no-such-job" | "no-such-datum" | "several-datums" | "input-gone" | "input-not-kept"
>;

export interface LogsCall {
  readonly job: string;
  readonly datum?: string;
  /** A page's `after`, or behind so many lines of a chunk: `<place>.<lines>`. */
  readonly after: string | null;
  readonly waitMs: number | null;
  /** Without `after`: begins so many lines before the end. */
  readonly tail?: number;
  /** `tail` counts the lines that came on it. Chunks come whole all the same. */
  readonly stream?: LogStream;
}

/** What came together of one datum. */
export interface LogChunk {
  readonly place: string;
  readonly datum: string;
  /** What it reads; absent: as of an earlier one of the datum on the same page, or not kept any more. */
  readonly inputs?: LogLine["inputs"];
  readonly node: string | null;
  /** Milliseconds since 1970. */
  readonly at: number;
  /** Lines before the first that are not kept. */
  readonly dropped: number;
  /**
   * Each with the milliseconds after `at` and, if it is known, with its stream's number: 1 for stdout, 2 for stderr. None: it
   * only tells what was left out.
   */
  readonly lines: readonly (readonly [afterMs: number, text: string, stream?: 1 | 2])[];
  /** So many of the lines were asked for before. */
  readonly seen: number;
}

export interface LogPage {
  readonly chunks: readonly LogChunk[];
  /** Where to go on. */
  readonly after: string | null;
  /** What there is after that. `later`: what will be printed, as a job that goes on is followed. */
  readonly rest: "more" | "later" | "none";
}

export type Renewal = Omit<RenewRequest, "pipeline">;

export interface RenewedLeases {
  readonly lost: string[];
  /** Absent: nothing was kept. */
  readonly kept?: {
    readonly output: BranchAddress;
    readonly jobs: readonly { readonly job: string; readonly inputs: readonly InputCommit[] }[];
  };
}

/** A commit that a job reads; with `from`, only what was written after that one. */
export interface InputCommit extends BranchAddress {
  readonly commit: string;
  readonly from: string | null;
}

export interface LeaseCall {
  readonly node: string;
  readonly worker: string;
  readonly max: number;
  readonly waitMs: number;
  /** Only says whether something is queued, and leases nothing. */
  readonly peek?: true;
  /** Tells this call from the worker's others, for `vacate`. */
  readonly visit?: string;
  readonly present?: () => Promise<void>;
}

/** As a runner hears it, but for its grants. `queued`: what a peek saw. */
export type Leased = { readonly ok: true } & Omit<Lease, "grants">;
