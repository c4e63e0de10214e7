import { z } from "zod";
import { PipelineSpec } from "./spec.ts";

/** Most datums that a check shows. */
export const MAX_CHECKED_DATUMS = 10;

/** Most datums that a plan names of those that run for one reason. */
export const MAX_PLANNED_EXAMPLES = 3;

/** Most datums that a job with several inputs may have: what one object can keep of them. */
export const MAX_PAIRS = 5_000_000;

const CheckedInput = z.object({
  name: z.string(),
  repo: z.string(),
  branch: z.string(),
  glob: z.string(),
  lazy: z.boolean(),
  /** The commit after which a file must have been written to belong to the input; null: all belong. */
  from: z.string().nullable(),
  /** The newest commit of the branch, which is what was looked at; null if it has none. */
  commit: z.string().nullable(),
  /** Whether a file belongs to the input. No job begins before that is so of every input. */
  hasData: z.boolean(),
  /** How many files and directories the glob was seen to match. */
  matches: z.int(),
  /** Whether those are all: a look at a large branch ends early, if they are more than 100,000 or it takes too long. */
  complete: z.boolean(),
});

/** A datum as the files and directories that it reads; a path begins with "/". */
const CheckedDatum = z.object({ inputs: z.array(z.object({ name: z.string(), path: z.string() })) });

/** Why datums would run after an update, as of the newest commits. */
export const PlanReason = z.discriminatedUnion("reason", [
  /** They have results, which would count no more: these fields say what is computed. */
  z.object({ reason: z.literal("version"), fields: z.array(z.string()) }),
  /** They have results, which would count no more because that is asked for. */
  z.object({ reason: z.literal("reprocess") }),
  /** They come with the update: these fields say which datums there are. */
  z.object({ reason: z.literal("inputs"), fields: z.array(z.string()) }),
  /** The newest job has no such datum. */
  z.object({ reason: z.literal("new") }),
  /** What they read has another content than at the newest job. */
  z.object({ reason: z.literal("changed") }),
  /** The newest job has them without a result: it failed in this job, or was killed. Null: the result is gone since. */
  z.object({
    reason: z.literal("again"),
    job: z.string().nullable(),
    state: z.enum(["failed", "killed"]).nullable(),
  }),
  /** They wait or run in this job, which the update ends if it changes what is computed or read. */
  z.object({ reason: z.literal("unfinished"), job: z.string() }),
]);
export type PlanReason = z.infer<typeof PlanReason>;

const PlanGroup = z.object({
  /** Later releases may know more reasons. */
  why: z.union([PlanReason, z.object({ reason: z.string() })]),
  /** How many datums; null: all, and how many that is is not known. */
  count: z.int().nullable(),
  /** The first of them. */
  first: z.array(CheckedDatum).max(MAX_PLANNED_EXAMPLES),
});
export type PlanGroup = z.infer<typeof PlanGroup>;

/** `POST /api/v1/pipelines?dryRun=true`: what a specification would come to. Nothing is made. */
export const PipelineCheck = z.object({
  /** With every default filled in. */
  spec: PipelineSpec,
  /** Of the nodes that live, those that may run its command and take work. */
  workers: z.object({ count: z.int(), liveNodes: z.int() }),
  /** By name, as the datums have them. */
  inputs: z.array(CheckedInput),
  datums: z.object({
    /** The first ones that were seen; a path begins with "/". */
    first: z.array(CheckedDatum).max(MAX_CHECKED_DATUMS),
    /** Null if not everything was looked at. */
    total: z.int().nullable(),
    /** How many there are in any case, by what was looked at. */
    atLeast: z.int(),
    /** Most that a job may have: one with more fails. Null with a single input, which has no such bound. */
    limit: z.int().nullable(),
  }),
  /** Of an update: what it changes, and how many datums it would run. Absent: it is none. */
  plan: z
    .object({
      /** Fields, such as `transform.image` and `inputs.images.glob`. */
      changes: z.array(z.string()),
      /** Datums that would run: all of them, or those that have no result. */
      run: z.int(),
      /** Datums that would keep their results. */
      kept: z.int(),
      /** Whether these are all; else more were there than are looked at, and these are those that were seen. */
      counted: z.boolean(),
      /** Those that would run, by their reasons, the largest group first. */
      why: z.array(PlanGroup),
    })
    .optional(),
});
export type PipelineCheck = z.infer<typeof PipelineCheck>;
