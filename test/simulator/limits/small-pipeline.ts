import type { Pipeline } from "../../../worker/pipeline/pipeline.ts";
import { SMALL } from "./limits.ts";

const module = `../../../worker/pipeline/pipeline.ts${SMALL}`;
/** The class of pipelines with small limits (limits.ts). */
export const SmallPipeline: typeof Pipeline = (await import(module)).Pipeline;
