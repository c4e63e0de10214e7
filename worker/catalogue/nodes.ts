import type { NodeBounds, NodeWork } from "../../protocol/runner.ts";
import { raw, Table } from "./table.ts";

/** What a node says of itself. */
export interface NodeRecord {
  readonly name: string;
  readonly executor: string;
  /** Cores. */
  readonly capacity: number;
  /** When it was last heard of, by the gateway's clock; milliseconds since 1970. */
  readonly seenAt: number;
  readonly work: readonly NodeWork[];
  /** What it has room for; undefined: it does not say. */
  readonly bounds?: NodeBounds | undefined;
}

export interface NodeRow extends NodeRecord {
  /** It is to finish what runs and to take nothing new. */
  readonly draining: boolean;
}

interface StoredBounds {
  readonly maxRunning: number | null;
  readonly maxWorkers: number | null;
}

type StoredNode = Omit<NodeRow, "draining" | "work" | "bounds"> &
  StoredBounds & { readonly draining: number; readonly work: string };

const BOUNDS = "maxRunning, maxWorkers";
const COLUMNS = `name, executor, capacity, seenAt, draining, work, ${BOUNDS}`;

export type SeenNode = Pick<NodeRow, "name" | "executor" | "draining" | "bounds">;

/** One heartbeat may overtake another by so much; milliseconds. */
const OVERTAKEN_MS = 5000;

/** The nodes of the fleet: they live here alone. */
export class NodeTable extends Table {
  /** By the gateway's clock, when this isolate last heard of a node. */
  #recordedAt = 0;

  /** The node lives. The mark that it is being drained stays: a node does not decide that itself. */
  async record({ name, executor, capacity, seenAt, work, bounds }: NodeRecord): Promise<void> {
    const isSetBack = seenAt < this.#recordedAt - OVERTAKEN_MS;
    this.#recordedAt = isSetBack ? seenAt : Math.max(seenAt, this.#recordedAt);
    // The clock was set back: else a dead node would count as alive until it has passed the time again when it was heard of.
    if (isSetBack) await this.run`UPDATE nodes SET seenAt = ${seenAt} WHERE seenAt > ${seenAt}`;
    await this.run`
      INSERT INTO nodes (name, executor, capacity, seenAt, work, maxRunning, maxWorkers)
      VALUES (${name}, ${executor}, ${capacity}, ${seenAt}, ${JSON.stringify(work)},
        ${bounds?.running ?? null}, ${bounds?.workers ?? null})
      ON CONFLICT (name) DO UPDATE SET executor = excluded.executor, capacity = excluded.capacity,
        seenAt = excluded.seenAt, work = excluded.work, maxRunning = excluded.maxRunning,
        maxWorkers = excluded.maxWorkers`;
  }

  /** A node that leaves in good order counts as dead at once. Its row goes, unless it carries the mark of draining. */
  async leave(name: string, { now, ttlMs }: { now: number; ttlMs: number }): Promise<void> {
    await this.batch([
      this.statement`DELETE FROM nodes WHERE name = ${name} AND draining = 0`,
      // As if it had been silent just long enough to count as dead.
      this
        .statement`UPDATE nodes SET seenAt = min(seenAt, ${now - ttlMs - 1}), work = '[]' WHERE name = ${name}`,
    ]);
  }

  /** Marks a node, or takes the mark away. Returns the node, or null if there is no such node. */
  async setDraining(name: string, draining: 0 | 1): Promise<NodeRow | null> {
    const row = await this.first<StoredNode>`
      UPDATE nodes SET draining = ${draining} WHERE name = ${name} RETURNING ${raw(COLUMNS)}`;
    return row && nodeOf(row);
  }

  /** Nodes heard of since a time, by name, with what decides on their workers only: each heartbeat asks for this. */
  async seenSince(since: number): Promise<SeenNode[]> {
    const rows = await this.all<StoredBounds & Pick<StoredNode, "name" | "executor" | "draining">>`
      SELECT name, executor, draining, ${raw(BOUNDS)} FROM nodes WHERE seenAt >= ${since} ORDER BY name`;
    return rows.map(({ name, executor, draining, ...bounds }) => ({
      ...{ name, executor, draining: draining === 1 },
      bounds: boundsOf(bounds),
    }));
  }

  /** Nodes heard of since a time and those that are marked, by name. */
  async list(since: number): Promise<NodeRow[]> {
    const rows = await this.all<StoredNode>`
      SELECT ${raw(COLUMNS)} FROM nodes WHERE seenAt >= ${since} OR draining = 1 ORDER BY name`;
    return rows.map(nodeOf);
  }
}

function nodeOf({ maxRunning, maxWorkers, ...row }: StoredNode): NodeRow {
  const bounds = boundsOf({ maxRunning, maxWorkers });
  return { ...row, draining: row.draining === 1, work: JSON.parse(row.work), bounds };
}

function boundsOf({ maxRunning, maxWorkers }: StoredBounds): NodeBounds | undefined {
  return maxRunning === null || maxWorkers === null
    ? undefined
    : { running: maxRunning, workers: maxWorkers };
}
