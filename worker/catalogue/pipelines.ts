import type { BranchAddress } from "../../protocol/names.ts";
import type { ParallelismSpec, Transform } from "../../protocol/spec.ts";

export interface PipelineRow {
  readonly name: string;
  readonly uid: string;
  readonly state: "creating" | "active" | "stopped" | "deleting";
  /** Milliseconds since 1970. */
  readonly createdAt: number;
  readonly inputs: readonly BranchAddress[];
  readonly output: BranchAddress;
  /** Whether it writes to the branch that tells of bad datums, too. */
  readonly errors: boolean;
  readonly parallelism: ParallelismSpec;
  /** As in the transform. */
  readonly container?: Transform["container"];
  /** As in the specification. */
  readonly description?: string | undefined;
}

export interface PipelineRecord extends PipelineRow {
  /** Grows with each change of the pipeline, across deletion and re-creation. */
  readonly version: number;
  readonly deleted: boolean;
}

interface StoredRow {
  name: string;
  uid: string;
  state: PipelineRow["state"];
  createdAt: number;
  inputs: string;
  outputRepo: string;
  outputBranch: string;
  parallelism: string;
  container: string | null;
  errors: number;
  description: string | null;
}

const COLUMNS =
  "name, uid, state, createdAt, inputs, outputRepo, outputBranch, parallelism, container, errors, description";

export const PIPELINES_PROBE = `SELECT ${COLUMNS}, version, deleted FROM pipelines LIMIT 0`;

/** Which pipelines there are, what they read and write, and how many workers each wants. */
export class PipelineTable {
  readonly #db: D1Database;

  constructor(db: D1Database) {
    this.#db = db;
  }

  /** Writes what a Pipeline object says of itself; a version older than the stored one changes nothing. */
  async record(pipeline: PipelineRecord): Promise<void> {
    await this.#db
      .prepare(
        `INSERT INTO pipelines (${COLUMNS}, version, deleted) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
         ON CONFLICT (name) DO UPDATE SET
           uid = excluded.uid, state = excluded.state, createdAt = excluded.createdAt, inputs = excluded.inputs,
           outputRepo = excluded.outputRepo, outputBranch = excluded.outputBranch,
           parallelism = excluded.parallelism, container = excluded.container, errors = excluded.errors, description = excluded.description,
           version = excluded.version, deleted = excluded.deleted
         WHERE excluded.version > pipelines.version`,
      )
      .bind(
        pipeline.name,
        pipeline.uid,
        pipeline.state,
        pipeline.createdAt,
        JSON.stringify(pipeline.inputs),
        pipeline.output.repo,
        pipeline.output.branch,
        JSON.stringify(pipeline.parallelism),
        pipeline.container ?? null,
        pipeline.errors ? 1 : 0,
        pipeline.description ?? null,
        pipeline.version,
        pipeline.deleted ? 1 : 0,
      )
      .run();
  }

  /** Forgets what it was told of a later state of the pipeline than the one that its object is in: the object was set back. */
  async setBack({ name, version }: Pick<PipelineRecord, "name" | "version">): Promise<void> {
    await this.#db
      .prepare("DELETE FROM pipelines WHERE name = ?1 AND version > ?2")
      .bind(name, version)
      .run();
  }

  /** Every pipeline that is not deleted, by name. */
  async list(): Promise<PipelineRow[]> {
    const { results } = await this.#db
      .prepare(`SELECT ${COLUMNS} FROM pipelines WHERE deleted = 0 ORDER BY name`)
      .all<StoredRow>();
    return results.map(pipelineRow);
  }
}

function pipelineRow(row: StoredRow): PipelineRow {
  return {
    name: row.name,
    uid: row.uid,
    state: row.state,
    createdAt: row.createdAt,
    inputs: JSON.parse(row.inputs),
    output: { repo: row.outputRepo, branch: row.outputBranch },
    errors: row.errors === 1,
    parallelism: JSON.parse(row.parallelism),
    ...(row.container === "required" && { container: row.container }),
    ...(row.description !== null && { description: row.description }),
  };
}
