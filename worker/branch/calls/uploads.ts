import { isValid } from "ulid";
import { type Done, type Protected, type Refused, refused } from "../contract/answers.ts";
import type { UploadCalls } from "../contract/uploads.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { notOpen } from "../read/views.ts";
import { protectionRefusal } from "../settings/settings.ts";
import type { UploadRow } from "../uploads/upload-store.ts";
import { absent, type BranchFacet, type Reach, uploadId } from "./facet.ts";

/** Contents that nobody has named yet take room, too. */
const FULL = refused("branch-full");

/** How bytes come before something names them. */
export const uploads: BranchFacet<UploadCalls> = {
  async open(reach, { lease, openCommit, key }) {
    const { ledger } = reach;
    const { live } = ledger;
    const claim = live && ledger.claim.get();
    const claimed = claim !== null;
    // A lease of a pipeline that is gone has no output branch to upload to.
    if (!live || (lease !== undefined && !claimed)) return absent(ledger);
    if (openCommit !== undefined && !ledger.openCommits.findOpen(openCommit, live.gen)) {
      return notOpen(ledger, openCommit);
    }
    if (lease === undefined && claimed) return refused("pipeline-output");
    // Nobody would ever end its upload: the pipeline knows of leases of its own only.
    if (lease !== undefined && claim && isOlder(lease, claim.uid)) return refused("lost-lease");
    const { gen, uid } = live;
    const now = reach.now();
    const id = uploadId(reach, now);
    const opened = ledger.transaction((tx): { upload: string } | Protected | typeof FULL | undefined => {
      // What a client brings for a commit that it may not make would be refused only when all of it is there.
      const refusal = lease === undefined ? protectionRefusal(tx, ledger, { gen, key }) : undefined;
      if (refusal) return refusal;
      if (lease === undefined && ledger.isFull(1)) return FULL;
      const upload = ledger.uploads.open({ id, gen, lease: lease ?? null, now });
      return upload === undefined ? undefined : { upload };
    }, "paths");
    if (opened === undefined) return refused("lost-lease");
    if ("reason" in opened) return opened;
    return { ok: true, upload: opened.upload, uid };
  },

  async renew({ ledger, now }, { upload }) {
    const at = generationOf(ledger);
    const isOpen = at && ledger.uploads.renew(upload, { gen: at.gen, now: now() });
    return isOpen ? { ok: true, upload, uid: at.uid } : refused("no-such-upload");
  },

  async add(reach, { upload, contents }) {
    const { ledger, now } = reach;
    return withOpen(reach, upload, (row): Done | typeof FULL => {
      // A job is told when it commits: what it has computed is not to be computed again.
      if (row.lease === null && ledger.isFull(contents.length)) return FULL;
      const lacking = contents.find((content) => ledger.contents.lacksKept(content, row.gen));
      if (lacking) throw new Error(`content ${lacking.digest}-${lacking.size} is to keep what is not there`);
      ledger.uploads.add(row, { contents, now: now() });
      return { ok: true };
    });
  },

  async reserve(reach, { upload, contents }) {
    const { uploads } = reach.ledger;
    return withOpen(reach, upload, (row) => ({ ok: true, missing: uploads.reserve(row, contents) }));
  },

  async bodies(reach, { upload, contents }) {
    const { uploads } = reach.ledger;
    return withOpen(reach, upload, (row) => ({ ok: true, bodies: uploads.bodies(row, contents) }));
  },

  async letGo({ ledger, now }, { contents }) {
    const { live } = ledger;
    if (!live) return;
    ledger.transaction(() => {
      for (const { upload, ...content } of contents) {
        const row = ledger.uploads.find(upload, live.gen);
        if (row) ledger.uploads.letGo(row, content);
      }
      ledger.contents.removeReleased(now());
    });
  },

  async trim({ ledger, now, turn }, { uploads }) {
    for (const { upload, keep } of uploads) {
      if (!ledger.exists) return;
      ledger.transaction(() => {
        if (keep.length === 0) ledger.uploads.retire(upload, now());
        else {
          const gen = ledger.uploads.generationOf(upload);
          if (gen !== undefined) ledger.uploads.keepOnly(upload, { gen, names: keep });
        }
        ledger.contents.removeReleased(now());
      });
      await turn();
    }
  },

  async abort({ ledger, now: clock }, { upload, leaves }) {
    if (!ledger.exists) return;
    const now = clock();
    ledger.transaction(() => {
      ledger.uploads.close(upload, now, { leaves });
      ledger.contents.removeReleased(now);
    });
  },

  async abortLeases(reach, { leases }) {
    const { ledger } = reach;
    const { live } = ledger;
    if (!live) return;
    const { gen } = live;
    const now = reach.now();
    ledger.transaction(() => {
      for (const lease of leases) ledger.uploads.abortLease(lease, { id: uploadId(reach, now), gen, now });
    });
  },
};

/** The generation that contents are brought to: the live one, or else one that comes out of an archive. */
function generationOf(ledger: Ledger): { readonly gen: number; readonly uid: string } | undefined {
  return ledger.live ?? (ledger.exists ? ledger.imports.coming() : undefined);
}

/** Works on an upload that is open, in a transaction, and renews it. That of a lease does not run out, and costs no row. */
function withOpen<A>(
  { ledger, now }: Reach,
  upload: string,
  work: (row: UploadRow) => A,
): A | Refused<"no-such-upload"> {
  const at = generationOf(ledger);
  if (!at) return refused("no-such-upload");
  return ledger.transaction(() => {
    const row = ledger.uploads.find(upload, at.gen);
    if (!row) return refused("no-such-upload");
    if (row.lease === null) ledger.uploads.renew(upload, { gen: at.gen, now: now() });
    return work(row);
  });
}

/** Of a lease, or of what several share that were reported together (worker/api/runner.ts): the lease's ULID. */
const LEASE = /^(?:shared\.)?([0-9A-HJKMNP-TV-Z]{26})(?:\.|$)/;

/**
 * Whether a lease is of an earlier pipeline than the one that holds the branch. A pipeline makes its leases later than
 * itself, and itself later than the one before of its name.
 */
function isOlder(lease: string, pipeline: string): boolean {
  const [, id] = LEASE.exec(lease) ?? [];
  return id !== undefined && isValid(pipeline) && id < pipeline;
}
