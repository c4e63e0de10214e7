import type { Sql } from "./sql.ts";

/** Some tables of an object: what is read from them and written to them goes through the methods of one such class. */
export abstract class Store {
  protected readonly sql: Sql;

  constructor(sql: Sql) {
    this.sql = sql;
  }
}
