import type { Sql } from "./sql.ts";

/** Some tables of an object: what is read from them and written to them goes through the methods of one such class. */
export abstract class Store<LoopName extends string = string> {
  protected readonly sql: Sql;

  constructor(sql: Sql) {
    this.sql = sql;
  }

  /**
   * A loop of the object has something to do at this time, or now. Belongs into the method that writes the row which the
   * loop will find: so no caller can forget it.
   */
  protected wake(loop: LoopName, at?: number): void {
    this.sql.wake(loop, at);
  }
}
