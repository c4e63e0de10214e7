import type { Facet } from "../../objects/facets.ts";
import type { PipelineContext } from "../context.ts";
import type { PipelineEngine } from "../engine/engine.ts";

/** What every call of a Pipeline object can reach. */
export interface Reach extends PipelineContext {
  readonly engine: PipelineEngine;
  /** What the object was found by. */
  readonly objectName: string | undefined;
}

/** The calls of one subject (objects/facets.ts), typed by the contract. */
export type PipelineFacet<Calls> = Facet<Calls, Reach>;
