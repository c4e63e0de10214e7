import { BranchStore } from "../store.ts";

/** A content, by name, that a version which was erased had. */
interface ErasedContent {
  readonly number: number;
  readonly content: string;
}

/**
 * The contents of which a version was erased, until the catalogue has heard of them, which tells the nodes: they may have them
 * in their caches. A content that is erased again meanwhile is there again, with a number of its own.
 */
export class ErasedContentStore extends BranchStore {
  /** Returns the number of the last one; there must be one. */
  add(names: readonly string[]): number {
    this.sql.run`
      INSERT INTO erased_contents (content) SELECT value FROM json_each(${JSON.stringify(names)})`;
    return this.sql.number`SELECT max(number) FROM erased_contents`;
  }

  /** The oldest. */
  first(limit: number): ErasedContent[] {
    return this.sql.all<ErasedContent>`
      SELECT number, content FROM erased_contents ORDER BY number LIMIT ${limit}`;
  }

  /** The catalogue knows those up to this number. */
  acknowledged(number: number): void {
    this.sql.run`DELETE FROM erased_contents WHERE number <= ${number}`;
  }
}
