import { z } from "zod";
import { PipelineSpec } from "./spec.ts";

export const JobState = z.enum(["starting", "running", "success", "failure"]);
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

/** A page of jobs, newest first; `next` goes into `after`. */
export const JobPage = z.object({ jobs: z.array(Job), next: z.string().nullable() });
export type JobPage = z.infer<typeof JobPage>;

const PipelineState = z.enum(["creating", "active", "deleting"]);

export const Pipeline = z.object({
  name: z.string(),
  state: PipelineState,
  createdAt: z.int(),
  spec: PipelineSpec,
  outputRepo: z.string(),
  outputBranch: z.string(),
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
