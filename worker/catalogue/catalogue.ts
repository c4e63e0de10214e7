import { BranchTable } from "./branches.ts";
import { JobTable } from "./jobs.ts";
import { KeyTable } from "./keys.ts";
import { NodeTable } from "./nodes.ts";
import { PipelineTable } from "./pipelines.ts";

/** The directory over all objects, in D1. Rows carry the version of the object that wrote them; older writes lose. */
export interface Catalogue {
  readonly branches: BranchTable;
  readonly pipelines: PipelineTable;
  readonly jobs: JobTable;
  readonly nodes: NodeTable;
  readonly keys: KeyTable;
}

export function openCatalogue(db: D1Database): Catalogue {
  return {
    branches: new BranchTable(db),
    pipelines: new PipelineTable(db),
    jobs: new JobTable(db),
    nodes: new NodeTable(db),
    keys: new KeyTable(db),
  };
}
