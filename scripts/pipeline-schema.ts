import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pipelineJsonSchema } from "../protocol/spec-schema.ts";

/** Writes schema/pipeline.schema.json: `npm run schema:generate`. */
const folder = join(import.meta.dirname, "../schema");
mkdirSync(folder, { recursive: true });
writeFileSync(join(folder, "pipeline.schema.json"), `${JSON.stringify(pipelineJsonSchema(), null, 2)}\n`);
