import { z } from "zod";
import { PipelineSpec } from "./spec.ts";

/** `egressing`: its output is committed and is being pushed to the external store. `killed`: it was stopped, by itself or with its pipeline. */
export const JobState = z.enum(["starting", "running", "egressing", "success", "failure", "killed"]);
export type JobState = z.infer<typeof JobState>;

/** A job as the control API shows it. Times are milliseconds since 1970; `reason` says in words why it failed or what it waits for. */
export const Job = z.object({
  id: z.string(),
  pipeline: z.string(),
  state: JobState,
  reason: z.string().nullable(),
  inputs: z.array(
    z.object({ name: z.string(), repo: z.string(), branch: z.string(), commit: z.string().nullable() }),
  ),
  outputCommit: z.string().nullable(),
  datums: z.object({ total: z.int(), processed: z.int(), skipped: z.int(), failed: z.int() }),
  createdAt: z.int(),
  startedAt: z.int().nullable(),
  finishedAt: z.int().nullable(),
});
export type Job = z.infer<typeof Job>;

/** `killed`: its job ended before it was done. */
const DatumState = z.enum(["queued", "running", "success", "skipped", "failed", "killed"]);

/** A datum of a job. While it is tried again, `exitCode` and `reason` are of the last try that failed. */
export const JobDatum = z.object({
  id: z.string(),
  state: DatumState,
  /** Tries that failed. */
  tries: z.int(),
  exitCode: z.int().nullable(),
  reason: z.string().nullable(),
  /** The node that it runs or ran on. */
  node: z.string().nullable(),
  /** `path`: the match, from the root of the repo; "" is the root itself. */
  inputs: z.array(z.object({ name: z.string(), path: z.string(), commit: z.string().nullable() })),
});
export type JobDatum = z.infer<typeof JobDatum>;

/** A page of a job's datums: those that it ran or is to run, then those that it skipped. `next` goes into `after`. */
export const DatumPage = z.object({ datums: z.array(JobDatum), next: z.string().nullable() });
export type DatumPage = z.infer<typeof DatumPage>;

/** One line of what a job's datum wrote on stdout or stderr (NDJSON). `at`: when, in milliseconds since 1970 by the gateway's clock. */
export const LogLine = z.object({
  datum: z.string(),
  /** The node that it ran on. */
  node: z.string().nullable(),
  at: z.int(),
  /** Null: nothing that is kept follows what was left out. */
  line: z.string().nullable(),
  /** So many lines before this one were left out, as the datum printed more than is kept. */
  dropped: z.int().positive().optional(),
  /** The place behind this line: goes into `after`. */
  next: z.string().optional(),
});
export type LogLine = z.infer<typeof LogLine>;

/** A page of jobs, newest first; `next` goes into `after`. */
export const JobPage = z.object({ jobs: z.array(Job), next: z.string().nullable() });
export type JobPage = z.infer<typeof JobPage>;

/** What ends in "ing" goes on by itself. A pipeline that is stopped makes no jobs and follows no input. */
const PipelineState = z.enum([
  "creating",
  "active",
  "stopping",
  "stopped",
  "starting",
  "updating",
  "deleting",
]);

export const Pipeline = z.object({
  name: z.string(),
  state: PipelineState,
  /** Of its specification: 1, and one more with each update. */
  version: z.int(),
  createdAt: z.int(),
  spec: PipelineSpec,
  outputRepo: z.string(),
  outputBranch: z.string(),
  /**
   * Whether it belongs to a key that is limited to repos: the one that last created or updated it. Null: it is from a release
   * that did not write that down, and counts as if it did. Absent: so is the gateway.
   */
  limited: z.boolean().nullable().optional(),
  /** JSON paths of what the specification has and this key may not see: it may not read all of the inputs. */
  hidden: z.array(z.string()).optional(),
  /** What it waits for before it makes its first job, in words; null if it waits for nothing. */
  reason: z.string().nullable().default(null),
});
export type Pipeline = z.infer<typeof Pipeline>;

export const PipelineList = z.object({
  pipelines: z.array(
    z.object({
      name: z.string(),
      state: PipelineState,
      createdAt: z.int(),
      inputs: z.array(z.string()),
      output: z.string(),
    }),
  ),
});
export type PipelineList = z.infer<typeof PipelineList>;
