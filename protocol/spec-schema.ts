import { z } from "zod";
import { PipelineSpec } from "./spec.ts";

/** The JSON Schema of a specification as it is submitted, for editors: schema/pipeline.schema.json. */
export function pipelineJsonSchema(): z.core.JSONSchema.BaseSchema {
  const schema = z.toJSONSchema(PipelineSpec, {
    io: "input",
    target: "draft-7",
    // zod leaves out the default of what it transforms.
    override({ zodSchema, jsonSchema }) {
      if (zodSchema instanceof z.ZodDefault) jsonSchema.default ??= zodSchema.def.defaultValue as never;
    },
  });
  return {
    title: "Sluice pipeline specification",
    description: "What a pipeline reads, what runs, and where its results go. See docs/pipeline-spec.md.",
    ...schema,
  };
}
