import type { BranchContext } from "../context.ts";
import type * as Contract from "../contract.ts";
import { UPLOAD_LEASE_MS } from "../contract.ts";
import { protectionRefusal } from "../lifecycle/settings.ts";
import { tidySoon } from "../lifecycle/tidy.ts";
import { notOpen } from "../read/views.ts";
import type { UploadRow } from "./upload-store.ts";

type NoUpload = Contract.Refused<"no-such-upload">;

export interface UploadCallsOptions extends Pick<BranchContext, "ledger" | "now" | "wake"> {
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
    const { ledger, newId, wake } = this.#options;
    const { live } = ledger;
    const claimed = live !== null && ledger.claim.get() !== null;
    // A lease of a pipeline that is gone has no output branch to upload to.
    if (!live || (lease !== undefined && !claimed)) return { ok: false, reason: "no-such-branch" };
    if (openCommit !== undefined && !ledger.openCommits.findOpen(openCommit, live.gen)) {
      return notOpen(ledger, openCommit);
    }
    if (lease === undefined && claimed) return { ok: false, reason: "pipeline-output" };
    const { gen } = live;
    const now = this.#options.now();
    const id = newId(now);
    const opened = ledger.transaction((tx): { upload: string } | Contract.Protected | undefined => {
      // What a client brings for a commit that it may not make would be refused only when all of it is there.
      const refusal = lease === undefined ? protectionRefusal(tx, ledger, { gen, key }) : undefined;
      if (refusal) return refusal;
      const upload = ledger.uploads.open({ id, gen, lease: lease ?? null, now });
      return upload === undefined ? undefined : { upload };
    });
    if (opened === undefined) return { ok: false, reason: "lost-lease" };
    if ("reason" in opened) return opened;
    const { upload } = opened;
    if (lease === undefined) wake(now + UPLOAD_LEASE_MS);
    tidySoon(this.#options);
    return { ok: true, upload, uid: live.uid };
  }

  renew({ upload }: Contract.RequestOf<"renewUpload">): Contract.AnswerOf<"renewUpload"> {
    const { ledger, now } = this.#options;
    const { live } = ledger;
    const isOpen = live && ledger.uploads.renew(upload, { gen: live.gen, now: now() });
    return isOpen ? { ok: true, upload, uid: live.uid } : NO_UPLOAD;
  }

  abort({ upload }: { upload: string }): void {
    const { ledger, now } = this.#options;
    if (!ledger.exists) return;
    ledger.transaction(() => {
      ledger.uploads.close(upload);
      ledger.contents.removeReleased(now());
    });
    tidySoon(this.#options);
  }

  add({ upload, contents }: Contract.RequestOf<"addContents">): Contract.AnswerOf<"addContents"> {
    const { ledger, now } = this.#options;
    const answer = this.#withOpen(upload, (row): Contract.Done => {
      const lacking = contents.find((content) => ledger.contents.lacksKept(content, row.gen));
      if (lacking) throw new Error(`content ${lacking.digest}-${lacking.size} is to keep what is not there`);
      ledger.uploads.add(row, { contents, now: now() });
      return { ok: true };
    });
    tidySoon(this.#options);
    return answer;
  }

  reserve({ upload, contents }: Contract.RequestOf<"reserve">): Contract.AnswerOf<"reserve"> {
    const { ledger } = this.#options;
    return this.#withOpen(upload, (row) => ({ ok: true, missing: ledger.uploads.reserve(row, contents) }));
  }

  abortLeases({ leases }: Contract.RequestOf<"abortLeases">): void {
    const { ledger, newId, wake } = this.#options;
    const { live } = ledger;
    if (!live) return;
    const now = this.#options.now();
    const holding = ledger.transaction(() =>
      leases.filter((lease) => ledger.uploads.abortLease(lease, { id: newId(now), gen: live.gen, now })),
    );
    wake(holding.length > 0 ? now : now + UPLOAD_LEASE_MS);
  }

  bodies({ upload, contents }: Contract.RequestOf<"heldBodies">): Contract.AnswerOf<"heldBodies"> {
    const { ledger } = this.#options;
    return this.#withOpen(upload, (row) => ({ ok: true, bodies: ledger.uploads.bodies(row, contents) }));
  }

  /** Works on an upload of the live branch that is open, in a transaction, and renews it. */
  #withOpen<A>(upload: string, work: (row: UploadRow) => A): A | NoUpload {
    const { ledger, now } = this.#options;
    const { live } = ledger;
    if (!live) return NO_UPLOAD;
    return ledger.transaction(() => {
      const row = ledger.uploads.find(upload, live.gen);
      if (!row) return NO_UPLOAD;
      ledger.uploads.renew(upload, { gen: live.gen, now: now() });
      return work(row);
    });
  }
}

const NO_UPLOAD = { ok: false, reason: "no-such-upload" } as const;
