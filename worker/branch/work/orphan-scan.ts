import { BLOB_FOLDERS, blobFolder, parseBlobName } from "../../blobs/blob-name.ts";
import { type JsonBlob, MissingBlobError, manifestPages, pageBlobs } from "../../blobs/manifest.ts";
import { type BlobStore, deleteEach } from "../../blobs/port.ts";
import type { NamedLoop, Next } from "../../objects/loop.ts";
import type { BranchContext } from "../context.ts";
import type { BranchLoop } from "../store.ts";
import type { Sweep } from "../uploads/sweep-store.ts";

/** Most steps of one alarm, each with a few calls to the store: together fewer than the 1,000 that an invocation may make. */
const STEPS = 50;
/** Most names that are listed, and orphans that are removed, in one step. */
const NAMES = 1000;
/** Most folders that are listed in one step: those of a small branch have few names each, and a step is a transaction. */
const FOLDERS = 16;
/** Most manifests whose writes are looked up at once; what is left out costs a read, and no more. */
const MANIFESTS = 20_000;
/** Characters of lists of chunks that one step looks through: what takes some milliseconds. */
const LISTS_LENGTH = 1_000_000;
/** How long after a failure it is tried again; milliseconds. */
const RETRY_MS = 60_000;
/** How often a sweep waits so for orphans that can't be deleted, before it goes on without them. */
const TRIES = 5;

interface OrphanScanOptions extends Pick<BranchContext, "ledger" | "now" | "turn"> {
  readonly store: () => BlobStore;
  /** The object's own bucket. */
  readonly bucket: () => string;
}

/**
 * Removes blobs that nothing names: those of a body that was on its way when the gateway died, or that came late. No table
 * knows them, so the store is asked what there is, folder by folder. What no table accounts for is written down as an
 * orphan. Then all lists and manifests are read, and what they name is spared: chunks and pages that a manifest lists are in
 * no table. What is left goes.
 *
 * Nothing that is or becomes named is removed, since
 * - a blob is named by the upload that wrote it, or by what has named it before. An orphan's upload has ended when the
 *   orphan is found, so nothing that comes later can be the first to name it;
 * - of what has named it before, blobs that contents own are in the table `blobs`, or in the row of the content that their name
 *   tells of. The others are in lists of contents, and
 *   in manifests of contents or such as are pending deletion. All of these are read after the orphan was found. If one of a
 *   content can't be read, the sweep stops there, and nothing goes;
 * - before it goes, each is looked up in the tables once more. Blobs are removed one by one: a manifest that is an orphan
 *   takes nothing along.
 *
 * Whoever reads a content is not disturbed: when its last name goes the deletion of its blobs is pending, and that accounts for them.
 *
 * A sweep begins when something may have been left: an upload ran out, or outlived an instance of this object, which may
 * have died with the gateway; or a request could not remove what it had brought. A branch whose uploads all end well is
 * never listed. An orphan that can't be deleted is left to another sweep after some tries. What is done is written down with each step; a crash does the last one again.
 */
export function orphanScan({ ledger, now, turn, store, bucket }: OrphanScanOptions): NamedLoop {
  /** So many steps of what is due as one alarm may take. */
  async function step(): Promise<Next> {
    for (let step = 0; step < STEPS; step++) {
      // The common case writes nothing.
      if ((ledger.sweeps.nextDue() ?? Number.POSITIVE_INFINITY) > now()) return false;
      const sweep = ledger.transaction(() => ledger.sweeps.current(now()));
      if (!sweep) return false;
      try {
        await stepOf(sweep);
      } catch (error) {
        console.warn(`the sweep of ${sweep.uid} could not go on and is tried again: ${error}`);
        ledger.transaction(() => ledger.sweeps.postpone(sweep, now() + RETRY_MS));
      }
      await turn();
    }
    return "next alarm";
  }

  function stepOf(sweep: Sweep): void | Promise<void> {
    switch (sweep.phase) {
      case "names":
        return list(sweep);
      case "lists":
        return spareListed(sweep);
      case "manifests":
        return spareByContents(sweep);
      case "doomed":
        return spareByPending(sweep);
      case "remove":
        return remove(sweep);
    }
  }

  async function list(sweep: Sweep): Promise<void> {
    const { names, ...rest } = await namesFrom(sweep);
    guarded(sweep, () => {
      // A name that is not one of ours is nobody's to remove.
      const ours = names.filter((name) => parseBlobName(name)?.uid === sweep.uid);
      const unaccounted = ours.length === 0 ? [] : ledger.sweeps.unaccounted(ours, bucket());
      const orphans = unaccounted.length === 0 ? [] : withoutManifest(unaccounted);
      ledger.sweeps.listed(sweep, { ...rest, seen: names.length, orphans });
    });
  }

  /** The names of some folders, and where to go on. */
  async function namesFrom({
    uid,
    ...from
  }: Sweep): Promise<{ names: string[]; folder: number; listed: string }> {
    const last = Math.min(from.folder + FOLDERS, BLOB_FOLDERS);
    const names: string[] = [];
    let { folder, listed } = from;
    while (folder < last && names.length < NAMES) {
      const prefix = blobFolder(folder, uid);
      const after = listed === "" ? undefined : listed;
      const page = await store().list({ prefix, after, limit: NAMES - names.length });
      names.push(...page.names);
      if (page.next === null) folder++;
      listed = page.next ?? "";
    }
    return { names, folder, listed };
  }

  /**
   * Those that were not written together with the manifest of a content. What was, is listed there: a write brings one
   * content. This saves writing down every chunk of a large one.
   */
  function withoutManifest(blobs: readonly string[]): string[] {
    const manifests = ledger.contents.someManifests(MANIFESTS);
    const writes = new Set(manifests.map((blob) => parseBlobName(blob)?.write));
    return blobs.filter((blob) => !writes.has(parseBlobName(blob)?.write));
  }

  /** Contents that were put together from others list blobs of those, and before `made` some that nobody owns. */
  function spareListed(sweep: Sweep): void {
    const { sweeps } = ledger;
    guarded(sweep, () => {
      const next = sweeps.hasOrphans() ? sweeps.spareListed(sweep.content, LISTS_LENGTH) : undefined;
      if (next === undefined) sweeps.nextPhase(sweep);
      else sweeps.advance(sweep, { ...sweep, content: next });
    });
  }

  /** Spares what one page of a content's manifest names, the page, and the manifest. */
  async function spareByContents(sweep: Sweep): Promise<void> {
    const { sweeps, contents } = ledger;
    const manifest = sweeps.hasOrphans() ? contents.manifestFrom(sweep.content) : undefined;
    if (!manifest) return guarded(sweep, () => sweeps.nextPhase(sweep));
    const { row, ...blob } = manifest;
    // The content that was looked at may have gone.
    const read = row === sweep.content ? sweep.pages : 0;
    const named = await namedBy(blob, read);
    guarded(sweep, () => {
      if (!named && contents.manifestFrom(row)?.blob === blob.blob) throw new MissingBlobError(blob.blob);
      sweeps.spare(named?.blobs ?? []);
      const more = named?.isLast === false;
      sweeps.advance(sweep, { ...sweep, content: more ? row : row + 1, pages: more ? read + 1 : 0 });
    });
  }

  /**
   * The same of a manifest that is pending deletion: when it is due the blob reaper deletes it, and what it lists. If the reaper
   * could not read it either, its readers have had their time, and nobody needs spared what it lists.
   */
  async function spareByPending(sweep: Sweep): Promise<void> {
    const { sweeps, pendingDeletions } = ledger;
    const manifest = sweeps.hasOrphans() ? pendingDeletions.manifestFrom(sweep.doomed) : undefined;
    if (!manifest) return guarded(sweep, () => sweeps.nextPhase(sweep));
    const read = manifest.blob === sweep.doomed ? sweep.pages : 0;
    const named = await namedBy(manifest, read).catch((error) => {
      if (manifest.tries === 0) throw error;
      console.warn(
        `what the manifest ${manifest.blob} lists, which is pending deletion, is not spared: ${error}`,
      );
      return undefined;
    });
    guarded(sweep, () => {
      sweeps.spare(named?.blobs ?? []);
      const more = named?.isLast === false;
      const next = more ? manifest.blob : `${manifest.blob}\0`;
      sweeps.advance(sweep, { ...sweep, doomed: next, pages: more ? read + 1 : 0 });
    });
  }

  /** What a manifest's page names, and with it the manifest and all of its pages; undefined if one of the two is not there. */
  async function namedBy(
    manifest: JsonBlob,
    page: number,
  ): Promise<{ readonly blobs: readonly string[]; readonly isLast: boolean } | undefined> {
    const pages = await manifestPages(store(), manifest);
    if (!pages) return undefined;
    const read = pages[page];
    const chunks = read ? await pageBlobs(store(), read) : [];
    if (!chunks) return undefined;
    const blobs = [manifest.blob, ...pages.map(({ blob }) => blob), ...chunks];
    return { blobs, isLast: page + 1 >= pages.length };
  }

  async function remove(sweep: Sweep): Promise<void> {
    const { sweeps } = ledger;
    const some = sweeps.orphans(NAMES);
    if (some.length === 0) return guarded(sweep, () => sweeps.round(sweep, now()));
    const orphans = ledger.transaction(() => {
      const ours = some.filter((blob) => parseBlobName(blob)?.uid === sweep.uid);
      const unaccounted = new Set(sweeps.unaccounted(ours, bucket()));
      sweeps.spare(some.filter((blob) => !unaccounted.has(blob)));
      return [...unaccounted];
    });
    const { gone, held } = sweep.removes ? await deleteEach(store(), orphans) : { gone: orphans, held: [] };
    const bytes = gone.reduce((sum, blob) => sum + (parseBlobName(blob)?.sizeBytes ?? 0), 0);
    guarded(sweep, () => {
      sweeps.settled(sweep, gone, bytes);
      for (const { blobs, error } of held) holdBack(sweep, blobs, error);
    });
  }

  /** Orphans could not be deleted: they hold up those behind them for a few minutes, and no longer. */
  function holdBack(sweep: Sweep, blobs: readonly string[], error: unknown): void {
    const isLeft = sweep.tries >= TRIES;
    if (isLeft) ledger.sweeps.leave(sweep, blobs, now());
    else ledger.sweeps.retry(sweep, now() + RETRY_MS);
    const what = blobs.length === 1 ? `blob ${blobs[0]}` : `${blobs.length} blobs, such as ${blobs[0]},`;
    const next = isLeft ? "is left to the next sweep" : `is tried again in ${RETRY_MS / 1000} s`;
    console.warn(`${what} that nothing names could not be deleted, and ${next}: ${error}`);
  }

  /** Writes down a step, unless the sweep was begun anew while the store was asked. */
  function guarded(sweep: Sweep, work: () => void): void {
    ledger.transaction(() => {
      if (ledger.sweeps.isUnderWay(sweep)) work();
    });
  }

  return { name: "orphan scan" satisfies BranchLoop, due: () => ledger.sweeps.nextDue(), step };
}
