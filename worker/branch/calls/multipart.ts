import { pathFault } from "../../../protocol/paths.ts";
import { type Done, type Refused, refused } from "../contract/answers.ts";
import type { MultipartCalls } from "../contract/multipart.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { notOpen } from "../read/views.ts";
import { expectScans } from "../settings/lifecycle-scans.ts";
import { protectionRefusal } from "../settings/settings.ts";
import { kindOf } from "../tree/file-store.ts";
import type { Multipart } from "../uploads/multipart-store.ts";
import { completeMultipart } from "../write/complete-multipart.ts";
import { absent, type BranchFacet, bounded, told, uploadId } from "./facet.ts";
import { waits, write } from "./write.ts";

const DONE = { ok: true } as const;

/** Uploads of one object in parts. */
export const multipart: BranchFacet<MultipartCalls> = {
  async create(reach, request) {
    const { path, attributes, checksum = null, ttlMs, openCommit = null, annotation } = request;
    const { ledger } = reach;
    const fault = pathFault(path) ?? (kindOf(path) === "dir" ? "directory-with-bytes" : undefined);
    if (fault) return { ok: false, reason: "bad-path", path, fault };
    const { live } = ledger;
    if (!live) return told(ledger, refused(openCommit === null ? "no-such-branch" : "no-such-open-commit"));
    if (openCommit !== null && !ledger.openCommits.findOpen(openCommit, live.gen)) {
      return notOpen(ledger, openCommit);
    }
    if (ledger.claim.get()) return refused("pipeline-output");
    const { gen, uid } = live;
    const now = reach.now();
    const upload = uploadId(reach, now);
    const refusal = ledger.transaction((tx) => {
      const refusal = protectionRefusal(tx, ledger, { gen, key: annotation?.key });
      if (refusal) return refusal;
      if (openCommit === null) expectScans(tx, ledger, { action: "abort", writtenAt: now });
      ledger.uploads.openFor("multipart", { id: upload, gen, now, ttlMs });
      ledger.multiparts.add({
        upload,
        gen,
        path,
        initiatedAt: now,
        checksum,
        attributes,
        openCommit,
        annotation,
      });
      return undefined;
    });
    return refusal ?? { ok: true, upload, uid };
  },

  async status({ ledger: { live, multiparts, completions } }, { upload }) {
    const open = live && multiparts.find(upload, live.gen);
    if (!live || !open) return (live && completions.find(upload, live.gen)) ?? refused("no-such-upload");
    const { path, attributes, checksum, initiatedAt, openCommit } = open;
    return {
      ok: true,
      ...(openCommit !== null && { openCommit }),
      path,
      uid: live.uid,
      attributes,
      checksum,
      initiatedAt,
      progress: multiparts.progress(upload),
      completed: null,
    };
  },

  async addPart({ ledger, now: clock }, { upload, number, content, checksum = null }) {
    const { uploads, contents, multiparts } = ledger;
    const now = clock();
    return withOpen(ledger, upload, ({ gen }): Done | Refused<"no-such-content"> => {
      if (contents.lacksKept(content, gen)) return refused("no-such-content");
      const { parts } = multiparts;
      const { digest, size } = content;
      const before = parts.content(upload, number);
      uploads.renew(upload, { gen, now });
      uploads.hold({ id: upload, gen }, { content, now });
      parts.put(upload, { number, digest, size, checksum, modifiedAt: now });
      if (before && !parts.anyHas(upload, before)) {
        uploads.letGo({ id: upload, gen }, before);
        contents.removeReleased(now);
      }
      return DONE;
    });
  },

  async parts({ ledger }, request) {
    const { upload, after, limit } = bounded(request);
    return withOpen(ledger, upload, ({ path, initiatedAt, checksum }) => {
      const found = ledger.multiparts.parts.list(upload, { after, limit: limit + 1 });
      const parts = found.slice(0, limit);
      return { ok: true, path, initiatedAt, checksum, parts, truncated: found.length > limit };
    });
  },

  async bodies({ ledger }, { upload, numbers }) {
    return withOpen(ledger, upload, ({ gen }) => ({
      ok: true,
      parts: ledger.multiparts.parts.bodies(upload, { gen, numbers }),
    }));
  },

  async list({ ledger }, request) {
    const { live, multiparts } = ledger;
    return live ? multiparts.list(live.gen, bounded(request)) : absent(ledger);
  },

  async saveProgress({ ledger, now }, { upload, progress }) {
    return withOpen(ledger, upload, ({ gen }) => {
      ledger.uploads.renew(upload, { gen, now: now() });
      ledger.multiparts.saveProgress(upload, progress);
      return DONE;
    });
  },

  async complete(reach, request) {
    const { ledger } = reach;
    const { live } = ledger;
    const openCommit = live ? ledger.multiparts.find(request.upload, live.gen)?.openCommit : undefined;
    return await write(reach, {
      isWaiting: waits(ledger, openCommit ?? undefined),
      work: (tx, moment) => completeMultipart(tx, ledger, { request, moment }),
    });
  },

  async abort({ ledger, now: clock }, { upload }) {
    return withOpen(ledger, upload, () => {
      const now = clock();
      ledger.uploads.close(upload, now);
      ledger.contents.removeReleased(now);
      return DONE;
    });
  },
};

/** Works on a multipart upload of the live branch that is in progress, in a transaction. */
function withOpen<A>(
  ledger: Ledger,
  upload: string,
  work: (multipart: Multipart) => A,
): A | Refused<"no-such-upload"> {
  const { live } = ledger;
  if (!live) return refused("no-such-upload");
  return ledger.transaction(() => {
    const multipart = ledger.multiparts.find(upload, live.gen);
    return multipart ? work(multipart) : refused("no-such-upload");
  });
}
