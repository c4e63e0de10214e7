import type { BranchAddress } from "../../protocol/names.ts";
import type { ParallelismSpec, Transform } from "../../protocol/spec.ts";
import { raw, Table } from "./table.ts";

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
export class PipelineTable extends Table {
  /** Writes what a Pipeline object says of itself; a version older than the stored one changes nothing. */
  async record({
    name,
    uid,
    state,
    createdAt,
    output,
    version,
    deleted,
    ...rest
  }: PipelineRecord): Promise<void> {
    const { inputs, parallelism, container = null, errors, description = null } = rest;
    await this.run`
      INSERT INTO pipelines (${raw(COLUMNS)}, version, deleted)
      VALUES (${name}, ${uid}, ${state}, ${createdAt}, ${JSON.stringify(inputs)}, ${output.repo}, ${output.branch},
        ${JSON.stringify(parallelism)}, ${container}, ${errors ? 1 : 0}, ${description}, ${version}, ${deleted ? 1 : 0})
      ON CONFLICT (name) DO UPDATE SET
        uid = excluded.uid, state = excluded.state, createdAt = excluded.createdAt, inputs = excluded.inputs,
        outputRepo = excluded.outputRepo, outputBranch = excluded.outputBranch,
        parallelism = excluded.parallelism, container = excluded.container, errors = excluded.errors,
        description = excluded.description, version = excluded.version, deleted = excluded.deleted
      WHERE excluded.version > pipelines.version`;
  }

  /** Forgets what it was told of a later state of the pipeline than the one that its object is in: the object was set back. */
  async setBack({ name, version }: Pick<PipelineRecord, "name" | "version">): Promise<void> {
    await this.run`DELETE FROM pipelines WHERE name = ${name} AND version > ${version}`;
  }

  /** Whether there ever was a pipeline of this name. */
  async isKnown(name: string): Promise<boolean> {
    return (await this.first`SELECT 1 FROM pipelines WHERE name = ${name}`) !== null;
  }

  /** Every pipeline that is not deleted, by name. */
  async list(): Promise<PipelineRow[]> {
    const rows = await this.all<StoredRow>`
      SELECT ${raw(COLUMNS)} FROM pipelines WHERE deleted = 0 ORDER BY name`;
    return rows.map(pipelineRow);
  }
}

function pipelineRow(row: StoredRow): PipelineRow {
  const { name, uid, state, createdAt, inputs, outputRepo, outputBranch, parallelism, container } = row;
  return {
    ...{ name, uid, state, createdAt },
    inputs: JSON.parse(inputs),
    output: { repo: outputRepo, branch: outputBranch },
    errors: row.errors === 1,
    parallelism: JSON.parse(parallelism),
    ...(container === "required" && { container }),
    ...(row.description !== null && { description: row.description }),
  };
}
