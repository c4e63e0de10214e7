import { z } from "zod";
import { PipelineSpec } from "./spec.ts";

/** Most datums that a check shows. */
export const MAX_CHECKED_DATUMS = 10;

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
  /** Whether those are all: a look at a large branch ends early. */
  complete: z.boolean(),
});

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
    first: z
      .array(z.object({ inputs: z.array(z.object({ name: z.string(), path: z.string() })) }))
      .max(MAX_CHECKED_DATUMS),
    /** Null if not everything was looked at. */
    total: z.int().nullable(),
    /** Most that a job may have: one with more fails. Null with a single input, which has no such bound. */
    limit: z.int().nullable(),
  }),
});
export type PipelineCheck = z.infer<typeof PipelineCheck>;
