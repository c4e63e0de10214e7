import type { ContentId } from "../../../protocol/content.ts";
import type { OwnedContent } from "../contents/content-store.ts";
import { BranchStore } from "../store.ts";

/** A content that a fork had of its parent and needs no more. */
interface GiveBack extends ContentId {
  readonly number: number;
}

/** Of (?1 JSON of digests, sizes and generations). */
const ADD = `
  INSERT INTO give_backs (gen, number, digest, size)
  SELECT added.value ->> 2, clock.number + 1 + added.key, unhex(added.value ->> 0), added.value ->> 1
  FROM give_back_clock AS clock CROSS JOIN json_each(?1) AS added WHERE clock.one = 1`;

/**
 * What forks are to give back to their parents. A row is written in the transaction that drops the content's own row, and
 * goes when the parent has said that it heard. The rows are numbered, and each answer of a fork to its parent has the newest
 * number, so that the parent knows whether it heard of a give-back since.
 */
export class GiveBackStore extends BranchStore {
  /** Gives them the next numbers. */
  add(contents: readonly OwnedContent[]): void {
    const added = contents.map(({ digest, size, gen }) => [digest, size, gen]);
    this.sql.execute(ADD, [JSON.stringify(added)]);
    this.sql.run`UPDATE give_back_clock SET number = number + ${contents.length} WHERE one = 1`;
  }

  /** The number of the last one that there ever was; 0 if there was none. */
  get newest(): number {
    return this.sql.number`SELECT number FROM give_back_clock WHERE one = 1`;
  }

  /** The next numbers are above this one. An object that was set back from a later time has to be told what it has said. */
  goOnFrom(number: number): void {
    this.sql.run`UPDATE give_back_clock SET number = ${number} WHERE one = 1 AND number < ${number}`;
  }

  /** The generations that have something to give back: few ever do. */
  gens(): number[] {
    const gens: number[] = [];
    for (let last = 0; ; ) {
      const next = this.sql.first<{ gen: number }>`
        SELECT gen FROM give_backs WHERE gen > ${last} ORDER BY gen LIMIT 1`;
      if (!next) return gens;
      gens.push(next.gen);
      last = next.gen;
    }
  }

  /** The oldest of a generation, in the order of their numbers. */
  oldest(gen: number, limit: number): GiveBack[] {
    return this.sql.all<GiveBack>`
      SELECT number, lower(hex(digest)) AS digest, size FROM give_backs
      WHERE gen = ${gen} ORDER BY number LIMIT ${limit}`;
  }

  /** The parent has heard of those up to a number: what was added since has a higher one. */
  heard(gen: number, number: number): void {
    this.sql.run`DELETE FROM give_backs WHERE gen = ${gen} AND number <= ${number}`;
  }
}
