import { BranchStore } from "../store.ts";
import type { Position } from "../tree/commit-store.ts";

/** How long it is remembered that a root is gone; milliseconds. No call is under way for so long. */
const GONE_KEPT_MS = 24 * 60 * 60 * 1000;

/** A commit that another branch was made from, so that what it has must stay. */
export interface Root extends Position {
  /** Uid of the fork's generation. */
  readonly fork: string;
  /** Bucket of the fork. */
  readonly bucket: string;
  /** Milliseconds since 1970; null while it stands. */
  readonly goneAt: number | null;
  /** The highest number of what the fork gave back, as far as that came here. */
  readonly given: number;
}

/** The commits of this branch that forks are made from. */
export class RootStore extends BranchStore {
  add({ fork, bucket, gen, seq }: Omit<Root, "goneAt" | "given">, now: number): void {
    this.#forget(now);
    this.sql.run`
      INSERT INTO roots (fork, bucket, gen, seq, madeAt) VALUES (${fork}, ${bucket}, ${gen}, ${seq}, ${now})`;
  }

  /** Also one that is gone. */
  find(fork: string): Root | undefined {
    return this.sql.first<Root>`
      SELECT fork, bucket, gen, seq, goneAt, given FROM roots WHERE fork = ${fork}`;
  }

  /** The fork gave back something of this number. */
  gaveBack(fork: string, number: number): void {
    this.sql.run`UPDATE roots SET given = ${number} WHERE fork = ${fork} AND given < ${number}`;
  }

  /** The fork is gone, whether it was ever written down or not. */
  drop(fork: string, now: number): void {
    this.#forget(now);
    this.sql.run`
      INSERT INTO roots (fork, bucket, gen, seq, madeAt, goneAt) VALUES (${fork}, '', 0, 0, ${now}, ${now})
      ON CONFLICT DO UPDATE SET goneAt = ifnull(goneAt, excluded.goneAt)`;
    this.wake("history GC");
    // A fork that was deleted may have waited for it.
    this.wake("forks");
  }

  /** The forks of a generation that stand. */
  standing(gen: number): Root[] {
    return this.sql.all<Root>`
      SELECT fork, bucket, gen, seq, goneAt, given FROM roots INDEXED BY roots_standing
      WHERE gen = ${gen} AND goneAt IS NULL`;
  }

  /** Whether a fork of a generation stands. */
  hasAny(gen: number): boolean {
    return this.sql.has`
      SELECT 1 FROM roots INDEXED BY roots_standing WHERE gen = ${gen} AND goneAt IS NULL LIMIT 1`;
  }

  #forget(now: number): void {
    this.sql.run`
      DELETE FROM roots INDEXED BY roots_gone WHERE goneAt IS NOT NULL AND goneAt <= ${now - GONE_KEPT_MS}`;
  }
}
