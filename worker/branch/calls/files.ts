import { parseBlobName } from "../../blobs/blob-name.ts";
import { refused } from "../contract/answers.ts";
import type { FileCalls } from "../contract/files.ts";
import { readFile } from "../read/file.ts";
import { listFiles } from "../read/tree.ts";
import { listVersions } from "../read/versions.ts";
import { showView } from "../read/views.ts";
import { commitChanges } from "../write/commit.ts";
import { setTags } from "../write/set-tags.ts";
import { type BranchFacet, bounded, told } from "./facet.ts";
import { put, waits, write } from "./write.ts";

/** The tree: what is read of it, and what is written into it. */
export const files: BranchFacet<FileCalls> = {
  async view({ ledger }, request) {
    return told(ledger, showView(ledger, request));
  },

  async read({ ledger }, request) {
    return told(ledger, readFile(ledger, request));
  },

  async list({ ledger }, request) {
    return told(ledger, listFiles(ledger, bounded(request)));
  },

  async versions({ ledger }, request) {
    return told(ledger, listVersions(ledger, bounded(request)));
  },

  async content({ ledger: { exists, live, contents } }, { liveOnly, ...id }) {
    const isThere = exists && (live || !liveOnly);
    const body = isThere ? contents.body(id, liveOnly ? live?.gen : undefined) : undefined;
    return body ? { ok: true, body } : refused("no-such-content");
  },

  /** Puts off the deletion of blobs that somebody still reads. Nothing is written if none of them is to go. */
  async keepBlobs({ ledger, now }, { blobs }) {
    if (!ledger.exists) return { ok: true, borrowed: false, parents: [] };
    const { pendingDeletions, generations, forks } = ledger;
    const { borrowed } = ledger.transaction(() => pendingDeletions.keepForReaders(blobs, now()));
    const uids = new Set(blobs.map((blob) => parseBlobName(blob)?.uid));
    const hasOnLoan = [...uids].some((uid) => uid !== undefined && !generations.has(uid));
    // Also of a fork that is gone: its readers may ask for the first time then.
    const parents = hasOnLoan ? new Set([...forks.parents(), ...generations.parents()]) : [];
    return { ok: true, borrowed, parents: [...parents] };
  },

  async put(reach, request) {
    return told(reach.ledger, await put(reach, request));
  },

  async commit(reach, request) {
    const { ledger } = reach;
    const answer = await write(reach, {
      isWaiting: waits(ledger, request.openCommit),
      work: (tx, moment) => commitChanges(tx, ledger, { request, moment }),
      changes: "paths",
    });
    return told(ledger, answer);
  },

  async setTags(reach, request) {
    const { ledger } = reach;
    const answer = await write(reach, {
      isWaiting: waits(ledger, request.openCommit),
      work: (tx, moment) => setTags(tx, ledger, { request, moment }),
      changes: "paths",
    });
    return told(ledger, answer);
  },
};
