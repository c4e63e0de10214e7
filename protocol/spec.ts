import { z } from "zod";
import { Name } from "./names.ts";

/**
 * The pipeline specification (spec §2). Strict: a field that is not here is refused. The gateway adds the rules
 * that need more than one field (worker/core/spec.ts) and those that need the catalogue.
 */
export const Transform = z.strictObject({
  image: z.string().min(1),
  cmd: z.array(z.string()).min(1),
  stdin: z.array(z.string()).optional(),
  env: z.record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/), z.string()).optional(),
  acceptReturnCode: z.array(z.int().min(0).max(255)).optional(),
});
export type Transform = z.infer<typeof Transform>;

export const ParallelismSpec = z.discriminatedUnion("strategy", [
  z.strictObject({
    strategy: z.literal("CONSTANT"),
    constant: z.int().min(1),
    coefficient: z.number().optional(),
  }),
  z.strictObject({
    strategy: z.literal("COEFFICIENT"),
    coefficient: z.number().positive(),
    constant: z.int().optional(),
  }),
]);
export type ParallelismSpec = z.infer<typeof ParallelismSpec>;

const Input = z.strictObject({
  name: Name.optional(),
  repo: z.strictObject({ name: Name }),
  branch: Name.default("master"),
  glob: z.string().min(1),
});

/** As submitted, with the spec's defaults filled in where they are constant. */
export const PipelineSpec = z.strictObject({
  pipeline: z.strictObject({ name: Name }),
  transform: Transform,
  parallelism_spec: ParallelismSpec.default({ strategy: "COEFFICIENT", coefficient: 1 }),
  inputs: z.array(Input).default([]),
  outputBranch: Name.default("master"),
});
export type PipelineSpec = z.infer<typeof PipelineSpec>;

/** An input with every default resolved. */
export interface ResolvedInput {
  readonly name: string;
  readonly repo: string;
  readonly branch: string;
  readonly glob: string;
}
