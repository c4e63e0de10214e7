import { type ContentId, contentName } from "../../../protocol/content.ts";
import type { Body, Content, Life } from "../../blobs/content.ts";
import type { JsonBlob } from "../../blobs/manifest.ts";
import { renewRewrite } from "../../objects/rewrite.ts";
import type { Sql } from "../../objects/sql.ts";
import type { ContentOnLoan } from "../contract/forks.ts";
import { BranchStore } from "../store.ts";
import type { Erased, Named, PendingDeletionStore } from "./pending-deletion-store.ts";
import {
  INLINE_KIND,
  isBorrowed,
  ownBlobs,
  readBody,
  registeredBlobs,
  type StoredBody,
  writeBody,
} from "./stored-body.ts";

/*
 * The life of a content: some bytes that a generation has, whatever has them. A row of `contents` says where they are and how
 * many keep it (`refs`): files of any commit, staged puts, uploads, holds of forks, and contents that are put together from it.
 *
 * 1. Born. `add`: bytes that came with an upload or a put. `bring`: small ones that came with an archive. `copy`: a fork has what
 *    its parent had. Its own blobs are counted in `blobs`, since a list may name one twice. A blob that is the whole of a content is
 *    found by that, since its name says which content it is.
 * 2. Kept, by one more or one less: `keep`, `release`. It is *named* once a file or an open commit has it: from then on readers
 *    may be at its blobs.
 * 3. Dead, when nothing keeps it. `removeDead` takes its row away, in slices, and releases what it was put together from.
 * 4. Pending deletion: blobs that no content owns any more get a row in `pending_deletions`, which is due after a grace. That is long if the
 *    content was named, for the readers' sake.
 * 5. Deleted, by the blob reaper: first the blob, then the row.
 *
 * On loan: a fork's content whose blobs are its parent's (work/forks/forker.ts). It is never dead. The ledger takes its
 * row out at the end of the very transaction that released it last (`takeUnkept`), and the parent is told
 * (work/outbox.ts). What a parent erases and a fork still has, a hold of that fork keeps in the parent (fork-hold-store.ts).
 *
 * Who wins each race:
 *
 *  - The same bytes come twice. The first content stays, and the blobs of the second are pending deletion at once: equal contents need
 *    not have equal chunks. Bytes in a row alone give way to a blob (`#leaveRow`).
 *  - A dead content is put again before its row goes: the put wins, and the row is kept as it is. After that, the bytes come
 *    again in other blobs: a blob that is pending deletion is never named again, since each write makes new names.
 *  - Somebody reads what a part is made of, the part goes, the same bytes come in other blobs, and then the reader names what it
 *    has read. The part that went wins: whoever puts a content together says which *life* of the others it has read, and is
 *    refused if that is over (`lacksKept`).
 *  - A reader is at a blob whose time has come: it wins, as long as it says so before the end of its grace (`keepForReaders`).
 *  - A crash between the deletion of a blob and that of its row: it is deleted once more, which does no harm.
 *  - A content on loan is released and put again: the release wins if its transaction ends first, and the same bytes come as the
 *    fork's own.
 *  - A blob that nobody knows, since its writer died: no row has it, and the orphan scan finds it (work/orphan-scan.ts).
 */

/** Most dead contents, and about as many blobs, that one transaction of some milliseconds removes. */
const REMOVED_CONTENTS = 200;
const REMOVED_BLOBS = 5000;

/** Contents by name, each once, and how many more keep it, or less. */
type Refs = readonly (readonly [name: string, refs: number])[];

/** Of (?1 gen, ?2 JSON of how many keep contents no more, by their names). */
const RELEASE = `
  UPDATE contents SET refs = refs - released.value FROM json_each(?2) AS released
  WHERE contents.digest = unhex(substr(released.key, 1, 64))
    AND contents.size = CAST(substr(released.key, 66) AS INTEGER) AND contents.gen = ?1`;

/** Of (?1 JSON of how many more keep contents, or less, by their rowids). A file has them, or had, and a version of them was erased. */
const CHANGE_REFS = `
  UPDATE contents SET refs = refs + changed.value, named = 1, erased = 1 FROM json_each(?1) AS changed
  WHERE contents.rowid = CAST(changed.key AS INTEGER)`;

/** Of (?1 gen, ?2 JSON of rowids by the names of contents): the names whose content is not at that rowid. */
const ELSEWHERE = `
  SELECT asked.key AS name FROM json_each(?2) AS asked
  LEFT JOIN contents ON contents.rowid = asked.value AND contents.digest = unhex(substr(asked.key, 1, 64))
    AND contents.size = CAST(substr(asked.key, 66) AS INTEGER) AND contents.gen = ?1
  WHERE contents.rowid IS NULL`;

/** Of (?1 gen, ?2 JSON of the names of contents): the first that is not there. */
const LACKING = `
  SELECT asked.value AS name FROM json_each(?2) AS asked WHERE NOT EXISTS (
    SELECT 1 FROM contents WHERE contents.digest = unhex(substr(asked.value, 1, 64))
      AND contents.size = CAST(substr(asked.value, 66) AS INTEGER) AND contents.gen = ?1) LIMIT 1`;

/** Of (?1 gen, ?2 JSON of digests, sizes and hex digits). */
const BRING = `
  INSERT INTO contents (digest, size, gen, refs, kind, body, named)
  SELECT unhex(value ->> 0), value ->> 1, ?1, 0, ${INLINE_KIND}, unhex(value ->> 2), 1 FROM json_each(?2) WHERE true
  ON CONFLICT DO NOTHING`;

/**
 * Of (?1 gen, ?2 JSON of digests, sizes, refs, kinds, bodies and lives). Bytes of rows are the fork's own; the blobs of
 * others belong to the parent.
 */
const COPY = `
  INSERT INTO contents (digest, size, gen, refs, kind, body, named, life, onLoan)
  SELECT unhex(value ->> 0), value ->> 1, ?1, value ->> 2, value ->> 3,
    CASE value ->> 3 WHEN ${INLINE_KIND} THEN unhex(value ->> 4) ELSE value ->> 4 END,
    1, value ->> 5, value ->> 3 <> ${INLINE_KIND}
  FROM json_each(?2) WHERE true
  ON CONFLICT DO UPDATE SET refs = refs + excluded.refs`;

/** Of (?1 gen, ?2 JSON of digests and sizes): as COPY takes them. */
const TO_COPY = `
  SELECT lower(hex(contents.digest)) AS digest, contents.size AS size, kind,
    CASE kind WHEN ${INLINE_KIND} THEN hex(body) ELSE body END AS body, life
  FROM json_each(?2) AS asked CROSS JOIN contents
    ON contents.digest = unhex(asked.value ->> 0) AND contents.size = asked.value ->> 1 AND contents.gen = ?1`;

/** Of (?1 JSON of names): blobs that are not pending deletion. */
const NOT_PENDING = `
  SELECT asked.value AS name FROM json_each(?1) AS asked
  WHERE NOT EXISTS (SELECT 1 FROM pending_deletions WHERE pending_deletions.blob = asked.value)`;

/** Of (?1 gen, ?2 JSON of the names of contents): their rowids. */
const ROWIDS = `
  SELECT asked.value AS name, contents.rowid AS id FROM json_each(?2) AS asked
  CROSS JOIN contents ON contents.digest = unhex(substr(asked.value, 1, 64))
    AND contents.size = CAST(substr(asked.value, 66) AS INTEGER) AND contents.gen = ?1`;

/** Of (?1 JSON of rowids): those of them that nothing keeps, as one JSON, which is read sooner than rows. */
const UNKEPT = `
  SELECT json_group_array(asked.value) AS ids FROM json_each(?1) AS asked
  CROSS JOIN contents ON contents.rowid = asked.value WHERE contents.refs = 0`;

/** Of (?1 limit): dead contents; those that are plain name no blob and keep no other content. */
const DEAD = `
  SELECT rowid AS id, kind = ${INLINE_KIND} AND keeps IS NULL AND made IS NULL AS isPlain
  FROM contents INDEXED BY contents_dead WHERE refs = 0 AND onLoan = 0 LIMIT ?1`;

/** A content of a fork's parent, as it is stored there, and how many files of the fork keep it. */
export type CopiedContent = ContentOnLoan & { readonly refs: number };

/**
 * SQL: the content of a row of files, parts or the like, as it is joined. `row`: the name of the row's table in the statement.
 * `gen`: an expression for the generation.
 */
export function contentOf(row: string, gen = `${row}.gen`): string {
  return `contents ON contents.digest = ${row}.digest AND contents.size = ${row}.size AND contents.gen = ${gen}`;
}

/** Where contents of a generation are in their table, by their names. */
export type Rowids = ReadonlyMap<string, number>;

/** A content of one generation. */
export type OwnedContent = ContentId & { readonly gen: number };

/** Where the bytes of a content are. */
interface FoundContent {
  readonly body: Body;
  readonly life: Life;
  /** How many the body has as it is stored. */
  readonly bytes: number;
}

interface KeptContent extends OwnedContent, Omit<FoundContent, "life"> {
  readonly row: number;
}

interface DeadRow extends StoredBody {
  readonly gen: number;
  readonly keeps: string | null;
  readonly named: Named;
  readonly erased: Erased;
  readonly made: string | null;
}

/**
 * The rows of `contents`, and of the blobs that they own. No other file writes there; who reads the content of a file or a part
 * joins it by `contentOf`.
 */
export class ContentStore extends BranchStore {
  readonly #pendingDeletions: PendingDeletionStore;
  #mayBeDead = false;
  /** Whether anything was released since `takeUnkept` was last asked. */
  #mayBeUnkept = false;
  /** Whether this instance knows of contents on loan; undefined: it has not looked. */
  #hasAnyOnLoan: boolean | undefined;

  constructor(sql: Sql, pendingDeletions: PendingDeletionStore) {
    super(sql);
    this.#pendingDeletions = pendingDeletions;
  }

  has({ digest, size, gen }: OwnedContent): boolean {
    const found = this.sql.first`
      SELECT 1 FROM contents WHERE digest = unhex(${digest}) AND size = ${size} AND gen = ${gen}`;
    return found !== undefined;
  }

  /** Those of some contents that a generation has of another branch's blobs. */
  onLoanAmong(contents: readonly ContentId[], gen: number): ContentId[] {
    const names = JSON.stringify(contents.map(({ digest, size }) => [digest, size]));
    return this.sql.all<ContentId>`
      SELECT DISTINCT lower(hex(contents.digest)) AS digest, contents.size AS size FROM json_each(${names}) AS asked
      CROSS JOIN contents
        ON contents.digest = unhex(asked.value ->> 0) AND contents.size = asked.value ->> 1 AND contents.gen = ${gen}
      WHERE contents.onLoan = 1`;
  }

  /**
   * Where its bytes are: in that generation, or if none is given, in the newest that has it. A dead one is not there: who asks
   * after an erasure does not get what was erased, though its row may still wait for the alarm.
   */
  body(id: ContentId, gen?: number): Body | undefined {
    return this.find(id, gen)?.body;
  }

  /** The same, and which life of the content that is. */
  find({ digest, size }: ContentId, gen?: number): FoundContent | undefined {
    const [oldest, newest] = gen === undefined ? [0, Number.MAX_SAFE_INTEGER] : [gen, gen];
    const row = this.sql.first<StoredBody & Omit<FoundContent, "body">>`
      SELECT kind, body, life, octet_length(body) AS bytes FROM contents
      WHERE digest = unhex(${digest}) AND size = ${size}
        AND gen BETWEEN ${oldest} AND ${newest} AND refs > 0 ORDER BY gen DESC LIMIT 1`;
    return row && { body: readBody(row), life: row.life, bytes: row.bytes };
  }

  /** The first of some contents, given by name, that is not there. */
  firstLacking(names: readonly string[], gen: number): string | undefined {
    return this.sql.query<{ name: string }>(LACKING, [gen, JSON.stringify(names)])[0]?.name;
  }

  /** Whether one of the contents that this one is to keep is not there, or no longer in the life that was read. */
  lacksKept({ keeps = [] }: Pick<Content, "keeps">, gen: number): boolean {
    if (keeps.length === 0) return false;
    const asked = keeps.map(({ digest, size, life }) =>
      life === undefined ? [digest, size] : [digest, size, life],
    );
    return this.sql.has`
      SELECT 1 FROM json_each(${JSON.stringify(asked)}) AS kept WHERE NOT EXISTS (
        SELECT 1 FROM contents
        WHERE contents.digest = unhex(kept.value ->> 0) AND contents.size = kept.value ->> 1
          AND contents.gen = ${gen}
          AND (json_array_length(kept.value) = 2 OR contents.life IS kept.value ->> 2)
      ) LIMIT 1`;
  }

  /**
   * One more file or upload keeps a content that comes with its bytes. If the branch has it already, that one stays and
   * the blobs of this one are pending deletion. What it keeps must be there.
   */
  add(content: Content, { gen, now, named }: { gen: number; now: number; named: Named }): void {
    const { digest, size, body, made = [] } = content;
    const [kind, stored] = writeBody(body);
    // Nobody can be at a blob of bytes that are in the row: so a file that takes them over need not say that it has them.
    const isNamed = body.kind === "inline" ? 1 : named;
    const keeps = namesOf(content.keeps);
    const madeNames = made.length > 0 ? JSON.stringify(made) : null;
    const isNew = this.sql.run`
      INSERT INTO contents (digest, size, gen, refs, kind, body, keeps, named, life, made)
      VALUES (unhex(${digest}), ${size}, ${gen}, 1, ${kind}, ${stored}, ${keeps}, ${isNamed}, ${newLife(body)},
        ${madeNames})
      ON CONFLICT DO NOTHING`;
    if (isNew) {
      this.#registerBlobs(registeredBlobs({ digest, size, body, keeps, made }));
      if (keeps !== null) this.#addRefs(keeps, { gen, refs: 1, named: 0, erased: 0 });
    } else {
      this.keep({ digest, size, gen }, named);
      if (!this.#leaveRow(content, gen)) this.discard(content, now);
    }
  }

  /**
   * Small contents whose bytes come with a page of an archive. Nothing keeps them yet: the transaction goes on with `keepMany`,
   * or is undone.
   */
  bring(contents: readonly (ContentId & { readonly bytes: Uint8Array })[], gen: number): void {
    const brought = contents.map(({ digest, size, bytes }) => [digest, size, hexOf(bytes)]);
    this.sql.execute(BRING, [gen, JSON.stringify(brought)]);
  }

  /** Those of some contents that are there, as a fork takes them over. */
  toCopy(contents: readonly ContentId[], gen: number): ContentOnLoan[] {
    const asked = JSON.stringify(contents.map(({ digest, size }) => [digest, size]));
    return this.sql.query<ContentOnLoan>(TO_COPY, [gen, asked]);
  }

  /** So many more files of a fork keep contents of its parent: their blobs are on loan. */
  copy(contents: readonly CopiedContent[], gen: number): void {
    if (contents.length === 0) return;
    const copied = contents.map(({ digest, size, refs, kind, body, life }) => [
      ...[digest, size, refs],
      ...[kind, body, life],
    ]);
    this.sql.execute(COPY, [gen, JSON.stringify(copied)]);
    this.#hasAnyOnLoan = true;
  }

  /** The content is here already: the blobs that this one brought are to be deleted, unless they are the ones that are used. */
  discard({ body, keeps, made = [] }: Content, now: number): void {
    const brought = { body, keeps: namesOf(keeps), made };
    this.#pendingDeletions.add(ownBlobs(brought), {
      now,
      named: 0,
      erased: 0,
      borrowed: isBorrowed(brought),
    });
  }

  /** One more file or upload keeps a content that is here. Throws if it is not: a name must not point at missing bytes. */
  keep({ digest, size, gen }: OwnedContent, named: Named): void {
    const isHere = this.sql.run`
      UPDATE contents SET refs = refs + 1, named = max(named, ${named})
      WHERE digest = unhex(${digest}) AND size = ${size} AND gen = ${gen}`;
    if (!isHere) throw new Error(`a content that is to be kept is not there: ${digest}-${size}`);
  }

  /** So many more files or uploads keep each of these contents, given by name, that are here. Throws if one is not. */
  keepMany(more: Refs, { gen, named }: { gen: number; named: Named }): void {
    if (more.length === 0) return;
    const kept = this.sql.all`
      UPDATE contents SET refs = refs + kept.value, named = max(named, ${named})
      FROM json_each(${refsText(more)}) AS kept
      WHERE contents.digest = unhex(substr(kept.key, 1, 64))
        AND contents.size = CAST(substr(kept.key, 66) AS INTEGER) AND contents.gen = ${gen} RETURNING 1`;
    const lacking = new Set(more.map(([name]) => name)).size - kept.length;
    if (lacking > 0)
      throw new Error(`${lacking} of ${more.length} contents that are to be kept are not there`);
  }

  /** Files have these contents, given by name, which are kept as before. */
  setNamed(names: readonly string[], gen: number): void {
    if (names.length === 0) return;
    this.sql.run`
      UPDATE contents SET named = 1 FROM json_each(${JSON.stringify(names)}) AS kept
      WHERE contents.digest = unhex(substr(kept.value, 1, 64))
        AND contents.size = CAST(substr(kept.value, 66) AS INTEGER) AND contents.gen = ${gen} AND named = 0`;
  }

  /** One less keeps it. */
  release({ digest, size, gen }: OwnedContent): void {
    this.#released();
    this.sql.run`
      UPDATE contents SET refs = refs - 1
      WHERE digest = unhex(${digest}) AND size = ${size} AND gen = ${gen}`;
  }

  /** So many files or uploads less keep each of these contents, given by name. */
  releaseMany(named: Refs, gen: number): void {
    this.#released();
    this.sql.execute(RELEASE, [gen, refsText(named)]);
  }

  /** So many more files keep each of these contents, given by rowid, or less, since versions were erased. Returns those that nothing keeps any more. */
  changeRefs(by: ReadonlyMap<number, number>): ReadonlySet<number> {
    const changed = [...by].filter(([, refs]) => refs !== 0);
    if (changed.length > 0) this.sql.execute(CHANGE_REFS, [JSON.stringify(Object.fromEntries(changed))]);
    const less = changed.flatMap(([id, refs]) => (refs < 0 ? [id] : []));
    if (less.length === 0) return new Set();
    this.#released();
    const [unkept] = this.sql.query<{ ids: string }>(UNKEPT, [JSON.stringify(less)]);
    return new Set<number>(JSON.parse(unkept?.ids ?? "[]"));
  }

  /**
   * Of those of some contents that a generation has. `known` is what an earlier turn found, and may be so no more: to see
   * that a content is at its rowid takes much less than to find it among a million digests.
   */
  rowids(names: ReadonlySet<string>, { gen, known }: { gen: number; known: Rowids }): Rowids {
    const found = new Map<string, number>();
    for (const name of names) {
      const id = known.get(name);
      if (id !== undefined) found.set(name, id);
    }
    if (found.size > 0) {
      const asked = JSON.stringify(Object.fromEntries(found));
      for (const { name } of this.sql.query<{ name: string }>(ELSEWHERE, [gen, asked])) found.delete(name);
    }
    const others = [...names].filter((name) => !found.has(name));
    if (others.length > 0) {
      const rows = this.sql.query<{ name: string; id: number }>(ROWIDS, [gen, JSON.stringify(others)]);
      for (const { name, id } of rows) found.set(name, id);
    }
    return found;
  }

  /**
   * Removes the contents on loan that nothing keeps, and returns them: their owner is to be told. Mostly costs no query: one that
   * finds nothing in an empty index, if something was released in a branch that has contents on loan.
   */
  takeUnkept(): OwnedContent[] {
    if (!this.#mayBeUnkept) return [];
    this.#mayBeUnkept = false;
    this.#hasAnyOnLoan ??= this.sql
      .has`SELECT 1 FROM contents INDEXED BY contents_on_loan WHERE gen > 0 AND onLoan = 1 LIMIT 1`;
    if (!this.#hasAnyOnLoan) return [];
    return this.sql.all<OwnedContent>`
      DELETE FROM contents INDEXED BY contents_unkept WHERE gen > 0 AND onLoan = 1 AND refs = 0
      RETURNING lower(hex(digest)) AS digest, size, gen`;
  }

  /** Removes the contents on loan of a generation that nothing keeps, if its owner is to be told that all of them are gone. */
  forgetUnkept(gen: number): void {
    this.sql
      .run`DELETE FROM contents INDEXED BY contents_unkept WHERE gen = ${gen} AND onLoan = 1 AND refs = 0`;
  }

  /** Whether a generation has contents whose blobs are another branch's. */
  hasOnLoan(gen: number): boolean {
    return this.sql
      .has`SELECT 1 FROM contents INDEXED BY contents_on_loan WHERE gen = ${gen} AND onLoan = 1 LIMIT 1`;
  }

  /**
   * Removes what is dead, and what dies of that, as far as one transaction should: the rows go, and blobs that nothing
   * has any more are pending deletion. What is left is for another transaction.
   */
  removeDead(now: number, atMost = REMOVED_CONTENTS): void {
    let blobs = 0;
    for (let room = atMost; room > 0 && blobs < REMOVED_BLOBS; ) {
      const dead = this.sql.query<{ id: number; isPlain: 0 | 1 }>(DEAD, [room]);
      const plain = dead.filter(({ isPlain }) => isPlain);
      const others = dead.filter(({ isPlain }) => !isPlain);
      this.#removePlain(plain.map(({ id }) => id));
      // One at a time: rows may be large.
      for (const { id } of others) if (blobs < REMOVED_BLOBS) blobs += this.#removeOne(id, now);
      if (others.length === 0 && dead.length < room) {
        this.#mayBeDead = false;
        return;
      }
      room -= dead.length;
    }
  }

  /** The same, if this instance released anything since it last saw that nothing is dead: no query otherwise. */
  removeReleased(now: number, atMost = REMOVED_CONTENTS): void {
    if (this.#mayBeDead) this.removeDead(now, atMost);
  }

  /** Whether this instance may have left something that another transaction should remove. */
  get mayHaveDead(): boolean {
    return this.#mayBeDead;
  }

  /** The first content after a row that anything keeps, where it is, and how large. */
  after(row: number): KeptContent | undefined {
    const found = this.sql.first<StoredBody & Omit<KeptContent, "body">>`
      SELECT rowid AS row, lower(hex(digest)) AS digest, size, gen, kind, body, octet_length(body) AS bytes
      FROM contents WHERE rowid > ${row} AND refs > 0 ORDER BY rowid LIMIT 1`;
    if (!found) return undefined;
    const { kind, body, ...content } = found;
    return { ...content, body: readBody({ kind, body }) };
  }

  lastRow(): number {
    return this.sql.number`SELECT max(rowid) AS row FROM contents`;
  }

  /** Those of some blobs that neither a content owns nor are pending deletion. What a manifest lists is owned by none. */
  unowned(blobs: readonly string[]): string[] {
    const owned = this.#pendingDeletions.owned(blobs);
    const unowned = JSON.stringify(blobs.filter((blob) => !owned.has(blob)));
    return this.sql.query<{ name: string }>(NOT_PENDING, [unowned]).map(({ name }) => name);
  }

  /** The manifests of so many contents at most. */
  someManifests(limit: number): string[] {
    return this.sql.all<{ blob: string }>`
      SELECT body ->> 'blob' AS blob FROM contents INDEXED BY contents_manifests WHERE kind = 2 LIMIT ${limit}`.map(
      ({ blob }) => blob,
    );
  }

  /** The manifest of the first content from a row on. */
  manifestFrom(row: number): (JsonBlob & { readonly row: number }) | undefined {
    return this.sql.first<JsonBlob & { readonly row: number }>`
      SELECT rowid AS row, body ->> 'blob' AS blob, body ->> 'length' AS length
      FROM contents INDEXED BY contents_manifests
      WHERE kind = 2 AND rowid >= ${row} ORDER BY rowid LIMIT 1`;
  }

  /** The list of the first content from a row on that lists blobs of others, and how many characters it has. */
  listFrom(row: number): { readonly row: number; readonly body: string } | undefined {
    return this.sql.first<{ row: number; body: string }>`
      SELECT rowid AS row, body FROM contents INDEXED BY contents_keeping
      WHERE kind = 1 AND keeps IS NOT NULL AND rowid >= ${row} ORDER BY rowid LIMIT 1`;
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
      UPDATE contents SET kind = ${kind}, body = ${stored}, life = ${newLife(body)}
      WHERE digest = unhex(${digest}) AND size = ${size} AND gen = ${gen} AND kind = ${INLINE_KIND}`;
    if (left) this.#registerBlobs(registeredBlobs({ digest, size, body, keeps: null, made: [] }));
    return left;
  }

  #removePlain(ids: readonly number[]): void {
    if (ids.length === 0) return;
    this.sql.run`DELETE FROM contents WHERE rowid IN (SELECT value FROM json_each(${JSON.stringify(ids)}))`;
    renewRewrite(this.sql);
  }

  /** Returns how many blobs it had. */
  #removeOne(id: number, now: number): number {
    const dead = this.sql.first<DeadRow>`
      DELETE FROM contents WHERE rowid = ${id} RETURNING gen, kind, body, keeps, named, erased, made`;
    return dead ? this.#letGo(dead, now) : 0;
  }

  #letGo({ gen, keeps, named, erased, made, ...stored }: DeadRow, now: number): number {
    // Whoever reads it reads the blobs of those that it keeps.
    if (keeps !== null) this.#addRefs(keeps, { gen, refs: -1, named, erased });
    const dead = { body: readBody(stored), keeps, made: made === null ? [] : JSON.parse(made) };
    const blobs = ownBlobs(dead);
    if (blobs.length === 0) return 0;
    const names = JSON.stringify(blobs);
    this.sql.run`UPDATE blobs SET refs = refs - 1 WHERE name IN (SELECT value FROM json_each(${names}))`;
    this.sql.run`DELETE FROM blobs WHERE name IN (SELECT value FROM json_each(${names})) AND refs = 0`;
    this.#pendingDeletions.add(blobs, { now, named, erased, borrowed: isBorrowed(dead) });
    return blobs.length;
  }

  /** Something may be dead now, and a content on loan kept by nothing. */
  #released(): void {
    this.#mayBeDead = true;
    this.#mayBeUnkept = true;
  }

  /** `names`: JSON of the names of contents that are here. */
  #addRefs(
    names: string,
    { gen, refs, named, erased }: { gen: number; refs: 1 | -1; named: Named; erased: Erased },
  ): void {
    if (refs < 0) this.#released();
    this.sql.run`
      UPDATE contents SET refs = refs + ${refs}, named = max(named, ${named}), erased = max(erased, ${erased})
      FROM json_each(${names}) AS kept
      WHERE contents.digest = unhex(substr(kept.value, 1, 64))
        AND contents.size = CAST(substr(kept.value, 66) AS INTEGER) AND contents.gen = ${gen}`;
  }

  #registerBlobs(blobs: readonly string[]): void {
    if (blobs.length === 0) return;
    this.sql.run`
      INSERT INTO blobs (name, refs) SELECT value, 1 FROM json_each(${JSON.stringify(blobs)}) WHERE true
      ON CONFLICT DO UPDATE SET refs = refs + 1`;
  }
}

function refsText(named: Refs): string {
  return JSON.stringify(Object.fromEntries(named));
}

/** Of a content that comes with this body. Below 2^53, so that a number and JSON carry it. */
function newLife({ kind }: Body): Life {
  if (kind === "inline") return null;
  const [high = 0, low = 0] = crypto.getRandomValues(new Uint32Array(2));
  return (high >>> 11) * 2 ** 32 + low;
}

/** JSON of the names of what a content keeps, each once; null if it owns its blobs itself. */
function namesOf(keeps: readonly ContentId[] | undefined): string | null {
  return keeps?.length ? JSON.stringify([...new Set(keeps.map(contentName))]) : null;
}

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/** For a page's worth of bytes, of which there are too many to make a list of. */
function hexOf(bytes: Uint8Array): string {
  let hex = "";
  for (const byte of bytes) hex += HEX[byte];
  return hex;
}
