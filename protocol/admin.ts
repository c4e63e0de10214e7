import { z } from "zod";

/** Most markers in one page of a rebuild. */
export const MAX_REBUILT = 50;

/**
 * `POST /api/v1/admin/rebuild?limit=&after=`: a page of the branches and pipelines tell the catalogue of themselves; `next`
 * goes into `after`. The jobs of a pipeline follow by themselves within seconds.
 */
export const CatalogueRebuilt = z.object({
  /** So many branches and pipelines there are, in this page. */
  branches: z.int(),
  pipelines: z.int(),
  /** So many branches there were, which are deleted. */
  deleted: z.int(),
  /** What has a marker and no object: it was never finished, or its object is lost. */
  missing: z.array(z.string()),
  /** What could not tell it just now: try again. */
  failed: z.array(z.string()),
  next: z.string().nullable(),
});
export type CatalogueRebuilt = z.infer<typeof CatalogueRebuilt>;
