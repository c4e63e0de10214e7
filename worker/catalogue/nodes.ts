import {
  NODE_TTL_MS,
  type NodeAbout,
  type NodeBounds,
  type NodeWork,
  QUIET_TTL_MS,
} from "../../protocol/runner.ts";
import { ERASED_PLACE } from "./erased-contents.ts";
import { part, raw, Table } from "./table.ts";

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
    readonly vouchedAt: number | null;
  };

/** For so long after a Fleet object said that it lives, the quiet nodes of which it has sockets count as alive. It does so each minute. */
export const VOUCHED_MS = 150_000;

/** When the Fleet object that has a socket of the node was heard of. */
const VOUCHED_AT = "(SELECT fleets.seenAt FROM fleets WHERE fleets.name = fleet)";
const BOUNDS = "maxRunning, maxWorkers";
const COLUMNS = `name, executor, capacity, seenAt, draining, work, quietUntil, about, ${VOUCHED_AT} AS vouchedAt, ${BOUNDS}`;
/** The newest place of the list of erased contents. */
const NEWEST = `(SELECT ${ERASED_PLACE} FROM erased_contents ORDER BY number DESC LIMIT 1) AS newest`;

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
   * erased contents at that moment, if it has any: so most nodes need not ask for what follows theirs. What a quiet node says is not
   * written down if people and the gateway know it, and a Fleet object vouches for the node until after its next heartbeat.
   */
  async record(node: NodeRecord): Promise<string | undefined> {
    const { name, executor, capacity, seenAt, work, bounds, quietUntil, about } = node;
    const isSetBack = seenAt < this.#recordedAt - OVERTAKEN_MS;
    this.#recordedAt = isSetBack ? seenAt : Math.max(seenAt, this.#recordedAt);
    // The clock was set back: else a dead node would count as alive until it has passed the time again when it was heard of.
    if (isSetBack)
      await this.batch([
        this.statement`
          UPDATE nodes SET seenAt = ${seenAt}, quietUntil = min(quietUntil, ${seenAt + QUIET_TTL_MS})
          WHERE seenAt > ${seenAt}`,
        this.statement`UPDATE fleets SET seenAt = ${seenAt} WHERE seenAt > ${seenAt}`,
      ]);
    const said = JSON.stringify(work);
    const [maxRunning, maxWorkers] = [bounds?.running ?? null, bounds?.workers ?? null];
    if (quietUntil !== undefined) {
      const known = await this.first<{ newest: string | null; about: string | null }>`
        SELECT about, ${raw(NEWEST)} FROM nodes
        WHERE name = ${name} AND quietUntil IS NOT NULL
          AND executor = ${executor} AND capacity = ${capacity} AND work = ${said}
          AND maxRunning IS ${maxRunning} AND maxWorkers IS ${maxWorkers}
          AND ${raw(VOUCHED_AT)} >= ${quietUntil - VOUCHED_MS}`;
      if (known && !isNews(about, known.about === null ? undefined : JSON.parse(known.about)))
        return known.newest ?? undefined;
    }
    const row = await this.first<{ newest: string | null }>`
      INSERT INTO nodes (name, executor, capacity, seenAt, work, maxRunning, maxWorkers, quietUntil, about)
      VALUES (${name}, ${executor}, ${capacity}, ${seenAt}, ${said}, ${maxRunning}, ${maxWorkers}, ${quietUntil ?? null},
        ${about ? JSON.stringify(about) : null})
      ON CONFLICT (name) DO UPDATE SET executor = excluded.executor, capacity = excluded.capacity,
        seenAt = excluded.seenAt, work = excluded.work, maxRunning = excluded.maxRunning,
        maxWorkers = excluded.maxWorkers, about = excluded.about, quietUntil = excluded.quietUntil
      RETURNING ${raw(NEWEST)}`;
    return row?.newest ?? undefined;
  }

  /**
   * A Fleet object lives, and has sockets of these nodes and of no others. A row is written for that, and one for each node of which this
   * is new.
   */
  async vouch(fleet: string, { nodes, now }: { nodes: readonly string[]; now: number }): Promise<void> {
    const named = part`(SELECT value FROM json_each(${JSON.stringify(nodes)}))`;
    await this.batch([
      this.statement`UPDATE nodes SET fleet = ${fleet} WHERE fleet IS NOT ${fleet} AND name IN ${named}`,
      this.statement`UPDATE nodes SET fleet = NULL WHERE fleet = ${fleet} AND name NOT IN ${named}`,
      this.statement`
        INSERT INTO fleets (name, seenAt) VALUES (${fleet}, ${now})
        ON CONFLICT (name) DO UPDATE SET seenAt = excluded.seenAt`,
    ]);
  }

  /** Nodes have lost their sockets. They are quiet no more, unless they were heard of since. */
  async disquiet(gone: readonly { readonly name: string; readonly closedAt: number }[]): Promise<void> {
    await this.batch(
      gone.map(
        ({ name, closedAt }) =>
          this.statement`
          UPDATE nodes SET fleet = NULL, quietUntil = CASE WHEN seenAt < ${closedAt} THEN NULL ELSE quietUntil END
          WHERE name = ${name}`,
      ),
    );
  }

  /**
   * Nodes let leases run out. One that was not heard of for NODE_TTL_MS is quiet no more, so that it counts as dead until it beats: whatever
   * runs there can't be renewed. Returns whether there is any such.
   */
  async suspect(names: readonly string[], now: number): Promise<boolean> {
    const silent = await this.all`
      UPDATE nodes SET quietUntil = NULL
      WHERE name IN (SELECT value FROM json_each(${JSON.stringify(names)})) AND seenAt < ${now - NODE_TTL_MS}
      RETURNING name`;
    return silent.length > 0;
  }

  /** A node that leaves in good order counts as dead at once. Its row goes, unless it carries the mark of draining. */
  async leave(name: string, now: number): Promise<void> {
    await this.batch([
      this.statement`DELETE FROM nodes WHERE name = ${name} AND draining = 0`,
      // As if it had been silent just long enough to count as dead.
      this
        .statement`UPDATE nodes SET seenAt = min(seenAt, ${now - NODE_TTL_MS - 1}), quietUntil = NULL, fleet = NULL, work = '[]'
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
        OR quietUntil IS NOT NULL AND fleet IN (SELECT name FROM fleets WHERE seenAt >= ${now - VOUCHED_MS})
      ORDER BY name`;
    return rows.map(({ name, executor, draining, ...bounds }) => ({
      ...{ name, executor, draining: draining === 1 },
      bounds: boundsOf(bounds),
    }));
  }

  /** Nodes heard of since a time, be it by their sockets, and those that are marked, by name. */
  async list(since: number): Promise<NodeRow[]> {
    const rows = await this.all<StoredNode>`
      SELECT ${raw(COLUMNS)} FROM nodes
      WHERE seenAt >= ${since} OR draining = 1 OR fleet IN (SELECT name FROM fleets WHERE seenAt >= ${since})
      ORDER BY name`;
    return rows.map(nodeOf);
  }
}

function nodeOf({ maxRunning, maxWorkers, quietUntil, vouchedAt, about, ...row }: StoredNode): NodeRow {
  const bounds = boundsOf({ maxRunning, maxWorkers });
  // One that is not quiet beats by itself: that it has a socket says nothing.
  const vouched = quietUntil === null ? null : vouchedAt;
  const until = Math.max(quietUntil ?? 0, vouched === null ? 0 : vouched + VOUCHED_MS);
  return {
    ...row,
    ...{ seenAt: Math.max(row.seenAt, vouched ?? row.seenAt), draining: row.draining === 1 },
    ...{ work: JSON.parse(row.work), bounds, ...(until > 0 && { quietUntil: until }) },
    ...(about !== null && { about: JSON.parse(about) }),
  };
}

/** Whether people would see another figure than the one that is kept: another release, or a room that is full by another hundredth. */
function isNews(said: NodeAbout | undefined, kept: NodeAbout | undefined): boolean {
  const seen = ({ version, disk, cache }: NodeAbout = {}) =>
    JSON.stringify([
      version,
      disk && [disk.totalBytes, hundredth(disk.freeBytes, disk.totalBytes)],
      cache && [cache.maxBytes, hundredth(cache.usedBytes, cache.maxBytes)],
    ]);
  return seen(said) !== seen(kept);
}

const hundredth = (part: number, whole: number) => Math.round((100 * part) / Math.max(whole, 1));

function boundsOf({ maxRunning, maxWorkers }: StoredBounds): NodeBounds | undefined {
  return maxRunning === null || maxWorkers === null
    ? undefined
    : { running: maxRunning, workers: maxWorkers };
}
