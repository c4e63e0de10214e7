import { branchFault } from "../../../protocol/archive-rules.ts";
import { EXPORT_LEASE_MS, IMPORT_LEASE_MS } from "../../../protocol/archives.ts";
import type { Tx } from "../../objects/transaction.ts";
import type { Import } from "../archives/import-store.ts";
import { type AnswerOf, type Refused, type RequestOf, refused } from "../contract/answers.ts";
import type {
  BadArchive,
  ExportCalls,
  ImportCalls,
  ImportRefused,
  PageImported,
} from "../contract/archives.ts";
import { commitsPage, FilePage, tagsPage } from "../history/archives/export-pages.ts";
import {
  countsFault,
  giveUpImport,
  importCommits,
  importFiles,
  importTags,
  UndoneError,
} from "../history/archives/import-rows.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Position } from "../tree/commit-store.ts";
import { settled } from "../write/fork.ts";
import { absent, type BranchFacet, prepare, type Reach, uploadId } from "./facet.ts";

/** A call that comes so soon after the last one does not write down that the export goes on; milliseconds. */
const RENEW_EVERY_MS = 60_000;

/**
 * Reads a branch with its history, in pages. What they have is what was there when the export began: a row that came later
 * is left out, and one that was replaced later is as it was. While it is under way, nothing that it has not read goes, but
 * what is erased. Each call writes down that it goes on, so that an export whose reader is gone holds nothing back for long.
 */
export const exports: BranchFacet<ExportCalls> = {
  async begin({ ledger, moment }) {
    const { live } = ledger;
    if (!live) return absent(ledger);
    const { now, id: newId } = moment();
    const id = newId(now);
    const { gen, uid, head, createdAt } = live;
    ledger.transaction(() => {
      ledger.exports.forgetOld(now);
      ledger.exports.open({ id, gen, seq: head.seq }, now + EXPORT_LEASE_MS);
    });
    const { revision: _, isPublic, ...others } = ledger.settings.of(gen);
    const settings = { public: isPublic, ...others };
    const horizon = ledger.horizons.horizonOf(gen);
    const imported = ledger.imports.of(uid) ?? null;
    const branch = { createdAt, head: head.seq, floor: horizon, imported, settings };
    return { ok: true, export: id, branch, rows: head.births };
  },

  async commits(reach, { export: id, after }) {
    const at = goOn(reach, id);
    return at ? { ok: true, ...commitsPage(reach.ledger, { at, after }) } : refused("no-such-export");
  },

  async tags(reach, { export: id, after }) {
    const at = goOn(reach, id);
    return at ? { ok: true, ...tagsPage(reach.ledger, { at, after }) } : refused("no-such-export");
  },

  async files(reach, { export: id, after }) {
    const { ledger, turn } = reach;
    const page = new FilePage();
    let place: { path: string; born: number } | null = after;
    while (place !== null && page.hasRoom) {
      if (place !== after) await turn();
      // Others came in between: it may have ended.
      const at = goOn(reach, id);
      if (!at) return refused("no-such-export");
      place = page.addSlice(ledger, { at, after: place });
    }
    return { ok: true, files: page.files, contents: [...page.contents.values()], next: place };
  },

  async end({ ledger, renewed }, { export: id }) {
    renewed.delete(id);
    if (ledger.exists) ledger.transaction(() => ledger.exports.close(id));
  },
};

/** What the export reads; undefined if it has ended, or its branch has. */
function goOn({ ledger, now, renewed }: Reach, id: string): Position | undefined {
  const { live } = ledger;
  const found = live ? ledger.exports.find(id, now()) : undefined;
  if (!found || found.gen !== live?.gen) return undefined;
  const time = now();
  if (time - (renewed.get(id) ?? 0) >= RENEW_EVERY_MS) {
    renewed.set(id, time);
    ledger.transaction(() => ledger.exports.renew(id, time + EXPORT_LEASE_MS));
  }
  return found;
}

/** Between the numbers of a generation that lives or lived and of one that comes: so many may begin meanwhile. */
const GAP = 1_000_000;
/** Rows that a page may bring. */
const PAGE_ROWS = 1000;

/** Makes a branch of the pages of an archive (work/importer.ts tells its states). */
export const imports: BranchFacet<ImportCalls> = {
  async begin(reach, request) {
    const fault = await prepare(reach);
    if (fault) return refused(fault);
    const { ledger } = reach;
    await settled(reach);
    const begun = ledger.transaction((tx) => begin(tx, reach, request));
    if ("ok" in begun) return begun;
    const { uid, upload, state } = begun;
    return { ok: true, import: uid, upload, done: state === "made", progress: progressOf(begun) };
  },

  async commits(reach, { import: uid, after, commits }) {
    return page(reach, uid, (tx, { row, now }) =>
      after === row.seq ? importCommits(tx, reach.ledger, { row, page: commits, now }) : row,
    );
  },

  async tags(reach, { import: uid, after, tags }) {
    return page(reach, uid, (tx, { row, now }) => {
      if (after !== row.tag) return row;
      if (row.seq < row.head) return badArchive("tags", "come before the commits that they name");
      return importTags(tx, reach.ledger, { row, page: tags, now });
    });
  },

  async files(reach, { import: uid, after, files, contents }) {
    try {
      return page(reach, uid, (tx, { row, now }) => {
        const isNext = after.path === row.place.path && after.born === row.place.born;
        if (!isNext) return row;
        if (row.seq < row.head) return badArchive("files", "come before the commits that they came with");
        return importFiles(tx, reach.ledger, { row, files, bytes: contents, now });
      });
    } catch (error) {
      if (error instanceof UndoneError) return error.fault;
      throw error;
    }
  },

  /** The branch is there when this answers; the catalogue knows it, too. Asked again it answers the same. */
  async finish({ ledger, outbox, moment, turn }, request) {
    if (!ledger.exists) return refused("no-such-import");
    const { now, id: newId } = moment();
    const ready = ledger.transaction((tx) => wholeImport(tx, ledger, request));
    if (!ready.ok) return ready;
    if (ready.row.state === "coming") {
      const fault = await countsFault(ledger, { row: ready.row, turn });
      if (fault) return fault;
      const done = ledger.transaction((tx) => {
        // Others came in between. No row has come since: as many are wanted as were counted.
        const still = wholeImport(tx, ledger, request);
        if (still.ok && still.row.state === "coming") {
          publish(tx, ledger, { row: still.row, event: newId(now), now, by: request.key ?? null });
        }
        return still;
      });
      if (!done.ok) return done;
    }
    // Commits that come now are later than those that came.
    ledger.clock.load();
    const isAcknowledged = (await outbox.flush("settings")) && (await outbox.flush("catalogue"));
    return isAcknowledged
      ? { ok: true, head: ledger.live?.head.id ?? null }
      : refused("catalogue-unavailable");
  },

  async abort({ ledger, now }, { import: uid }) {
    if (!ledger.exists) return;
    ledger.transaction((tx) => {
      const row = ledger.imports.get(uid);
      if (row?.state === "coming") giveUpImport(tx, ledger, { row, now: now() });
    });
  },
};

function begin(
  tx: Tx,
  reach: Reach,
  { archive, branch }: RequestOf<ImportCalls["begin"]>,
): Import | ImportRefused | BadArchive {
  const { ledger, moment } = reach;
  const { now, id: newId } = moment();
  const live = ledger.generations.live();
  const made = live && ledger.imports.get(live.uid);
  if (made?.archive === archive) return made;
  const refusal = refusalOf(ledger);
  if (refusal) return refusal;
  const fault = branchFault(branch, now);
  if (fault) return badArchive(`branch.${fault.path}`, fault.message);
  const due = now + IMPORT_LEASE_MS;
  const coming = ledger.imports.coming();
  if (coming?.archive === archive && coming.head === branch.head) {
    // Its upload may have run out, or have been given up.
    const { uid, gen } = coming;
    const isOpen = ledger.uploads.renew(coming.upload, { gen, now });
    const upload = isOpen ? coming.upload : uploadId(reach, now);
    if (!isOpen) ledger.uploads.openFor("import", { id: upload, gen, now, ttlMs: IMPORT_LEASE_MS });
    ledger.imports.setUpload(uid, { upload, due });
    return { ...coming, upload };
  }
  if (coming) giveUpImport(tx, ledger, { row: coming, now });
  const uid = newId(now);
  const upload = uploadId(reach, now);
  const gen = Math.max(ledger.generations.newest()?.gen ?? 0, ledger.imports.newestGen()) + GAP;
  const { createdAt, head, floor: horizon, settings } = branch;
  ledger.imports.begin({ uid, gen, archive, upload, createdAt, head, horizon, settings }, due);
  ledger.uploads.openFor("import", { id: upload, gen, now, ttlMs: IMPORT_LEASE_MS });
  const begun = ledger.imports.get(uid);
  if (!begun) throw new Error("an import that was just written down is not there");
  return begun;
}

/** Writes a page, and how far the import is then. Whatever is wrong with a page, nothing of it is written. */
function page<Fault extends Refused<string>>(
  { ledger, now: clock }: Reach,
  uid: string,
  work: (tx: Tx, at: { readonly row: Import; readonly now: number }) => Import | Fault,
): PageImported | Refused<"no-such-import" | "already-exists" | "branch-full"> | Fault {
  if (!ledger.exists) return refused("no-such-import");
  return ledger.transaction((tx) => {
    const row = ledger.imports.get(uid);
    if (row?.state !== "coming") return refused("no-such-import");
    // Whoever makes the branch meanwhile has it.
    if (ledger.generations.live() || ledger.forks.present()) return refused("already-exists");
    if (ledger.isFull(PAGE_ROWS)) return refused("branch-full");
    const now = clock();
    const done = work(tx, { row, now });
    if ("ok" in done) return done;
    ledger.imports.advance(done, now + IMPORT_LEASE_MS);
    ledger.uploads.renew(done.upload, { gen: done.gen, now });
    return { ok: true, progress: progressOf(done) };
  });
}

/** An import of which all has come, or that is the branch by now. */
function wholeImport(
  _: Tx,
  ledger: Ledger,
  { import: uid, counts }: RequestOf<ImportCalls["finish"]>,
): { readonly ok: true; readonly row: Import } | Exclude<AnswerOf<ImportCalls["finish"]>, { ok: true }> {
  const row = ledger.imports.get(uid);
  if (row?.state === "made" && ledger.generations.live()?.uid === uid) return { ok: true, row };
  if (row?.state !== "coming") return refused("no-such-import");
  const refusal = refusalOf(ledger);
  if (refusal) return refusal;
  const lacks = (["commits", "tags", "files"] as const).find((what) => row[what] !== counts[what]);
  if (lacks === undefined && row.seq === row.head) return { ok: true, row };
  const what = lacks ?? "commits";
  return badArchive(`counts.${what}`, `says that ${counts[what]} were to come, and ${row[what]} came`);
}

function publish(
  _: Tx,
  ledger: Ledger,
  { row, event, now, by }: { row: Import; event: string; now: number; by: string | null },
): void {
  const { uid, gen, createdAt, horizon, upload, settings } = row;
  ledger.generations.enter({ gen, uid, createdAt });
  ledger.imports.made(uid, { at: now, by });
  // Nothing is marked: what forks and pipelines held at the other gateway is given back here.
  if (horizon > 0) ledger.horizons.save({ ...ledger.horizons.get(gen), horizon });
  ledger.uploads.close(upload, now, { leaves: true });
  const { public: isPublic, cors, writer, modified, emptyOnly, nearReads = false } = settings;
  if (isPublic || cors !== null || writer !== null || modified !== null || emptyOnly || nearReads) {
    const set = { isPublic, cors, writer, modified, emptyOnly, nearReads };
    ledger.settings.save(gen, { ...ledger.settings.of(gen), ...set, revision: 1 });
    ledger.outbox.tellSettings({ event, now });
  }
  ledger.tags.beginGeneration(gen);
  ledger.outbox.tellCatalogue({ event, now });
}

/** Why no branch may come out of an archive here now. */
function refusalOf({ generations, forks, subscribers }: Ledger): ImportRefused | undefined {
  if (generations.live() || forks.present()) return refused("already-exists");
  const pipelines = subscribers.all().map(({ pipeline }) => pipeline);
  return pipelines.length > 0 ? { ok: false, reason: "followed", pipelines } : undefined;
}

function badArchive(path: string, message: string): BadArchive {
  return { ok: false, reason: "bad-archive", path, message };
}

function progressOf({ seq, tag, place }: Import): PageImported["progress"] {
  return { commits: seq, tags: tag, files: place };
}
