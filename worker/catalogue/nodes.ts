import {
  NODE_TTL_MS,
  type NodeAbout,
  type NodeBounds,
  type NodeWork,
  QUIET_TTL_MS,
} from "../../protocol/runner.ts";
import { ERASED_PLACE } from "./erased-contents.ts";
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
  /** It is quiet, and counts as alive until then if it is not said to be gone; undefined: only as long as it beats. */
  readonly quietUntil?: number | undefined;
  readonly about?: NodeAbout | undefined;
}

export interface NodeRow extends NodeRecord {
  /** It is to finish what runs and to take nothing new. */
  readonly draining: boolean;
}

interface StoredBounds {
  readonly maxRunning: number | null;
  readonly maxWorkers: number | null;
}

type StoredNode = Omit<NodeRow, "draining" | "work" | "bounds" | "quietUntil" | "about"> &
  StoredBounds & {
    readonly draining: number;
    readonly work: string;
    readonly quietUntil: number | null;
    readonly about: string | null;
  };

const BOUNDS = "maxRunning, maxWorkers";
const COLUMNS = `name, executor, capacity, seenAt, draining, work, quietUntil, about, ${BOUNDS}`;

export type SeenNode = Pick<NodeRow, "name" | "executor" | "draining" | "bounds">;

/** Whether a node counts as alive. */
export function isAlive(
  { seenAt, quietUntil = 0 }: Pick<NodeRow, "seenAt" | "quietUntil">,
  now: number,
): boolean {
  return seenAt >= now - NODE_TTL_MS || quietUntil >= now;
}

/** One heartbeat may overtake another by so much; milliseconds. */
const OVERTAKEN_MS = 5000;

/** The nodes of the fleet: they live here alone. */
export class NodeTable extends Table {
  /** By the gateway's clock, when this isolate last heard of a node. */
  #recordedAt = 0;

  /**
   * The node lives. The mark that it is being drained stays: a node does not decide that itself. Returns the newest place of the list of
   * erased contents at that moment, if it has any: so most nodes need not ask for what follows theirs.
   */
  async record(node: NodeRecord): Promise<string | undefined> {
    const { name, executor, capacity, seenAt, work, bounds, quietUntil, about } = node;
    const isSetBack = seenAt < this.#recordedAt - OVERTAKEN_MS;
    this.#recordedAt = isSetBack ? seenAt : Math.max(seenAt, this.#recordedAt);
    // The clock was set back: else a dead node would count as alive until it has passed the time again when it was heard of.
    if (isSetBack)
      await this.run`
        UPDATE nodes SET seenAt = ${seenAt}, quietUntil = min(quietUntil, ${seenAt + QUIET_TTL_MS})
        WHERE seenAt > ${seenAt}`;
    const row = await this.first<{ newest: string | null }>`
      INSERT INTO nodes (name, executor, capacity, seenAt, work, maxRunning, maxWorkers, quietUntil, about)
      VALUES (${name}, ${executor}, ${capacity}, ${seenAt}, ${JSON.stringify(work)},
        ${bounds?.running ?? null}, ${bounds?.workers ?? null}, ${quietUntil ?? null}, ${about ? JSON.stringify(about) : null})
      ON CONFLICT (name) DO UPDATE SET executor = excluded.executor, capacity = excluded.capacity,
        seenAt = excluded.seenAt, work = excluded.work, maxRunning = excluded.maxRunning,
        maxWorkers = excluded.maxWorkers, about = excluded.about, quietUntil = excluded.quietUntil
      RETURNING (SELECT ${raw(ERASED_PLACE)} FROM erased_contents ORDER BY number DESC LIMIT 1) AS newest`;
    return row?.newest ?? undefined;
  }

  /** Nodes that have lost their sockets are quiet no more, unless they were heard of since. */
  async disquiet(gone: readonly { readonly name: string; readonly closedAt: number }[]): Promise<void> {
    await this.batch(
      gone.map(
        ({ name, closedAt }) =>
          this.statement`UPDATE nodes SET quietUntil = NULL WHERE name = ${name} AND seenAt < ${closedAt}`,
      ),
    );
  }

  /** A node that leaves in good order counts as dead at once. Its row goes, unless it carries the mark of draining. */
  async leave(name: string, now: number): Promise<void> {
    await this.batch([
      this.statement`DELETE FROM nodes WHERE name = ${name} AND draining = 0`,
      // As if it had been silent just long enough to count as dead.
      this
        .statement`UPDATE nodes SET seenAt = min(seenAt, ${now - NODE_TTL_MS - 1}), quietUntil = NULL, work = '[]'
          WHERE name = ${name}`,
    ]);
  }

  /** Marks a node, or takes the mark away. Returns the node, or null if there is no such node. */
  async setDraining(name: string, draining: 0 | 1): Promise<NodeRow | null> {
    const row = await this.first<StoredNode>`
      UPDATE nodes SET draining = ${draining} WHERE name = ${name} RETURNING ${raw(COLUMNS)}`;
    return row && nodeOf(row);
  }

  /** The nodes that are alive, by name, with what decides on their workers only: each heartbeat asks for this. */
  async alive(now: number): Promise<SeenNode[]> {
    const rows = await this.all<StoredBounds & Pick<StoredNode, "name" | "executor" | "draining">>`
      SELECT name, executor, draining, ${raw(BOUNDS)} FROM nodes
      WHERE seenAt >= ${now - QUIET_TTL_MS} AND (seenAt >= ${now - NODE_TTL_MS} OR quietUntil >= ${now})
      ORDER BY name`;
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

function nodeOf({ maxRunning, maxWorkers, quietUntil, about, ...row }: StoredNode): NodeRow {
  const bounds = boundsOf({ maxRunning, maxWorkers });
  const more = {
    ...(quietUntil !== null && { quietUntil }),
    ...(about !== null && { about: JSON.parse(about) }),
  };
  return { ...row, draining: row.draining === 1, work: JSON.parse(row.work), bounds, ...more };
}

function boundsOf({ maxRunning, maxWorkers }: StoredBounds): NodeBounds | undefined {
  return maxRunning === null || maxWorkers === null
    ? undefined
    : { running: maxRunning, workers: maxWorkers };
}
