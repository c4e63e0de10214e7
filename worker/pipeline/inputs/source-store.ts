import type { BranchAddress } from "../../../protocol/names.ts";
import type { CommitPosition, Lineage } from "../../branch/contract/pipelines.ts";
import { Store } from "../../objects/store.ts";

/** A place in a branch's history and the commit there; null: none is there, or the branch was deleted. */
export interface Position extends CommitPosition {
  readonly commit: string | null;
  /** What the commit descends from, if a job made it. */
  readonly lineage?: Lineage;
}

export interface Source extends Position {
  readonly source: number;
  readonly repo: string;
  readonly branch: string;
}

type StoredSource = Omit<Source, "lineage"> & { readonly lineage: string | null };

/** The sources: the distinct branches of the inputs, and how far each was read. */
export class SourceStore extends Store {
  /** Other branches take the place of these. A branch that is among both keeps its cursor and what is known of it. */
  replace(addresses: readonly BranchAddress[]): void {
    const known = this.sql.all<
      StoredSource & { subscribed: number; hasData: number; acknowledged: string | null }
    >`
      SELECT source, repo, branch, generation, seq, "commit", lineage, subscribed,
        hasData, acknowledged
      FROM sources`;
    this.sql.run`DELETE FROM sources`;
    for (const [source, { repo, branch }] of addresses.entries()) {
      this.insert({ source, repo, branch });
      const same = known.find((row) => row.repo === repo && row.branch === branch);
      if (!same) continue;
      this.sql.run`
        UPDATE sources SET subscribed = ${same.subscribed}, generation = ${same.generation}, seq = ${same.seq},
          "commit" = ${same.commit}, lineage = ${same.lineage}, hasData = ${same.hasData},
          acknowledged = ${same.acknowledged}
        WHERE source = ${source}`;
    }
  }

  insert({ source, repo, branch }: { source: number; repo: string; branch: string }): void {
    this.sql.run`
      INSERT INTO sources (source, repo, branch, subscribed, generation, seq, "commit", hasData)
      VALUES (${source}, ${repo}, ${branch}, 0, 0, 0, NULL, 0)`;
  }

  all(): Source[] {
    return this.sql.all<StoredSource>`
      SELECT source, repo, branch, generation, seq, "commit", lineage FROM sources
      ORDER BY source`.map(sourceOf);
  }

  unsubscribed(): Source[] {
    return this.sql.all<StoredSource>`
      SELECT source, repo, branch, generation, seq, "commit", lineage FROM sources
      WHERE subscribed = 0 ORDER BY source`.map(sourceOf);
  }

  /** The branches wake us no more, and have forgotten our low-water marks. */
  setUnsubscribed(): void {
    this.sql.run`UPDATE sources SET subscribed = 0, acknowledged = NULL`;
  }

  /** The low-water mark that a branch acknowledged last, as text; undefined: none. */
  acknowledged(source: number): string | undefined {
    const row = this.sql.first<{ acknowledged: string | null }>`
      SELECT acknowledged FROM sources WHERE source = ${source}`;
    return row?.acknowledged ?? undefined;
  }

  setAcknowledged(source: number, mark: string): void {
    this.sql.run`UPDATE sources SET acknowledged = ${mark} WHERE source = ${source}`;
  }

  subscribed(source: number, at: Position & { hasData: boolean }): void {
    this.sql.run`
      UPDATE sources SET subscribed = 1, generation = ${at.generation}, seq = ${at.seq},
        "commit" = ${at.commit}, lineage = ${textOf(at.lineage)}, hasData = ${at.hasData ? 1 : 0}
      WHERE source = ${source}`;
  }

  /** Moves past an event. Returns false if that was done before. */
  advance(source: number, to: Position): boolean {
    return this.sql.has`
      UPDATE sources SET generation = ${to.generation}, seq = ${to.seq}, "commit" = ${to.commit},
        lineage = ${textOf(to.lineage)}
      WHERE source = ${source} AND (generation, seq) < (${to.generation}, ${to.seq}) RETURNING source`;
  }

  hasData(source: number): boolean {
    return this.sql.has`SELECT 1 FROM sources WHERE source = ${source} AND hasData = 1`;
  }

  setHasData(source: number, hasData: boolean): void {
    this.sql.run`UPDATE sources SET hasData = ${hasData ? 1 : 0} WHERE source = ${source}`;
  }

  /** Whether there are inputs and each of them holds a file: the first job waits for that. */
  allHaveData(): boolean {
    const row = this.sql.first<{ count: number; empty: number }>`
      SELECT count(*) AS count, count(*) FILTER (WHERE hasData = 0) AS empty FROM sources`;
    return row !== undefined && row.count > 0 && row.empty === 0;
  }
}

function sourceOf({ lineage, ...source }: StoredSource): Source {
  return { ...source, ...(lineage !== null && { lineage: JSON.parse(lineage) }) };
}

function textOf(lineage: Lineage | undefined): string | null {
  return lineage === undefined ? null : JSON.stringify(lineage);
}

/** Whether one place in a branch's history comes after another. */
export function isAfter(a: CommitPosition, b: CommitPosition): boolean {
  return a.generation === b.generation ? a.seq > b.seq : a.generation > b.generation;
}
