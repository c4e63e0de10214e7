import { ObjectLedger } from "../objects/ledger.ts";
import { Store } from "../objects/store.ts";
import type { Tx } from "../objects/transaction.ts";
import { MIGRATIONS } from "./migrations.ts";

type LoopName = "tell";

/** How long after its socket closed a node is gone that has not come back; milliseconds. */
const GONE_MS = 30_000;

/** How often the catalogue hears which nodes have sockets, while any has. */
export const VOUCH_EACH_MS = 60_000;

/** A node that lost its socket. */
interface ClosedNode {
  readonly name: string;
  readonly closedAt: number;
}

/** The nodes that have a socket, or had one a moment ago. A node writes a row when it comes, and one when it goes. */
class NodeStore extends Store<LoopName> {
  /** Returns whether the node is new: a deployment breaks all sockets, and then nobody is. */
  come(_: Tx, name: string): boolean {
    const isKnown = this.sql.has`SELECT 1 FROM nodes WHERE name = ${name}`;
    this.sql.run`
      INSERT INTO nodes (name) VALUES (${name})
      ON CONFLICT DO UPDATE SET closedAt = NULL WHERE closedAt IS NOT NULL`;
    if (!isKnown) this.wake("tell", this.nextVouch());
    return !isKnown;
  }

  /** Those that have a socket, or had one a moment ago. */
  all(): string[] {
    return this.sql.all<{ name: string }>`SELECT name FROM nodes`.map(({ name }) => name);
  }

  /** When the catalogue is to hear of them; undefined: there is none. */
  nextVouch(): number | undefined {
    const next = this.sql.first<{ due: number }>`
      SELECT due FROM vouching WHERE id = 1 AND EXISTS (SELECT 1 FROM nodes)`;
    return next?.due;
  }

  vouched(_: Tx, now: number): void {
    this.sql.run`UPDATE vouching SET due = ${now + VOUCH_EACH_MS} WHERE id = 1`;
  }

  /** At once: the catalogue may have heard that a node is gone which has come back. */
  vouchSoon(_: Tx): void {
    this.sql.run`UPDATE vouching SET due = 0 WHERE id = 1`;
    this.wake("tell", 0);
  }

  closed(_: Tx, name: string, now: number): void {
    const isNews = this.sql.run`UPDATE nodes SET closedAt = ${now} WHERE name = ${name} AND closedAt IS NULL`;
    if (isNews) this.wake("tell", now + GONE_MS);
  }

  /** Those that have a socket, as far as was written down. */
  open(): string[] {
    return this.sql.all<{ name: string }>`SELECT name FROM nodes WHERE closedAt IS NULL`.map(
      ({ name }) => name,
    );
  }

  get count(): number {
    return this.sql.number`SELECT count(*) FROM nodes`;
  }

  nextGone(): number | undefined {
    const first = this.sql.first<{ at: number | null }>`
      SELECT min(closedAt) AS at FROM nodes WHERE closedAt IS NOT NULL`;
    return first?.at == null ? undefined : first.at + GONE_MS;
  }

  gone(now: number, limit: number): ClosedNode[] {
    return this.sql.all<ClosedNode>`
      SELECT name, closedAt FROM nodes WHERE closedAt <= ${now - GONE_MS} ORDER BY closedAt LIMIT ${limit}`;
  }

  /** Not one that came back meanwhile: then returns false. */
  forget(_: Tx, { name, closedAt }: ClosedNode): boolean {
    return this.sql.run`DELETE FROM nodes WHERE name = ${name} AND closedAt = ${closedAt}`;
  }

  leave(_: Tx, name: string): void {
    this.sql.run`DELETE FROM nodes WHERE name = ${name}`;
  }
}

/** Everything that the Fleet object stores. */
export class Ledger extends ObjectLedger<LoopName> {
  readonly nodes = new NodeStore(this.sql);

  constructor(storage: DurableObjectStorage) {
    super(storage, MIGRATIONS);
    this.open();
  }

  protected override forget(): void {}
}
