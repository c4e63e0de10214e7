import type { BranchAddress } from "../../protocol/names.ts";
import { raw, Table } from "./table.ts";

/** What a pipeline is about to read and write. */
export interface Proposal {
  readonly pipeline: string;
  readonly id: string;
  /** The pipeline's. */
  readonly uid: string;
  readonly inputs: readonly BranchAddress[];
  readonly output: BranchAddress;
  /** Whether it writes to its errors branch, too. */
  readonly errors: boolean;
}

/** What a pipeline reads and writes, or is about to. */
export interface PlannedFlow extends Omit<Proposal, "id" | "uid"> {
  readonly isProposed: boolean;
}

interface StoredRow {
  pipeline: string;
  inputs: string;
  outputRepo: string;
  outputBranch: string;
  errors: number;
}

const COLUMNS = "pipeline, id, uid, inputs, outputRepo, outputBranch, errors";

export const PROPOSALS_PROBE = `SELECT ${COLUMNS} FROM proposals LIMIT 0`;

/** The edges that pipelines are about to add to their graph, written down before the graph is checked. */
export class ProposalTable extends Table {
  /** Writes a proposal down; once it is there, nothing changes. */
  async add({ pipeline, id, uid, inputs, output, errors }: Proposal): Promise<void> {
    await this.run`
      INSERT INTO proposals (${raw(COLUMNS)})
      VALUES (${pipeline}, ${id}, ${uid}, ${JSON.stringify(inputs)}, ${output.repo}, ${output.branch}, ${errors ? 1 : 0})
      ON CONFLICT DO NOTHING`;
  }

  /** Takes proposals back. */
  async remove(pipeline: string, ids: readonly string[]): Promise<void> {
    await this.run`
      DELETE FROM proposals
      WHERE pipeline = ${pipeline} AND id IN (SELECT value FROM json_each(${JSON.stringify(ids)}))`;
  }

  /**
   * The whole graph: what every pipeline reads and writes, and what each is about to. Both are read at one moment:
   * what is proposed now and established a moment later would else be missed.
   */
  async graph(): Promise<PlannedFlow[]> {
    const [established, proposed] = await this.batch<StoredRow>([
      this.statement`
        SELECT name AS pipeline, inputs, outputRepo, outputBranch, errors FROM pipelines WHERE deleted = 0`,
      // Those of a pipeline that was deleted count no more, also before they are taken back.
      this.statement`
        SELECT pipeline, inputs, outputRepo, outputBranch, errors FROM proposals AS p WHERE NOT EXISTS (
          SELECT 1 FROM pipelines WHERE name = p.pipeline AND uid = p.uid AND deleted = 1)`,
    ]);
    return [
      ...(established?.results ?? []).map((row) => flowOf(row, { isProposed: false })),
      ...(proposed?.results ?? []).map((row) => flowOf(row, { isProposed: true })),
    ];
  }
}

function flowOf(row: StoredRow, { isProposed }: { isProposed: boolean }): PlannedFlow {
  return {
    pipeline: row.pipeline,
    inputs: JSON.parse(row.inputs),
    output: { repo: row.outputRepo, branch: row.outputBranch },
    errors: row.errors === 1,
    isProposed,
  };
}
