import { type ContentId, contentName } from "../../../protocol/content.ts";
import type { Body, Content } from "../../blobs/content.ts";
import { Store } from "../../sqlite/store.ts";
import { INLINE_KIND, isBorrowed, ownBlobs, readBody, type StoredBody, writeBody } from "./stored-body.ts";

/** How long a condemned blob stays for reads that are under way; milliseconds. */
const CONDEMNED_GRACE_MS = 60 * 60 * 1000;
/** Most dead contents, and about as many blobs, that one transaction of some milliseconds removes. */
const REMOVED_CONTENTS = 500;
const REMOVED_BLOBS = 5000;

/** A content of one generation. */
export type OwnedContent = ContentId & { readonly gen: number };

interface DeadRow extends StoredBody {
  readonly id: number;
  readonly gen: number;
  readonly keeps: string | null;
}

/**
 * What contents are, and the blobs that they are made of. Equal contents need not have equal chunks: the first one
 * stays. Files, uploads, staged puts and contents put together from others each *keep* a content, which its refs count,
 * and later *release* it. At zero it is *dead*: `removeDead` takes its row away, unless it is kept again before, and
 * *condemns* its blobs. The collector deletes a condemned blob when readers have had their time with it.
 */
export class ContentStore extends Store {
  #mayBeDead = false;

  has({ digest, size, gen }: OwnedContent): boolean {
    const found = this.sql.first`
      SELECT 1 FROM contents WHERE digest = unhex(${digest}) AND size = ${size} AND gen = ${gen}`;
    return found !== undefined;
  }

  /** Where its bytes are: in that generation, or if none is given, in the newest that has it. */
  body({ digest, size }: ContentId, gen?: number): Body | undefined {
    const [oldest, newest] = gen === undefined ? [0, Number.MAX_SAFE_INTEGER] : [gen, gen];
    const row = this.sql.first<StoredBody>`
      SELECT kind, body FROM contents
      WHERE digest = unhex(${digest}) AND size = ${size}
        AND gen BETWEEN ${oldest} AND ${newest} ORDER BY gen DESC LIMIT 1`;
    return row && readBody(row);
  }

  /** Whether one of the contents that this one is to keep is not there. */
  lacksKept({ keeps = [] }: Content, gen: number): boolean {
    return keeps.some(({ digest, size }) => !this.has({ digest, size, gen }));
  }

  /**
   * One more file or upload keeps a content that comes with its bytes. If the branch has it already, that one stays and
   * the blobs of this one are condemned. What it keeps must be there.
   */
  add(content: Content, { gen, now }: { gen: number; now: number }): void {
    const { digest, size, body } = content;
    const [kind, stored] = writeBody(body);
    const keeps = namesOf(content.keeps);
    const isNew = this.sql.run`
      INSERT INTO contents (digest, size, gen, refs, kind, body, keeps)
      VALUES (unhex(${digest}), ${size}, ${gen}, 1, ${kind}, ${stored}, ${keeps}) ON CONFLICT DO NOTHING`;
    if (isNew) {
      this.#registerBlobs(ownBlobs({ body, keeps }));
      if (keeps !== null) this.#addRefs(keeps, { gen, refs: 1 });
    } else {
      this.keep({ digest, size, gen });
      if (!this.#leaveRow(content, gen)) this.discard(content, now);
    }
  }

  /** The content is here already: condemns the blobs that this one brought, unless they are the ones that are used. */
  discard({ body, keeps }: Content, now: number): void {
    const brought = { body, keeps: namesOf(keeps) };
    this.#condemn(ownBlobs(brought), { now, borrowed: isBorrowed(brought) });
  }

  /** One more file or upload keeps a content that is here. */
  keep({ digest, size, gen }: OwnedContent): void {
    this.sql.run`
      UPDATE contents SET refs = refs + 1
      WHERE digest = unhex(${digest}) AND size = ${size} AND gen = ${gen}`;
  }

  /** So many more files or uploads keep each of these contents, given by name, that are here. */
  keepMany(named: readonly (readonly [name: string, refs: number])[], gen: number): void {
    this.sql.run`
      UPDATE contents SET refs = refs + (kept.value ->> 1) FROM json_each(${JSON.stringify(named)}) AS kept
      WHERE contents.digest = unhex(substr(kept.value ->> 0, 1, 64))
        AND contents.size = CAST(substr(kept.value ->> 0, 66) AS INTEGER) AND contents.gen = ${gen}`;
  }

  /** One less keeps it. */
  release({ digest, size, gen }: OwnedContent): void {
    this.#mayBeDead = true;
    this.sql.run`
      UPDATE contents SET refs = refs - 1
      WHERE digest = unhex(${digest}) AND size = ${size} AND gen = ${gen}`;
  }

  /** An upload no longer keeps what it holds. Returns whether it held anything. */
  releaseHeld(upload: string, gen: number): boolean {
    const released = this.sql.run`
      UPDATE contents SET refs = refs - 1 FROM holds
      WHERE holds.upload = ${upload} AND contents.digest = holds.digest AND contents.size = holds.size
        AND contents.gen = ${gen}`;
    this.#mayBeDead ||= released;
    return released;
  }

  /**
   * Removes what is dead, and what dies of that, as far as one transaction should: the rows go, and blobs that nothing
   * has any more are condemned. What is left is for another transaction.
   */
  removeDead(now: number): void {
    let blobs = 0;
    for (let contents = 0; contents < REMOVED_CONTENTS && blobs < REMOVED_BLOBS; contents++) {
      // One at a time: rows may be large.
      const dead = this.sql.first<DeadRow>`
        SELECT rowid AS id, gen, kind, body, keeps FROM contents INDEXED BY contents_dead
        WHERE refs = 0 LIMIT 1`;
      if (!dead) {
        this.#mayBeDead = false;
        return;
      }
      blobs += this.#removeOne(dead, now);
    }
  }

  /** The same, if this instance released anything since it last saw that nothing is dead: no query otherwise. */
  removeReleased(now: number): void {
    if (this.#mayBeDead) this.removeDead(now);
  }

  /** Whether this instance may have left something that another transaction should remove. */
  get mayHaveDead(): boolean {
    return this.#mayBeDead;
  }

  /** Whether anything is dead, also what an earlier instance left. */
  get hasDead(): boolean {
    return this.sql.has`SELECT 1 FROM contents INDEXED BY contents_dead WHERE refs = 0 LIMIT 1`;
  }

  /**
   * Bytes in a row give way to the same bytes in a blob. A part comes in a blob, and what is put together from parts
   * lists blobs that its parts own. Returns whether it was so.
   */
  #leaveRow({ digest, size, body, keeps = [] }: Content, gen: number): boolean {
    if (body.kind === "inline" || keeps.length > 0) return false;
    const [kind, stored] = writeBody(body);
    const left = this.sql.run`
      UPDATE contents SET kind = ${kind}, body = ${stored}
      WHERE digest = unhex(${digest}) AND size = ${size} AND gen = ${gen} AND kind = ${INLINE_KIND}`;
    if (left) this.#registerBlobs(ownBlobs({ body, keeps: null }));
    return left;
  }

  /** Returns how many blobs it had. */
  #removeOne({ id, gen, keeps, ...stored }: DeadRow, now: number): number {
    this.sql.run`DELETE FROM contents WHERE rowid = ${id}`;
    if (keeps !== null) this.#addRefs(keeps, { gen, refs: -1 });
    const dead = { body: readBody(stored), keeps };
    const blobs = ownBlobs(dead);
    if (blobs.length === 0) return 0;
    const names = JSON.stringify(blobs);
    this.sql.run`UPDATE blobs SET refs = refs - 1 WHERE name IN (SELECT value FROM json_each(${names}))`;
    this.sql.run`DELETE FROM blobs WHERE name IN (SELECT value FROM json_each(${names})) AND refs = 0`;
    this.#condemn(blobs, { now, borrowed: isBorrowed(dead) });
    return blobs.length;
  }

  /** `names`: JSON of the names of contents that are here. */
  #addRefs(names: string, { gen, refs }: { gen: number; refs: 1 | -1 }): void {
    this.sql.run`
      UPDATE contents SET refs = refs + ${refs} FROM json_each(${names}) AS kept
      WHERE contents.digest = unhex(substr(kept.value, 1, 64))
        AND contents.size = CAST(substr(kept.value, 66) AS INTEGER) AND contents.gen = ${gen}`;
  }

  #registerBlobs(blobs: readonly string[]): void {
    if (blobs.length === 0) return;
    this.sql.run`
      INSERT INTO blobs (name, refs) SELECT value, 1 FROM json_each(${JSON.stringify(blobs)}) WHERE true
      ON CONFLICT DO UPDATE SET refs = refs + 1`;
  }

  /** Leaves out those that a content has. */
  #condemn(blobs: readonly string[], { now, borrowed }: { now: number; borrowed: boolean }): void {
    if (blobs.length === 0) return;
    this.sql.run`
      INSERT INTO condemned (blob, due, borrowed)
      SELECT value, ${now + CONDEMNED_GRACE_MS}, ${Number(borrowed)} FROM json_each(${JSON.stringify(blobs)})
      WHERE NOT EXISTS (SELECT 1 FROM blobs WHERE name = value) ON CONFLICT DO NOTHING`;
  }
}

/** JSON of the names of what a content keeps, each once; null if it owns its blobs itself. */
function namesOf(keeps: readonly ContentId[] | undefined): string | null {
  return keeps?.length ? JSON.stringify([...new Set(keeps.map(contentName))]) : null;
}
