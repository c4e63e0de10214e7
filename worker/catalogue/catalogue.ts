import { type CatalogueFault, catalogueFault } from "../core/catalogue-fault.ts";
import { BRANCH_SETTINGS_PROBE, BranchSettingsTable } from "./branch-settings.ts";
import { BRANCHES_PROBE, BranchTable } from "./branches.ts";
import { ERASED_CONTENTS_PROBE, ErasedContentsTable } from "./erased-contents.ts";
import { ofFamily } from "./family.ts";
import { JOBS_PROBE, JobTable } from "./jobs.ts";
import { KeyTable } from "./keys.ts";
import { NodeTable } from "./nodes.ts";
import { PIPELINES_PROBE, PipelineTable } from "./pipelines.ts";
import { PROPOSALS_PROBE, ProposalTable } from "./proposals.ts";
import { SessionTable } from "./sessions.ts";
import { AlmostFullTable, catalogueSpace } from "./space.ts";
import { TAGS_PROBE, TagTable } from "./tags.ts";

/** Each asks for every column that is written of an object, and for no row. */
const PROBES = [
  BRANCHES_PROBE,
  BRANCH_SETTINGS_PROBE,
  TAGS_PROBE,
  PIPELINES_PROBE,
  PROPOSALS_PROBE,
  JOBS_PROBE,
  ERASED_CONTENTS_PROBE,
];

/** The directory over all objects, in D1. Rows carry the version of the object that wrote them; older writes lose. */
export type Catalogue = Readonly<ReturnType<typeof openCatalogue>>;

export function openCatalogue(database: D1Database) {
  const db = ofFamily(database);
  return {
    branches: new BranchTable(db),
    tags: new TagTable(db),
    settings: new BranchSettingsTable(db),
    pipelines: new PipelineTable(db),
    proposals: new ProposalTable(db),
    jobs: new JobTable(db),
    nodes: new NodeTable(db),
    keys: new KeyTable(db),
    sessions: new SessionTable(db),
    almostFull: new AlmostFullTable(db),
    erasedContents: new ErasedContentsTable(db),
    /** What it has, and may have. */
    space: () => catalogueSpace(db),
    /** What would keep an object from being announced here; asked before one is made. Undefined: nothing. */
    async fault(): Promise<CatalogueFault | undefined> {
      try {
        await db.batch(PROBES.map((probe) => db.prepare(probe)));
        return undefined;
      } catch (error) {
        console.warn("the catalogue can't be used", error);
        return catalogueFault(error) ?? "catalogue-unavailable";
      }
    },
    /** The name of the newest migration that was applied; undefined if none was. */
    async newestMigration(): Promise<string | undefined> {
      // Of wrangler's own table, which the embedded gateway keeps in the same form.
      const newest = "SELECT name FROM d1_migrations ORDER BY id DESC LIMIT 1";
      const row = await db.prepare(newest).first<{ name: string }>();
      return row?.name;
    },
  };
}
