import { branchFault } from "../../../../protocol/archive-rules.ts";
import { IMPORT_LEASE_MS } from "../../../../protocol/archives.ts";
import type { NamedLoop } from "../../../objects/loop.ts";
import type { Tx } from "../../../objects/transaction.ts";
import type { Import } from "../../archives/import-store.ts";
import type { BranchContext } from "../../context.ts";
import type { AnswerOf, Refused, RequestOf } from "../../contract.ts";
import type { BranchLoop } from "../../store.ts";
import type { Forker } from "../forks/forker.ts";
import { purgeSlice } from "../forks/purge.ts";
import type { Courier } from "../outbox/courier.ts";
import { countsFault } from "./import-counts.ts";
import { importCommits, importFiles, importTags, type PageFault, UndoneError } from "./import-rows.ts";

/** Between the numbers of a generation that lives or lived and of one that comes: so many may begin meanwhile. */
const GAP = 1_000_000;
/** Rows that one slice of a purge removes. */
const PURGED_ROWS = 1000;

interface ImporterOptions extends Pick<BranchContext, "ledger" | "now" | "moment" | "turn"> {
  readonly courier: Courier;
  readonly forker: Pick<Forker, "settled">;
  readonly bucket: () => string;
}

type Gone = Refused<"no-such-import" | "already-exists">;

/**
 * Makes a branch of the pages of an archive: the same commits with the same ids, times and notes, the same tags and files.
 *
 * 1. Coming. The rows are those of a generation that is in no row of `generations`, so that nobody sees any of them. Its
 *    number is far above the others: a branch that is made meanwhile has one below it, and the import gives way. Each
 *    page is a transaction that says how far it is. So after a crash, of either side, it goes on behind the last page.
 * 2. Made. One transaction enters the generation, with what it is set to. Then the branch is there, whole.
 * 3. Purging, if it was given up, or nothing came for a day, or another archive is imported instead: its rows go in slices.
 *
 * A pipeline that follows the name of the branch would make a job of each old commit. So none may: it is stopped first,
 * and started again when the branch is there.
 */
export class Importer implements NamedLoop {
  readonly name = "imports" satisfies BranchLoop;
  readonly #options: ImporterOptions;

  constructor(options: ImporterOptions) {
    this.#options = options;
  }

  /** There must be tables. */
  async begin({ archive, branch }: RequestOf<"beginImport">): Promise<AnswerOf<"beginImport">> {
    const { ledger, forker, bucket } = this.#options;
    await forker.settled();
    const { now, id: newId } = this.#options.moment();
    const answer = ledger.transaction((tx): Import | Exclude<AnswerOf<"beginImport">, { ok: true }> => {
      const live = ledger.generations.live();
      const made = live && ledger.imports.get(live.uid);
      if (made?.archive === archive) return made;
      const followed = this.#refusal();
      if (followed) return followed;
      const fault = branchFault(branch, now);
      if (fault) return badArchive(`branch.${fault.path}`, fault.message);
      const due = now + IMPORT_LEASE_MS;
      const coming = ledger.imports.coming();
      if (coming?.archive === archive && coming.head === branch.head)
        return this.#goOn(tx, { coming, now, due });
      if (coming) this.#giveUp(tx, coming);
      const uid = newId(now);
      const upload = `${bucket()}.${newId(now)}`;
      const gen = Math.max(ledger.generations.newest()?.gen ?? 0, ledger.imports.newestGen()) + GAP;
      const { createdAt, head, floor, settings } = branch;
      ledger.imports.begin({ uid, gen, archive, upload, createdAt, head, floor, settings }, due);
      ledger.uploads.openImport({ id: upload, gen, now, ttlMs: IMPORT_LEASE_MS });
      const begun = ledger.imports.get(uid);
      if (!begun) throw new Error("an import that was just written down is not there");
      return begun;
    });
    return "ok" in answer ? answer : shown(answer);
  }

  commits({ import: uid, after, commits }: RequestOf<"importCommits">): AnswerOf<"importCommits"> {
    return this.#page(uid, (tx, { row, now }) =>
      after === row.seq ? importCommits(tx, this.#options.ledger, { row, page: commits, now }) : row,
    );
  }

  tags({ import: uid, after, tags }: RequestOf<"importTags">): AnswerOf<"importTags"> {
    return this.#page(uid, (tx, { row, now }) => {
      if (after !== row.tag) return row;
      if (row.seq < row.head) return badArchive("tags", "come before the commits that they name");
      return importTags(tx, this.#options.ledger, { row, page: tags, now });
    });
  }

  files({ import: uid, after, files, contents }: RequestOf<"importFiles">): AnswerOf<"importFiles"> {
    try {
      return this.#page(uid, (tx, { row, now }) => {
        const isNext = after.path === row.place.path && after.born === row.place.born;
        if (!isNext) return row;
        if (row.seq < row.head) return badArchive("files", "come before the commits that they came with");
        return importFiles(tx, this.#options.ledger, { row, files, bytes: contents, now });
      });
    } catch (error) {
      if (error instanceof UndoneError) return error.fault;
      throw error;
    }
  }

  /** The branch is there when this answers; the catalogue knows it, too. Asked again it answers the same. */
  async finish(request: RequestOf<"finishImport">): Promise<AnswerOf<"finishImport">> {
    const { ledger, courier, turn } = this.#options;
    const { now, id: newId } = this.#options.moment();
    const ready = ledger.transaction((tx) => this.#whole(tx, request));
    if (!ready.ok) return ready;
    if (ready.row.state === "coming") {
      const fault = await countsFault(ledger, { row: ready.row, turn });
      if (fault) return fault;
      const done = ledger.transaction((tx) => {
        // Others came in between. No row has come since: as many are wanted as were counted.
        const still = this.#whole(tx, request);
        if (still.ok && still.row.state === "coming") {
          this.#publish(tx, { row: still.row, event: newId(now), now, by: request.key ?? null });
        }
        return still;
      });
      if (!done.ok) return done;
    }
    // Commits that come now are later than those that came.
    ledger.clock.load();
    const isTold = (await courier.flushSettings()) && (await courier.flushCatalogue());
    if (!isTold) return refused("catalogue-unavailable");
    return { ok: true, head: ledger.live?.head.id ?? null };
  }

  /** An import of which all has come, or that is the branch by now. */
  #whole(
    _: Tx,
    { import: uid, counts }: RequestOf<"finishImport">,
  ): { readonly ok: true; readonly row: Import } | Exclude<AnswerOf<"finishImport">, { ok: true }> {
    const { ledger } = this.#options;
    const row = ledger.imports.get(uid);
    if (row?.state === "made" && ledger.generations.live()?.uid === uid) return { ok: true, row };
    if (row?.state !== "coming") return refused("no-such-import");
    const refusal = this.#refusal();
    if (refusal) return refusal;
    const lacks = (["commits", "tags", "files"] as const).find((what) => row[what] !== counts[what]);
    if (lacks === undefined && row.seq === row.head) return { ok: true, row };
    const what = lacks ?? "commits";
    return badArchive(`counts.${what}`, `says that ${counts[what]} were to come, and ${row[what]} came`);
  }

  abort({ import: uid }: RequestOf<"abortImport">): void {
    const { ledger } = this.#options;
    if (!ledger.exists) return;
    ledger.transaction((tx) => {
      const row = ledger.imports.get(uid);
      if (row?.state === "coming") this.#giveUp(tx, row);
    });
  }

  due(): number | undefined {
    const { imports } = this.#options.ledger;
    return imports.purging() ? 0 : imports.nextDue();
  }

  /** Expires an import to which nothing came for too long, or goes on with what there is to purge. */
  async step(): Promise<void> {
    const { ledger, now } = this.#options;
    ledger.transaction((tx) => {
      const expired = ledger.imports.expired(now());
      if (expired) this.#giveUp(tx, expired);
    });
    await this.#purgeAll();
  }

  /** Why no branch may come out of an archive here now. */
  #refusal(): Extract<AnswerOf<"finishImport">, { reason: "already-exists" | "followed" }> | undefined {
    const { ledger } = this.#options;
    if (ledger.generations.live() || ledger.forks.present()) return refused("already-exists");
    const pipelines = ledger.subscribers.all().map(({ pipeline }) => pipeline);
    return pipelines.length > 0 ? { ok: false, reason: "followed", pipelines } : undefined;
  }

  /** Its upload may have run out, or have been given up. */
  #goOn(_: Tx, { coming, now, due }: { coming: Import; now: number; due: number }): Import {
    const { ledger, bucket, moment } = this.#options;
    const { uid, gen } = coming;
    const isOpen = ledger.uploads.renew(coming.upload, { gen, now });
    const upload = isOpen ? coming.upload : `${bucket()}.${moment().id(now)}`;
    if (!isOpen) ledger.uploads.openImport({ id: upload, gen, now, ttlMs: IMPORT_LEASE_MS });
    ledger.imports.setUpload(uid, { upload, due });
    return { ...coming, upload };
  }

  /** Writes a page, and how far the import is then. Whatever is wrong with a page, nothing of it is written. */
  #page<
    Fault extends
      | PageFault
      | { readonly ok: false; readonly reason: "no-such-content"; readonly path: string },
  >(
    uid: string,
    work: (tx: Tx, at: { readonly row: Import; readonly now: number }) => Import | Fault,
  ): { readonly ok: true; readonly progress: Progress } | Gone | Refused<"branch-full"> | Fault {
    const { ledger, now } = this.#options;
    if (!ledger.exists) return refused("no-such-import");
    return ledger.transaction((tx) => {
      const row = ledger.imports.get(uid);
      if (row?.state !== "coming") return refused("no-such-import");
      // Whoever makes the branch meanwhile has it.
      if (ledger.generations.live() || ledger.forks.present()) return refused("already-exists");
      if (ledger.isFull(PURGED_ROWS)) return refused("branch-full");
      const time = now();
      const done = work(tx, { row, now: time });
      if ("ok" in done) return done;
      ledger.imports.advance(done, time + IMPORT_LEASE_MS);
      ledger.uploads.renew(done.upload, { gen: done.gen, now: time });
      return { ok: true as const, progress: progressOf(done) };
    });
  }

  #publish(
    _: Tx,
    { row, event, now, by }: { row: Import; event: string; now: number; by: string | null },
  ): void {
    const { ledger } = this.#options;
    const { uid, gen, createdAt, floor, upload, settings } = row;
    ledger.generations.enter({ gen, uid, createdAt });
    ledger.imports.made(uid, { at: now, by });
    // Nothing is marked: what forks and pipelines held at the other gateway is given back here.
    if (floor > 0) ledger.horizons.save({ ...ledger.horizons.get(gen), floor });
    ledger.uploads.close(upload, now, { leaves: true });
    const { public: isPublic, cors, writer, modified, emptyOnly } = settings;
    if (isPublic || cors !== null || writer !== null || modified !== null || emptyOnly) {
      ledger.settings.save(gen, {
        ...ledger.settings.of(gen),
        isPublic,
        cors,
        writer,
        modified,
        emptyOnly,
        revision: 1,
      });
      ledger.outbox.tellSettings({ event, now });
    }
    ledger.tags.beginGeneration(gen);
    ledger.outbox.tellCatalogue({ event, now });
  }

  #giveUp(_: Tx, { uid, upload }: Import): void {
    const { ledger, now } = this.#options;
    ledger.imports.giveUp(uid);
    ledger.uploads.close(upload, now(), { leaves: true });
  }

  async #purgeAll(): Promise<void> {
    const { ledger, now, turn } = this.#options;
    for (let row = ledger.imports.purging(); row; row = ledger.imports.purging()) {
      const { uid, gen } = row;
      while (ledger.transaction((tx) => purgeSlice(tx, ledger, { gen, now: now() }))) await turn();
      for (const table of PURGED) {
        while (ledger.sql.execute(purgeOf(table), [gen, PURGED_ROWS]).rowsWritten > 0) await turn();
      }
      ledger.transaction(() => ledger.imports.remove(uid));
      await turn();
    }
  }
}

/** Tables with rows of a generation, beside those of files and contents, and what follows `gen` in their keys. */
const PURGED = [
  ["commits", "seq"],
  ["lineages", "seq"],
  ["tags", "name"],
  ["revived", "version, path, born"],
] as const;

/** Of (?1 gen, ?2 limit). */
function purgeOf([table, key]: (typeof PURGED)[number]): string {
  return `DELETE FROM ${table} WHERE gen = ?1 AND (${key}) IN (SELECT ${key} FROM ${table} WHERE gen = ?1 LIMIT ?2)`;
}

type Progress = ReturnType<typeof progressOf>;

function progressOf({ seq, tag, place }: Import) {
  return { commits: seq, tags: tag, files: place };
}

function shown(row: Import): Extract<AnswerOf<"beginImport">, { ok: true }> {
  const { uid, upload, state } = row;
  return { ok: true, import: uid, upload, done: state === "made", progress: progressOf(row) };
}

function badArchive(path: string, message: string): PageFault {
  return { ok: false, reason: "bad-archive", path, message };
}

function refused<R extends string>(reason: R): Refused<R> {
  return { ok: false, reason };
}
