import type { PipelineSpec } from "../../../../protocol/spec.ts";
import type { SimulatedObject } from "../../platform/objects.ts";

/** A position that a job read of a branch. */
export interface PositionRow {
  readonly generation: number;
  readonly seq: number;
  readonly commit: string | null;
}

export interface JobRow {
  readonly n: number;
  readonly id: string;
  readonly state: string;
  readonly reason: string | null;
  readonly revision: number;
  readonly source: number;
  readonly generation: number;
  readonly seq: number;
  readonly positions: readonly PositionRow[];
  readonly total: number;
  readonly processed: number;
  readonly skipped: number;
  readonly failed: number;
  readonly outputCommit: string | null;
  readonly createdAt: number;
  readonly finishedAt: number | null;
}

export interface AttemptRow {
  readonly job: number;
  readonly id: string;
  readonly key: string;
  readonly state: string;
  readonly lost: number;
  /** 1: it failed by its own fault alone. */
  readonly isBad: number;
}

export interface InputRow {
  readonly name: string;
  readonly repo: string;
  readonly glob: string;
  /** The commit that it starts after. */
  readonly from: string | null;
}

export interface RevisionRow {
  readonly cmd: string;
  readonly salt: string;
  readonly skips: boolean;
  readonly createdAt: number;
  /** The external store that results are pushed to. */
  readonly store: string | null;
  /** In order of their names. */
  readonly inputs: readonly InputRow[];
}

/** What a pipeline has written down, as somebody sees it who opens its database. */
export class PipelineRows {
  readonly object: SimulatedObject;

  constructor(object: SimulatedObject) {
    this.object = object;
  }

  get state(): string | undefined {
    return this.#read<{ state: string }>("SELECT state FROM pipeline", "pipeline")[0]?.state;
  }

  get uid(): string {
    return this.#read<{ uid: string }>("SELECT uid FROM pipeline", "pipeline")[0]?.uid ?? "";
  }

  /** When it was made; milliseconds since 1970. */
  get createdAt(): number {
    return this.#read<{ createdAt: number }>("SELECT createdAt FROM pipeline", "pipeline")[0]?.createdAt ?? 0;
  }

  /** The present version of its specification. */
  get revision(): number {
    return this.#read<{ revision: number }>("SELECT revision FROM pipeline", "pipeline")[0]?.revision ?? 0;
  }

  get isThere(): boolean {
    const { state } = this;
    return state !== undefined && state !== "deleted";
  }

  /** What still waits for something to be done; empty: it rests. */
  get unrest(): string[] {
    if (!this.isThere) return [];
    const rows = [
      ...this.#read<{ what: string }>(
        "SELECT 'is ' || state AS what FROM pipeline WHERE state NOT IN ('active', 'stopped')",
      ),
      ...this.#read<{ what: string }>(
        "SELECT 'can not tell ' || receiver AS what FROM outbox WHERE tries > 0",
      ),
      ...this.#read<{ what: string }>(
        "SELECT 'is to read its inputs' AS what FROM pipeline WHERE pullDue = 1",
      ),
      ...this.#read<{ what: string }>(
        `SELECT 'job ' || n || ' is ' || state || ', ' || coalesce(reason, '') AS what FROM jobs
         WHERE finishedAt IS NULL OR filled = 0 OR reaping = 1`,
      ),
    ];
    return rows.map(({ what }) => what);
  }

  get hasOpenJobs(): boolean {
    return this.isThere && this.#read("SELECT 1 FROM jobs WHERE finishedAt IS NULL LIMIT 1").length > 0;
  }

  get sources(): readonly (PositionRow & { readonly repo: string })[] {
    return this.#read("SELECT source, repo, generation, seq FROM sources ORDER BY source");
  }

  /** All that were ever made, also those of which it knows no more. */
  get jobs(): readonly JobRow[] {
    const rows = this.#read<Omit<JobRow, "positions"> & { positions: string }>(
      "SELECT * FROM all_jobs ORDER BY n",
    );
    return rows.map((row) => ({ ...row, positions: JSON.parse(row.positions) }));
  }

  /** The numbers of jobs that it still knows. */
  get known(): ReadonlySet<number> {
    return new Set(this.#read<{ n: number }>("SELECT n FROM jobs").map(({ n }) => n));
  }

  /** Of all jobs. */
  get attempts(): readonly AttemptRow[] {
    return this.#read("SELECT job, id, key, state, lost, isBad FROM all_attempts ORDER BY job, key");
  }

  /** The versions that it still has. */
  get keptRevisions(): ReadonlySet<number> {
    const rows = this.#read<{ revision: number }>("SELECT revision FROM revisions");
    return new Set(rows.map(({ revision }) => revision));
  }

  /** All that there ever were. */
  get revisions(): ReadonlyMap<number, RevisionRow> {
    const rows = this.#read<{ revision: number; spec: string; salt: string; createdAt: number }>(
      "SELECT revision, spec, salt, createdAt FROM all_revisions",
    );
    return new Map(
      rows.map(({ revision, spec, salt, createdAt }) => {
        const { transform, onDatumFailure, egress, inputs } = JSON.parse(spec) as PipelineSpec;
        const read = inputs.map(({ name, repo, glob, from }) => ({
          ...{ name: name ?? repo.name, repo: repo.name, glob },
          from: from?.ID ?? null,
        }));
        const row: RevisionRow = {
          ...{ cmd: transform.cmd[0] ?? "", salt, skips: onDatumFailure === "skip", createdAt },
          store: egress?.URL ?? null,
          inputs: read.sort((one, other) => (one.name < other.name ? -1 : 1)),
        };
        return [revision, row];
      }),
    );
  }

  /** The keys of the datums that are alive. */
  get alive(): string[] {
    return this.#read<{ key: string }>("SELECT key FROM datums WHERE died IS NULL ORDER BY key").map(
      ({ key }) => key,
    );
  }

  /** Uploads whose contents results and merges have. */
  get uploads(): ReadonlySet<string> {
    const rows = this.#read<{ upload: string }>(
      `SELECT upload FROM results WHERE upload IS NOT NULL
       UNION SELECT upload FROM merges WHERE upload IS NOT NULL`,
    );
    return new Set(rows.map(({ upload }) => upload));
  }

  /** The same of jobs that have not committed yet. */
  get newUploads(): string[] {
    const rows = this.#read<{ upload: string }>(
      `SELECT upload FROM results JOIN jobs ON n = job
       WHERE upload IS NOT NULL AND jobs.finishedAt IS NULL AND outputCommit IS NULL
       UNION SELECT upload FROM merges JOIN jobs ON n = used
       WHERE upload IS NOT NULL AND finishedAt IS NULL AND outputCommit IS NULL`,
    );
    return rows.map(({ upload }) => upload);
  }

  /** The keys of the datums whose results name an upload. */
  keysOf(upload: string): string[] {
    return this.#read<{ key: string }>(
      `SELECT DISTINCT key FROM all_attempts JOIN results USING (id) WHERE upload = '${upload}'`,
    ).map(({ key }) => key);
  }

  /** Whatever must not be there while it rests. */
  get leftOver(): string[] {
    return LEFT_OVER.flatMap((sql) => this.#read<{ what: string }>(sql)).map((row) => JSON.stringify(row));
  }

  #read<Row extends object>(sql: string, table = "jobs"): Row[] {
    const { storage } = this.object;
    return storage.has(table) ? storage.read<Row>(sql) : [];
  }
}

const LEFT_OVER = [
  "SELECT 'touched' AS what, job, path FROM touched",
  // What a job leaves that failed in its end is cleared when the next one ends.
  "SELECT 'task' AS what, job, t.id FROM tasks AS t JOIN jobs ON n = job WHERE jobs.state = 'success'",
  "SELECT 'attempt ' || state AS what, job, id FROM attempts WHERE finishedAt IS NULL",
  "SELECT 'lease' AS what, lease FROM lost_leases",
  "SELECT 'ending' AS what, step FROM ending JOIN jobs ON n = job WHERE state = 'success'",
  `SELECT 'counters' AS what, n, id FROM jobs
   WHERE (state = 'success' OR state = 'failure' AND reason NOT LIKE 'there is no secret%' AND reason NOT LIKE 'the job ran longer%' AND reason NOT LIKE 'its inputs make%') AND (open <> 0
     OR processed <> (SELECT count(*) FROM all_attempts WHERE job = jobs.n AND state = 'success')
     OR failed <> (SELECT count(*) FROM all_attempts WHERE job = jobs.n AND state = 'failed')
     OR total <> processed + skipped + failed)`,
  "SELECT 'twice alive' AS what, key FROM datums WHERE died IS NULL GROUP BY key HAVING count(*) > 1",
  `SELECT 'alive' AS what, alive FROM pipeline
   WHERE alive <> (SELECT count(*) FROM datums WHERE died IS NULL) AND state = 'active'`,
  "SELECT 'not told' AS what, n FROM jobs WHERE flushed < version",
];
