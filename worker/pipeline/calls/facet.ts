import type { Facet } from "../../objects/facets.ts";
import type { PipelineContext } from "../context.ts";
import type { Engine } from "../engine/engine.ts";

/** What every call of a Pipeline object can reach. */
export interface Reach extends PipelineContext {
  readonly engine: Engine;
  /** What the object was found by. */
  readonly objectName: string | undefined;
}

/** The calls of one subject (objects/facets.ts), typed by the contract. */
export type PipelineFacet<Calls> = Facet<Calls, Reach>;
