import { isValid } from "ulid";
import type { BranchContext } from "../context.ts";
import type * as Contract from "../contract.ts";
import { notOpen } from "../read/views.ts";
import { protectionRefusal } from "../settings/settings.ts";
import type { UploadRow } from "./upload-store.ts";

type NoUpload = Contract.Refused<"no-such-upload">;

/** Contents that nobody has named yet take room, too. */
const FULL = { ok: false, reason: "branch-full" } as const;

export interface UploadCallsOptions extends Pick<BranchContext, "ledger" | "now" | "turn"> {
  /** A new upload's id. */
  readonly newId: (now: number) => string;
}

/** The calls of BranchApi about uploads. */
export class UploadCalls {
  readonly #options: UploadCallsOptions;

  constructor(options: UploadCallsOptions) {
    this.#options = options;
  }

  open({ lease, openCommit, key }: Contract.RequestOf<"openUpload">): Contract.AnswerOf<"openUpload"> {
    const { ledger, newId } = this.#options;
    const { live } = ledger;
    const claim = live && ledger.claim.get();
    const claimed = claim !== null;
    // A lease of a pipeline that is gone has no output branch to upload to.
    if (!live || (lease !== undefined && !claimed)) return { ok: false, reason: "no-such-branch" };
    if (openCommit !== undefined && !ledger.openCommits.findOpen(openCommit, live.gen)) {
      return notOpen(ledger, openCommit);
    }
    if (lease === undefined && claimed) return { ok: false, reason: "pipeline-output" };
    // Nobody would ever end its upload: the pipeline knows of leases of its own only.
    if (lease !== undefined && claim && isOlder(lease, claim.uid)) return { ok: false, reason: "lost-lease" };
    const { gen } = live;
    const now = this.#options.now();
    const id = newId(now);
    const opened = ledger.transaction(
      (tx): { upload: string } | Contract.Protected | typeof FULL | undefined => {
        // What a client brings for a commit that it may not make would be refused only when all of it is there.
        const refusal = lease === undefined ? protectionRefusal(tx, ledger, { gen, key }) : undefined;
        if (refusal) return refusal;
        if (lease === undefined && ledger.isFull(1)) return FULL;
        const upload = ledger.uploads.open({ id, gen, lease: lease ?? null, now });
        return upload === undefined ? undefined : { upload };
      },
    );
    if (opened === undefined) return { ok: false, reason: "lost-lease" };
    if ("reason" in opened) return opened;
    const { upload } = opened;
    return { ok: true, upload, uid: live.uid };
  }

  renew({ upload }: Contract.RequestOf<"renewUpload">): Contract.AnswerOf<"renewUpload"> {
    const { ledger, now } = this.#options;
    const at = this.#generation();
    const isOpen = at && ledger.uploads.renew(upload, { gen: at.gen, now: now() });
    return isOpen ? { ok: true, upload, uid: at.uid } : NO_UPLOAD;
  }

  abort({ upload, leaves }: Contract.RequestOf<"abortUpload">): void {
    const { ledger } = this.#options;
    if (!ledger.exists) return;
    const now = this.#options.now();
    ledger.transaction(() => {
      ledger.uploads.close(upload, now, { leaves });
      ledger.contents.removeReleased(now);
    });
  }

  async trim({ uploads }: Contract.RequestOf<"trimUploads">): Promise<void> {
    const { ledger, now, turn } = this.#options;
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
  }

  letGo({ contents }: Contract.RequestOf<"letGo">): void {
    const { ledger, now } = this.#options;
    const { live } = ledger;
    if (!live) return;
    ledger.transaction(() => {
      for (const { upload, ...content } of contents) {
        const row = ledger.uploads.find(upload, live.gen);
        if (row) ledger.uploads.letGo(row, content);
      }
      ledger.contents.removeReleased(now());
    });
  }

  add({ upload, contents }: Contract.RequestOf<"addContents">): Contract.AnswerOf<"addContents"> {
    const { ledger, now } = this.#options;
    return this.#withOpen(upload, (row): Contract.Done | typeof FULL => {
      // A job is told when it commits: what it has computed is not to be computed again.
      if (row.lease === null && ledger.isFull(contents.length)) return FULL;
      const lacking = contents.find((content) => ledger.contents.lacksKept(content, row.gen));
      if (lacking) throw new Error(`content ${lacking.digest}-${lacking.size} is to keep what is not there`);
      ledger.uploads.add(row, { contents, now: now() });
      return { ok: true };
    });
  }

  reserve({ upload, contents }: Contract.RequestOf<"reserve">): Contract.AnswerOf<"reserve"> {
    const { ledger } = this.#options;
    return this.#withOpen(upload, (row) => ({ ok: true, missing: ledger.uploads.reserve(row, contents) }));
  }

  abortLeases({ leases }: Contract.RequestOf<"abortLeases">): void {
    const { ledger, newId } = this.#options;
    const { live } = ledger;
    if (!live) return;
    const now = this.#options.now();
    ledger.transaction(() => {
      for (const lease of leases) ledger.uploads.abortLease(lease, { id: newId(now), gen: live.gen, now });
    });
  }

  bodies({ upload, contents }: Contract.RequestOf<"heldBodies">): Contract.AnswerOf<"heldBodies"> {
    const { ledger } = this.#options;
    return this.#withOpen(upload, (row) => ({ ok: true, bodies: ledger.uploads.bodies(row, contents) }));
  }

  /** The generation that contents are brought to: the live one, or else one that comes out of an archive. */
  #generation(): { readonly gen: number; readonly uid: string } | undefined {
    const { ledger } = this.#options;
    return ledger.live ?? (ledger.exists ? ledger.imports.coming() : undefined);
  }

  /** Works on an upload that is open, in a transaction, and renews it. */
  #withOpen<A>(upload: string, work: (row: UploadRow) => A): A | NoUpload {
    const { ledger, now } = this.#options;
    const at = this.#generation();
    if (!at) return NO_UPLOAD;
    return ledger.transaction(() => {
      const row = ledger.uploads.find(upload, at.gen);
      if (!row) return NO_UPLOAD;
      ledger.uploads.renew(upload, { gen: at.gen, now: now() });
      return work(row);
    });
  }
}

/** Of a lease, or of what several share that were reported together (worker/api/runner/outcomes.ts): the lease's ULID. */
const LEASE = /^(?:shared\.)?([0-9A-HJKMNP-TV-Z]{26})(?:\.|$)/;

/**
 * Whether a lease is of an earlier pipeline than the one that holds the branch. A pipeline makes its leases later than
 * itself, and itself later than the one before of its name.
 */
function isOlder(lease: string, pipeline: string): boolean {
  const [, id] = LEASE.exec(lease) ?? [];
  return id !== undefined && isValid(pipeline) && id < pipeline;
}

const NO_UPLOAD = { ok: false, reason: "no-such-upload" } as const;
