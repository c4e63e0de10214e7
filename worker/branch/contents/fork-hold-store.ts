import { type ContentId, contentName } from "../../../protocol/content.ts";
import type { Sql } from "../../objects/sql.ts";
import { BranchStore } from "../store.ts";
import type { ContentStore, OwnedContent } from "./content-store.ts";

/** Contents that one statement takes, so that what it is given stays far below what a value may be. */
const AT_ONCE = 1000;
/** How long after its last hold a fork is asked what it still has of them, and at most after it was asked; milliseconds. */
const FIRST_ASK_MS = 60 * 60 * 1000;
const LONGEST_ASK_MS = 7 * 24 * 60 * 60 * 1000;

/** Where among the holds of a fork. */
export interface HoldPlace {
  /** Hex digits; empty before the first. */
  readonly digest: string;
  readonly size: number;
}

/** A fork that is to be asked, and where among its holds that begins or goes on. */
interface HoldAsk {
  readonly fork: string;
  readonly after: HoldPlace;
}

interface ForkHold extends ContentId {
  readonly fork: string;
}

const BEFORE_ALL: HoldPlace = { digest: "", size: 0 };

/**
 * Contents of erased files whose bytes a fork still names elsewhere, as in a copy that was made there. Its root keeps what
 * its commit has, and that commit has them no more: so a *hold* keeps them, one for each fork and content, until the fork has
 * given them back or is gone. A fork tells that by itself; in case it never does, it is asked, later and later.
 */
export class ForkHoldStore extends BranchStore {
  readonly #contents: ContentStore;

  constructor(sql: Sql, contents: ContentStore) {
    super(sql);
    this.#contents = contents;
  }

  add(
    fork: string,
    { gen, contents, now }: { gen: number; contents: readonly ContentId[]; now: number },
  ): void {
    const asked = JSON.stringify(contents.map(({ digest, size }) => [digest, size]));
    const added = this.sql.all<ContentId>`
      INSERT INTO fork_holds (fork, gen, digest, size)
      SELECT ${fork}, ${gen}, unhex(value ->> 0), value ->> 1 FROM json_each(${asked}) WHERE true
      ON CONFLICT DO NOTHING RETURNING lower(hex(digest)) AS digest, size`;
    this.#contents.keepMany(
      added.map((content) => [contentName(content), 1]),
      { gen, named: 1 },
    );
    const due = now + FIRST_ASK_MS;
    this.sql.run`
      INSERT INTO fork_hold_asks (fork, due, wait) VALUES (${fork}, ${due}, ${FIRST_ASK_MS})
      ON CONFLICT DO UPDATE SET due = min(due, excluded.due), wait = excluded.wait`;
    this.wake("fork check", due);
  }

  /** The contents that are held for a fork. */
  of(fork: string): ContentId[] {
    return this.sql.all<ContentId>`
      SELECT lower(hex(digest)) AS digest, size FROM fork_holds WHERE fork = ${fork}`;
  }

  /** Some of them, in their order. */
  page(fork: string, { after: { digest, size }, limit }: { after: HoldPlace; limit: number }): ContentId[] {
    return this.sql.all<ContentId>`
      SELECT lower(hex(digest)) AS digest, size FROM fork_holds
      WHERE fork = ${fork} AND (digest, size) > (unhex(${digest}), ${size}) ORDER BY digest, size LIMIT ${limit}`;
  }

  /** Some of the holds of all forks, in their order. */
  all({ after: { fork, digest, size }, limit }: { after: ForkHold; limit: number }): ForkHold[] {
    return this.sql.all<ForkHold>`
      SELECT fork, lower(hex(digest)) AS digest, size FROM fork_holds
      WHERE (fork, digest, size) > (${fork}, unhex(${digest}), ${size}) ORDER BY fork, digest, size LIMIT ${limit}`;
  }

  /** The forks that a content is held for. */
  forksOf({ digest, size }: ContentId): string[] {
    const forks = this.sql.all<Pick<ForkHold, "fork">>`
      SELECT fork_holds.fork AS fork FROM fork_hold_asks CROSS JOIN fork_holds
        ON fork_holds.fork = fork_hold_asks.fork AND fork_holds.digest = unhex(${digest}) AND fork_holds.size = ${size}`;
    return forks.map(({ fork }) => fork);
  }

  /** The fork names none of these any more. */
  drop(fork: string, contents: readonly ContentId[]): void {
    for (let from = 0; from < contents.length; from += AT_ONCE) {
      this.#dropSome(fork, contents.slice(from, from + AT_ONCE));
    }
    this.sql.run`
      DELETE FROM fork_hold_asks WHERE fork = ${fork} AND NOT EXISTS (SELECT 1 FROM fork_holds WHERE fork_holds.fork = ${fork})`;
  }

  /** When the next fork is to be asked; undefined if there is no hold. */
  nextAsk(): number | undefined {
    return this.sql.first<{ due: number }>`SELECT due FROM fork_hold_asks ORDER BY due LIMIT 1`?.due;
  }

  /** Some of the forks whose time has come. */
  dueAsks(now: number, limit: number): HoldAsk[] {
    const rows = this.sql.all<{ fork: string } & HoldPlace>`
      SELECT fork, lower(hex(digest)) AS digest, size FROM fork_hold_asks
      WHERE due <= ${now} ORDER BY due LIMIT ${limit}`;
    return rows.map(({ fork, ...after }) => ({ fork, after }));
  }

  /** The fork was asked up to a place: another alarm goes on there. */
  askedTo(fork: string, { digest, size }: HoldPlace): void {
    this.sql.run`UPDATE fork_hold_asks SET digest = unhex(${digest}), size = ${size} WHERE fork = ${fork}`;
  }

  /** The fork was asked for all, or can't be asked now: it is again after twice the time. */
  asked(fork: string, now: number): void {
    const { digest, size } = BEFORE_ALL;
    this.sql.run`
      UPDATE fork_hold_asks SET wait = min(2 * wait, ${LONGEST_ASK_MS}), due = ${now} + min(2 * wait, ${LONGEST_ASK_MS}),
        digest = unhex(${digest}), size = ${size}
      WHERE fork = ${fork}`;
  }

  #dropSome(fork: string, contents: readonly ContentId[]): void {
    const asked = JSON.stringify(contents.map(({ digest, size }) => [digest, size]));
    const dropped = this.sql.all<OwnedContent>`
      DELETE FROM fork_holds WHERE fork = ${fork} AND (digest, size) IN (
        SELECT unhex(value ->> 0), value ->> 1 FROM json_each(${asked})
      ) RETURNING lower(hex(digest)) AS digest, size, gen`;
    for (const gen of new Set(dropped.map((hold) => hold.gen))) {
      const released = dropped.filter((hold) => hold.gen === gen);
      this.#contents.releaseMany(
        released.map((hold) => [contentName(hold), 1]),
        gen,
      );
    }
  }
}
