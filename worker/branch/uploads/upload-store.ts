import { decodeTime } from "ulid";
import { type ContentId, contentName } from "../../../protocol/content.ts";
import type { Body, Content } from "../../blobs/content.ts";
import { earliest } from "../../objects/engine.ts";
import type { Sql } from "../../objects/sql.ts";
import type { ContentStore } from "../contents/content-store.ts";
import { UPLOAD_LEASE_MS } from "../contract/uploads.ts";
import { BranchStore } from "../store.ts";
import type { MultipartStore } from "./multipart-store.ts";
import type { SweepStore } from "./sweep-store.ts";

/** Those whose pipeline is to be asked about them are put together by so much time; milliseconds. */
const ASKED_TOGETHER_MS = 10 * 60 * 1000;
/** So many uploads are known in memory as opened by this instance. */
const MAX_OPENED = 10_000;
/** Bytes of bodies as they are stored that one answer holds: well below what one call can carry. */
const ANSWER_BYTES = 8 * 1024 * 1024;
/** Most contents, and parts, that one transaction takes from uploads that ended. */
export const RELEASED = 500;

/** Most contents of one list: what looks through lists stops after some. */
const LISTED = 100;

/** Of (?1 upload, ?2 JSON of the names of contents): those that the upload holds. */
const HELD = `
  SELECT asked.value AS name FROM json_each(?2) AS asked
  CROSS JOIN holds ON upload = ?1 AND holds.digest = unhex(substr(asked.value, 1, 64))
    AND holds.size = CAST(substr(asked.value, 66) AS INTEGER)
  UNION
  SELECT listed.value FROM holds CROSS JOIN json_each(holds.names) AS listed
  WHERE upload = ?1 AND digest = x'' AND listed.value IN (SELECT value FROM json_each(?2))`;

/** Of an upload that several outcomes share (worker/api/runner.ts). */
const SHARED_LEASE = /^shared\./;

function ulidOf(id: string): string {
  return id.slice(id.lastIndexOf(".") + 1);
}

/** When the pipeline is to be asked about an upload that was opened for what outcomes share: later than any call takes. */
function askAt(id: string): number {
  const since = decodeTime(ulidOf(id)) + UPLOAD_LEASE_MS;
  return Math.ceil(since / ASKED_TOGETHER_MS) * ASKED_TOGETHER_MS;
}

export interface UploadRow {
  readonly id: string;
  readonly gen: number;
  /** The datum lease it belongs to. */
  readonly lease: string | null;
}

type NewUpload = UploadRow & { readonly now: number };

/** The stores that are there before that of uploads. */
interface UsedStores {
  readonly contents: ContentStore;
  readonly multiparts: MultipartStore;
  readonly sweeps: SweepStore;
}

/** How often each of some contents is named. */
type Counts = Map<string, number>;

interface HeldList {
  readonly number: number;
  /** JSON of the names of contents. */
  readonly names: string;
}

/** How an upload that has ended gives up what it holds: so many contents, and parts, at most. */
interface Giving {
  readonly gen: number;
  /** Whether it may have parts. */
  readonly multipart: 0 | 1;
  readonly atMost: number;
  /** Who takes over the contents, by name, if they are of that generation; else they are kept by one less. */
  readonly to?: { readonly gen: number; readonly names: Counts };
}

/**
 * Open uploads, and the contents that they hold until a file has them. A closed upload has no row. That of a lost lease
 * keeps it for as long as a call under the lease may be on its way: else such a call would open another one, which
 * nobody would end.
 *
 * An upload ends in one transaction for all who ask for it. Of what it holds that takes no more than it should: the rest
 * is given up in slices by the alarm. Nothing is added meanwhile, since nobody finds the upload open.
 */
export class UploadStore extends BranchStore {
  readonly #stores: UsedStores;
  /**
   * Those that this instance of the object has opened last, and that have not ended. Uploads of results live as long as those, so
   * there is a bound; one that falls out counts as opened earlier, which costs a sweep.
   */
  readonly #opened = new Set<string>();

  constructor(sql: Sql, stores: UsedStores) {
    super(sql);
    this.#stores = stores;
  }

  /** Opens an upload and returns its id, or that of the one that the lease has already; undefined if the lease is lost. */
  open({ id, gen, lease, now }: NewUpload): string | undefined {
    const earlier = lease === null ? undefined : this.#byLease(lease);
    if (earlier?.gen === gen) return earlier.lost ? undefined : earlier.id;
    if (earlier) this.close(earlier.id, now);
    const due = lease === null ? now + UPLOAD_LEASE_MS : null;
    this.sql.run`
      INSERT INTO uploads (isFresh, id, gen, lease, due, ttl, multipart)
      VALUES (${Number(lease === null)}, ${id}, ${gen}, ${lease}, ${due}, ${UPLOAD_LEASE_MS}, 0)`;
    this.#remember(id);
    if (due !== null) this.wake("housekeeping", due);
    if (lease !== null && SHARED_LEASE.test(lease)) this.wake("shared uploads", askAt(id));
    return id;
  }

  /** Opens an upload for contents of an import, or one of which `MultipartStore` says more. */
  openFor(
    kind: "import" | "multipart",
    { id, gen, now, ttlMs }: Omit<NewUpload, "lease"> & { ttlMs: number },
  ): void {
    this.sql.run`
      INSERT INTO uploads (id, gen, due, ttl, multipart)
      VALUES (${id}, ${gen}, ${now + ttlMs}, ${ttlMs}, ${Number(kind === "multipart")})`;
    this.#remember(id);
    this.wake("housekeeping", now + ttlMs);
  }

  /** The upload, if it is open, of this generation, and no multipart upload. */
  find(id: string, gen: number): UploadRow | undefined {
    return this.sql.first<UploadRow>`
      SELECT id, gen, lease FROM uploads
      WHERE isFresh IN (0, 1) AND id = ${id} AND gen = ${gen} AND multipart = 0 AND lost = 0`;
  }

  /** The generation of an upload that is open, or whose lease is lost. */
  generationOf(id: string): number | undefined {
    return this.sql.first<{ gen: number }>`
      SELECT gen FROM uploads WHERE isFresh IN (0, 1) AND id = ${id} AND multipart = 0`?.gen;
  }

  /** Keeps an upload of this generation, of either kind, open for another while. Returns whether it is open. */
  renew(id: string, { gen, now }: { gen: number; now: number }): boolean {
    return this.sql.run`
      UPDATE uploads SET isFresh = 0, due = CASE WHEN due IS NULL THEN NULL ELSE ${now} + ttl END
      WHERE isFresh IN (0, 1) AND id = ${id} AND gen = ${gen} AND lost = 0`;
  }

  /** The lease is lost: nothing is uploaded under it from now on. What it holds goes with the next look at what ran out. */
  abortLease(lease: string, { id, gen, now }: Omit<NewUpload, "lease">): void {
    const forgotten = now + UPLOAD_LEASE_MS;
    const row = this.sql.first<{ id: string; gen: number; due: number }>`
      INSERT INTO uploads (id, gen, lease, due, ttl, multipart, lost)
      VALUES (${id}, ${gen}, ${lease}, ${forgotten}, ${UPLOAD_LEASE_MS}, 0, 1)
      ON CONFLICT (lease) WHERE lease IS NOT NULL DO UPDATE SET lost = 1,
        due = iif(EXISTS (SELECT 1 FROM holds WHERE upload = uploads.id), ${now}, excluded.due)
      RETURNING id, gen, due`;
    if (row?.id === id) this.#remember(id);
    if (row && this.#isOfEarlier(row.id)) this.#stores.sweeps.mark(row.gen, now);
    if (row) this.wake("housekeeping", row.due);
  }

  /** The pipeline is gone: its uploads run out like others. */
  forgetLeases(now: number): void {
    this.sql.run`
      UPDATE uploads SET lease = NULL, due = min(ifnull(due, 9e15), ${now + UPLOAD_LEASE_MS}) WHERE lease >= ''`;
    this.wake("housekeeping", now + UPLOAD_LEASE_MS);
  }

  /** The generation is gone: the next look at what ran out ends its multipart uploads. */
  expireMultiparts(gen: number, now: number): void {
    this.sql.run`
      UPDATE uploads SET due = ${now} FROM multiparts
      WHERE multiparts.gen = ${gen} AND uploads.isFresh = 0 AND uploads.id = multiparts.upload`;
    this.wake("housekeeping");
  }

  /** Forgets some lost leases after their time. Returns nothing: what is left is due still. */
  forgetLost(now: number, limit: number): void {
    const forgotten = this.sql.all<{ id: string }>`
      DELETE FROM uploads WHERE isFresh = 0 AND id IN (
        SELECT id FROM uploads INDEXED BY uploads_by_due
        WHERE isFresh = 0 AND due IS NOT NULL AND due <= ${now} AND lost = 1
          AND NOT EXISTS (SELECT 1 FROM holds WHERE upload = uploads.id)
        ORDER BY due LIMIT ${limit})
      RETURNING id`;
    for (const { id } of forgotten) this.#opened.delete(id);
  }

  /**
   * Those that ran out. Fresh ones are looked at in the order of their ids, which is that of their ends unless the clock was set
   * back: then one may wait as much longer.
   */
  expired(now: number, limit: number): string[] {
    const fresh = this.sql.all<{ id: string; due: number }>`
      SELECT id, due FROM uploads WHERE isFresh = 1 ORDER BY id LIMIT ${limit}`.filter(
      ({ due }) => due <= now,
    );
    const others = this.sql.all<{ id: string }>`
      SELECT id FROM uploads INDEXED BY uploads_by_due
      WHERE isFresh = 0 AND due IS NOT NULL AND due <= ${now} ORDER BY due LIMIT ${limit - fresh.length}`;
    return [...fresh, ...others].map(({ id }) => id);
  }

  /** When the next one runs out; undefined if none does. */
  nextDue(): number | undefined {
    const fresh = this.sql.first<{ due: number }>`
      SELECT due FROM uploads WHERE isFresh = 1 ORDER BY id LIMIT 1`;
    const other = this.sql.first<{ due: number }>`
      SELECT due FROM uploads INDEXED BY uploads_by_due WHERE isFresh = 0 AND due >= 0 ORDER BY due LIMIT 1`;
    return earliest(fresh?.due, other?.due);
  }

  /**
   * Those of what outcomes share about which the pipeline is to be asked by now, since nobody knows whether results name them; oldest
   * first.
   */
  unasked(now: number, limit: number): string[] {
    return this.sql.all<{ id: string }>`
      SELECT id FROM uploads INDEXED BY uploads_shared
      WHERE isNamed = 0 AND lost = 0 AND lease >= 'shared.' AND lease < 'shared/' AND id > ''
      ORDER BY id LIMIT ${limit}`
      .map(({ id }) => id)
      .filter((id) => askAt(id) <= now);
  }

  /**
   * When the pipeline is to be asked next; undefined if there is nothing to ask about. Looked at after each transaction: SQLite
   * plans a statement anew each time that its LIMIT is a parameter, which takes ten times as long as this look.
   */
  nextAsk(): number | undefined {
    const oldest = this.sql.first<{ id: string }>`
      SELECT id FROM uploads INDEXED BY uploads_shared
      WHERE isNamed = 0 AND lost = 0 AND lease >= 'shared.' AND lease < 'shared/' AND id > ''
      ORDER BY id LIMIT 1`;
    return oldest && askAt(oldest.id);
  }

  /** The pipeline said that results name it. */
  setNamed(id: string): void {
    this.sql.run`UPDATE uploads SET isNamed = 1 WHERE isFresh = 0 AND id = ${id}`;
  }

  /** Registers contents and keeps them for the upload. */
  add(upload: UploadRow, { contents, now }: { contents: readonly Content[]; now: number }): void {
    const [only] = contents;
    if (contents.length === 1 && only) {
      this.hold(upload, { content: only, now });
      return;
    }
    const held = new Set<string>();
    for (const content of contents) {
      if (held.has(contentName(content))) this.#stores.contents.discard(content, now);
      else this.#stores.contents.add(content, { gen: upload.gen, now, named: 0 });
      held.add(contentName(content));
    }
    this.#list(upload.id, [...held]);
  }

  /** Registers one content. */
  hold(upload: Pick<UploadRow, "id" | "gen">, { content, now }: { content: Content; now: number }): void {
    if (this.#hold(upload.id, content))
      this.#stores.contents.add(content, { gen: upload.gen, now, named: 0 });
    else this.#stores.contents.discard(content, now);
  }

  /** No longer keeps a content for the upload. */
  letGo({ id, gen }: Pick<UploadRow, "id" | "gen">, { digest, size }: ContentId): void {
    const held = this.sql.run`
      DELETE FROM holds WHERE upload = ${id} AND digest = unhex(${digest}) AND size = ${size}`;
    if (held) this.#stores.contents.release({ digest, size, gen });
    const name = contentName({ digest, size });
    const lists = this.sql.all<HeldList>`
      SELECT size AS number, names FROM holds
      WHERE upload = ${id} AND digest = x'' AND instr(names, ${JSON.stringify(name)}) > 0`;
    this.#release(
      lists.flatMap((list) => this.#unlist(id, list, (listed) => listed === name)),
      gen,
    );
  }

  /** Keeps what is there and returns what is not. */
  reserve(upload: UploadRow, contents: readonly ContentId[]): ContentId[] {
    const missing: ContentId[] = [];
    const held = new Set<string>();
    for (const { digest, size } of contents) {
      const content = { digest, size, gen: upload.gen };
      if (!this.#stores.contents.has(content)) missing.push({ digest, size });
      else held.add(contentName(content));
    }
    this.#stores.contents.keepMany(
      [...held].map((name) => [name, 1]),
      { gen: upload.gen, named: 0 },
    );
    this.#list(upload.id, [...held]);
    return missing;
  }

  /** Where the bytes of contents are that the upload holds, as many as fit one answer, up to the first that it does not hold. */
  bodies({ id, gen }: UploadRow, contents: readonly ContentId[]): Body[] {
    const bodies: Body[] = [];
    let room = ANSWER_BYTES;
    const asked = JSON.stringify(contents.map(contentName));
    const held = new Set(this.sql.query<{ name: string }>(HELD, [id, asked]).map(({ name }) => name));
    for (const content of contents) {
      const found = held.has(contentName(content)) ? this.#stores.contents.find(content, gen) : undefined;
      room -= found?.bytes ?? 0;
      if (!found || (room < 0 && bodies.length > 0)) break;
      bodies.push(found.body);
    }
    return bodies;
  }

  /**
   * Ends an upload that ran out. If its lease is lost, it only gives up what it holds: the row stays for its time. Returns how
   * much it has given up of what it holds, which is so much `atMost`.
   */
  end(id: string, { now, atMost }: { now: number; atMost: number }): number {
    const lost = this.sql.first<{ gen: number }>`
      UPDATE uploads SET due = ${now + UPLOAD_LEASE_MS}
      WHERE isFresh = 0 AND id = ${id} AND lost = 1 AND EXISTS (SELECT 1 FROM holds WHERE upload = ${id}) RETURNING gen`;
    if (!lost) return this.#close(id, { now, leaves: "its-body", atMost });
    return this.#giveUp(id, { gen: lost.gen, multipart: 0, atMost });
  }

  /**
   * Ends an upload and releases what it holds. `leaves`: blobs that nothing names may be left of it; absent if whoever
   * wrote them has said nothing of it. Returns as `end` does.
   */
  close(
    id: string,
    now: number,
    {
      leaves = false,
      atMost = RELEASED,
    }: { readonly leaves?: boolean | undefined; readonly atMost?: number } = {},
  ): number {
    return this.#close(id, { now, leaves: leaves ? "some" : "none", atMost });
  }

  /** Ends an upload, and so many files of its generation keep these contents, by name: one of them in place of the upload. */
  handOver(
    id: string,
    { kept, gen, now }: { kept: ReadonlyMap<string, number>; gen: number; now: number },
  ): void {
    const { contents } = this.#stores;
    const names: Counts = new Map();
    // What is not handed over at once is kept by its file, and released later: two rows more of each content.
    const atMost = Math.max(RELEASED, kept.size + 1);
    this.#close(id, { now, leaves: "none", atMost, to: { gen, names } });
    const refs = [...new Set([...kept.keys(), ...names.keys()])].map(
      (name) => [name, (kept.get(name) ?? 0) - (names.get(name) ?? 0)] as const,
    );
    const more = refs.filter(([, change]) => change > 0);
    if (more.length > 0) contents.keepMany(more, { gen, named: 1 });
    const less = refs.flatMap(([name, change]) => (change < 0 ? [[name, -change] as const] : []));
    if (less.length > 0) contents.releaseMany(less, gen);
    contents.setNamed(
      refs.flatMap(([name, change]) => (change <= 0 && kept.has(name) ? [name] : [])),
      gen,
    );
  }

  /** `its-body`: it ran out, so that the body it was for never came to its end. Parts of one end by themselves. */
  #close(
    id: string,
    {
      now,
      leaves,
      ...giving
    }: { now: number; leaves: "none" | "some" | "its-body" } & Pick<Giving, "atMost" | "to">,
  ): number {
    const upload = this.sql.first<{ gen: number; multipart: 0 | 1 }>`
      DELETE FROM uploads WHERE isFresh IN (0, 1) AND id = ${id} RETURNING gen, multipart`;
    if (!upload) return 0;
    if (upload.multipart) this.#stores.multiparts.forget(id);
    const given = this.#giveUp(id, { ...upload, ...giving });
    const isOfEarlier = this.#isOfEarlier(id);
    this.#opened.delete(id);
    const some = leaves === "some" || (leaves === "its-body" && !upload.multipart) || isOfEarlier;
    if (some) this.#stores.sweeps.mark(upload.gen, now);
    return given;
  }

  #remember(id: string): void {
    this.#opened.add(id);
    const [oldest] = this.#opened;
    if (oldest !== undefined && this.#opened.size > MAX_OPENED) this.#opened.delete(oldest);
  }

  /** Whether an earlier instance opened it, which may have died with the gateway: then a body may have been cut off. */
  #isOfEarlier(id: string): boolean {
    return !this.#opened.has(id);
  }

  /** Ends an upload that nothing names any more. That of a lease leaves its row for a while: a late call opens no other one. */
  retire(id: string, now: number): void {
    const upload = this.sql.first<{
      gen: number;
      lost: number;
    }>`SELECT gen, lost FROM uploads WHERE isFresh IN (0, 1) AND id = ${id}`;
    if (!upload || upload.lost === 1) return;
    const isLeased = this.sql.run`
      UPDATE uploads SET lost = 1, due = ${now + UPLOAD_LEASE_MS}
      WHERE isFresh = 0 AND id = ${id} AND lease IS NOT NULL`;
    if (isLeased) {
      this.wake("housekeeping", now + UPLOAD_LEASE_MS);
      this.#giveUp(id, { gen: upload.gen, multipart: 0, atMost: RELEASED });
      if (this.#isOfEarlier(id)) this.#stores.sweeps.mark(upload.gen, now);
    } else this.close(id, now);
  }

  /** Gives up what an upload of this generation holds beside the contents of these names. Returns whether that was anything. */
  keepOnly(id: string, { gen, names }: { gen: number; names: readonly string[] }): boolean {
    const given = this.sql.all<{ name: string }>`
      DELETE FROM holds WHERE upload = ${id} AND digest > x''
        AND lower(hex(digest)) || '-' || size NOT IN (SELECT value FROM json_each(${JSON.stringify(names)}))
      RETURNING lower(hex(digest)) || '-' || size AS name`;
    const kept = new Set(names);
    const lists = this.sql.all<HeldList>`
      SELECT size AS number, names FROM holds WHERE upload = ${id} AND digest = x''`;
    const unlisted = lists.flatMap((list) => this.#unlist(id, list, (listed) => !kept.has(listed)));
    const rest = [...given.map(({ name }) => name), ...unlisted];
    this.#release(rest, gen);
    return rest.length > 0;
  }

  /** Gives up some more of what uploads that ended hold: so many contents and parts at most. */
  releaseEnded(atMost: number): void {
    for (let room = atMost; room > 0; ) {
      const next = this.sql.first<{ upload: string; gen: number }>`SELECT upload, gen FROM ended LIMIT 1`;
      if (!next) return;
      const given = this.#giveSome(next.upload, { gen: next.gen, multipart: 1, atMost: room });
      if (given < room) this.sql.run`DELETE FROM ended WHERE upload = ${next.upload}`;
      room -= Math.max(given, 1);
    }
  }

  /** Whether any upload that ended still holds something, also one that an earlier instance left. */
  get hasEnded(): boolean {
    return this.sql.has`SELECT 1 FROM ended LIMIT 1`;
  }

  /** Gives up what an upload holds that ends: so much at most, and the rest is for `releaseEnded`. Returns how much that was. */
  #giveUp(id: string, giving: Giving): number {
    const given = this.#giveSome(id, giving);
    if (given < giving.atMost) return given;
    this.sql.run`INSERT INTO ended (upload, gen) VALUES (${id}, ${giving.gen}) ON CONFLICT DO NOTHING`;
    this.wake("housekeeping");
    return given;
  }

  /** Returns how many contents or parts those were, whichever are more. */
  #giveSome(id: string, { gen, multipart, atMost, to }: Giving): number {
    const given = this.sql.all<{ name: string }>`
      DELETE FROM holds WHERE upload = ${id} AND digest > x''
        AND (digest, size) IN (SELECT digest, size FROM holds WHERE upload = ${id} AND digest > x'' LIMIT ${atMost})
      RETURNING lower(hex(digest)) || '-' || size AS name`;
    const names = given.map(({ name }) => name);
    while (names.length < atMost) {
      const list = this.sql.first<HeldList>`
        SELECT size AS number, names FROM holds WHERE upload = ${id} AND digest = x'' ORDER BY size LIMIT 1`;
      if (!list) break;
      let room = atMost - names.length;
      names.push(...this.#unlist(id, list, () => room-- > 0));
    }
    if (to?.gen === gen) countNames(names, to.names);
    else this.#release(names, gen);
    const parts = multipart ? this.#stores.multiparts.parts.forget(id, atMost) : 0;
    return Math.max(names.length, parts);
  }

  /** As often as each is named. */
  #release(names: readonly string[], gen: number): void {
    if (names.length === 0) return;
    this.#stores.contents.releaseMany([...countNames(names)], gen);
  }

  /** The upload holds these contents, each of which is kept once for that. */
  #list(id: string, names: readonly string[]): void {
    for (let start = 0; start < names.length; start += LISTED) {
      this.sql.run`
        INSERT INTO holds (upload, digest, size, names)
        SELECT ${id}, x'', ifnull(max(size), 0) + 1, ${JSON.stringify(names.slice(start, start + LISTED))}
        FROM holds WHERE upload = ${id} AND digest = x''`;
    }
  }

  /** Takes the contents out of a list of which that is asked, in their order, and returns their names. */
  #unlist(id: string, { number, names }: HeldList, isTaken: (name: string) => boolean): string[] {
    const taken: string[] = [];
    const rest: string[] = [];
    for (const name of JSON.parse(names)) (isTaken(name) ? taken : rest).push(name);
    if (rest.length === 0) {
      this.sql.run`DELETE FROM holds WHERE upload = ${id} AND digest = x'' AND size = ${number}`;
    } else if (taken.length > 0) {
      this.sql.run`
        UPDATE holds SET names = ${JSON.stringify(rest)}
        WHERE upload = ${id} AND digest = x'' AND size = ${number}`;
    }
    return taken;
  }

  #byLease(lease: string): (UploadRow & { readonly lost: 0 | 1 }) | undefined {
    return this.sql.first<UploadRow & { lost: 0 | 1 }>`
      SELECT id, gen, lease, lost FROM uploads WHERE lease = ${lease}`;
  }

  /** Returns false if the upload holds it already. */
  #hold(id: string, { digest, size }: ContentId): boolean {
    return this.sql.run`
      INSERT INTO holds (upload, digest, size) VALUES (${id}, unhex(${digest}), ${size})
      ON CONFLICT DO NOTHING`;
  }
}

/** Counts them on top of what was counted. */
function countNames(names: readonly string[], counts: Counts = new Map()): Counts {
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}
