import { type ContentId, contentName } from "../../../protocol/content.ts";
import type { Sql } from "../../sqlite/sql.ts";
import { Store } from "../../sqlite/store.ts";
import type { ContentStore, OwnedContent } from "../tree/content-store.ts";

/** Contents that one statement takes, so that what it is given stays far below what a value may be. */
const AT_ONCE = 1000;

/**
 * Contents of erased files whose bytes a fork still names elsewhere, as in a copy that was made there. Its root keeps what
 * its commit has, and that commit has them no more: so a *pin* keeps them, one for each fork and content, until the fork has
 * given them back or is gone.
 */
export class PinStore extends Store {
  readonly #contents: ContentStore;

  constructor(sql: Sql, contents: ContentStore) {
    super(sql);
    this.#contents = contents;
  }

  add(fork: string, { gen, contents }: { gen: number; contents: readonly ContentId[] }): void {
    const asked = JSON.stringify(contents.map(({ digest, size }) => [digest, size]));
    const added = this.sql.all<ContentId>`
      INSERT INTO pins (fork, gen, digest, size)
      SELECT ${fork}, ${gen}, unhex(value ->> 0), value ->> 1 FROM json_each(${asked}) WHERE true
      ON CONFLICT DO NOTHING RETURNING lower(hex(digest)) AS digest, size`;
    this.#contents.keepMany(
      added.map((content) => [contentName(content), 1]),
      gen,
    );
  }

  /** The contents that are pinned for a fork. */
  of(fork: string): ContentId[] {
    return this.sql.all<ContentId>`
      SELECT lower(hex(digest)) AS digest, size FROM pins WHERE fork = ${fork}`;
  }

  /** The fork names none of these any more. Returns those that were pinned for it. */
  drop(fork: string, contents: readonly ContentId[]): ContentId[] {
    const dropped: ContentId[] = [];
    for (let from = 0; from < contents.length; from += AT_ONCE) {
      dropped.push(...this.#dropSome(fork, contents.slice(from, from + AT_ONCE)));
    }
    return dropped;
  }

  #dropSome(fork: string, contents: readonly ContentId[]): ContentId[] {
    const asked = JSON.stringify(contents.map(({ digest, size }) => [digest, size]));
    const dropped = this.sql.all<OwnedContent>`
      DELETE FROM pins WHERE fork = ${fork} AND (digest, size) IN (
        SELECT unhex(value ->> 0), value ->> 1 FROM json_each(${asked})
      ) RETURNING lower(hex(digest)) AS digest, size, gen`;
    for (const gen of new Set(dropped.map((pin) => pin.gen))) {
      const released = dropped.filter((pin) => pin.gen === gen);
      this.#contents.releaseMany(
        released.map((pin) => [contentName(pin), 1]),
        gen,
      );
    }
    return dropped.map(({ digest, size }) => ({ digest, size }));
  }
}
