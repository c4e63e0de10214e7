import { ObjectLedger } from "../objects/ledger.ts";
import { Store } from "../objects/store.ts";
import type { Tx } from "../objects/transaction.ts";
import { MIGRATIONS } from "./migrations.ts";

/** How long after its socket closed a node is gone that has not come back; milliseconds. */
const GONE_MS = 30_000;

/** A node that lost its socket. */
interface ClosedNode {
  readonly name: string;
  readonly closedAt: number;
}

/** The nodes that have a socket, or had one a moment ago. A node writes a row when it comes, and one when it goes. */
class NodeStore extends Store<"gone"> {
  /** Returns whether the node is new: a deployment breaks all sockets, and then nobody is. */
  come(_: Tx, name: string): boolean {
    const isKnown = this.sql.has`SELECT 1 FROM nodes WHERE name = ${name}`;
    this.sql.run`
      INSERT INTO nodes (name) VALUES (${name})
      ON CONFLICT DO UPDATE SET closedAt = NULL WHERE closedAt IS NOT NULL`;
    return !isKnown;
  }

  closed(_: Tx, name: string, now: number): void {
    const isNews = this.sql.run`UPDATE nodes SET closedAt = ${now} WHERE name = ${name} AND closedAt IS NULL`;
    if (isNews) this.wake("gone", now + GONE_MS);
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

  /** Not one that came back meanwhile. */
  forget(_: Tx, { name, closedAt }: ClosedNode): void {
    this.sql.run`DELETE FROM nodes WHERE name = ${name} AND closedAt = ${closedAt}`;
  }

  leave(_: Tx, name: string): void {
    this.sql.run`DELETE FROM nodes WHERE name = ${name}`;
  }
}

/** Everything that the Fleet object stores. */
export class Ledger extends ObjectLedger<"gone"> {
  readonly nodes = new NodeStore(this.sql);

  constructor(storage: DurableObjectStorage) {
    super(storage, MIGRATIONS);
    this.open();
  }

  protected override forget(): void {}
}
