import type { Lineage } from "../contract/pipelines.ts";
import { BranchStore } from "../store.ts";
import type { Position } from "./commit-store.ts";

/**
 * What the commits of jobs descend from. A row holds from its commit on until the next one, so that a branch whose
 * jobs always read the same pipelines has one. Commits of clients descend from nothing.
 */
export class LineageStore extends BranchStore {
  /** The commit at this position, if a job makes it, has this lineage. */
  record({ gen, seq }: Position, lineage: Lineage): void {
    const text = JSON.stringify(lineage);
    const last = this.sql.first<{ lineage: string }>`
      SELECT lineage FROM lineages WHERE gen = ${gen} AND seq <= ${seq} ORDER BY seq DESC LIMIT 1`;
    if (last?.lineage === text) return;
    // The job that noted another one for this commit did not make it.
    this.sql.run`INSERT OR REPLACE INTO lineages (gen, seq, lineage) VALUES (${gen}, ${seq}, ${text})`;
  }

  /** Undefined: a client made the commit. */
  of({ gen, seq }: Position): Lineage | undefined {
    const row = this.sql.first<{ lineage: string }>`
      SELECT l.lineage FROM commits AS c CROSS JOIN lineages AS l ON l.gen = c.gen AND l.seq <= c.seq
      WHERE c.gen = ${gen} AND c.seq = ${seq} AND c.origin IS NOT NULL ORDER BY l.seq DESC LIMIT 1`;
    return row && JSON.parse(row.lineage);
  }
}
