import { MAX_LIST_ENTRIES } from "../../../protocol/files.ts";
import { pathFault } from "../../../protocol/paths.ts";
import type * as Contract from "../contract.ts";
import { notOpen } from "../read/views.ts";
import { expectRounds } from "../settings/rounds.ts";
import { protectionRefusal } from "../settings/settings.ts";
import { kindOf } from "../tree/file-store.ts";
import type { UploadCallsOptions } from "./calls.ts";
import type { Multipart } from "./multipart-store.ts";

type NoUpload = Contract.Refused<"no-such-upload">;

/** The calls of BranchApi about multipart uploads, but for their completion, which is a write. */
export class MultipartCalls {
  readonly #options: UploadCallsOptions;

  constructor(options: UploadCallsOptions) {
    this.#options = options;
  }

  create(request: Contract.CreateMultipart): Contract.AnswerOf<"createMultipart"> {
    const { path, attributes, checksum = null, ttlMs, openCommit = null, note } = request;
    const { ledger, newId } = this.#options;
    const fault = pathFault(path) ?? (kindOf(path) === "dir" ? "directory-with-bytes" : undefined);
    if (fault) return { ok: false, reason: "bad-path", path, fault };
    const { live } = ledger;
    if (!live) return { ok: false, reason: openCommit === null ? "no-such-branch" : "no-such-open-commit" };
    if (openCommit !== null && !ledger.openCommits.findOpen(openCommit, live.gen)) {
      return notOpen(ledger, openCommit);
    }
    if (ledger.claim.get()) return { ok: false, reason: "pipeline-output" };
    const { gen, uid } = live;
    const now = this.#options.now();
    const upload = newId(now);
    const refusal = ledger.transaction((tx) => {
      const refusal = protectionRefusal(tx, ledger, { gen, key: note?.key });
      if (refusal) return refusal;
      if (openCommit === null) expectRounds(tx, ledger, { action: "abort", writtenAt: now });
      ledger.uploads.openMultipart({ id: upload, gen, now, ttlMs });
      const multipart = { upload, gen, path, initiatedAt: now, checksum, attributes, openCommit, note };
      ledger.multiparts.add(multipart);
      return undefined;
    });
    if (refusal) return refusal;
    return { ok: true, upload, uid };
  }

  status({ upload }: Contract.RequestOf<"multipart">): Contract.AnswerOf<"multipart"> {
    const { live, multiparts, completions } = this.#options.ledger;
    const open = live && multiparts.find(upload, live.gen);
    if (!live || !open) return (live && completions.find(upload, live.gen)) ?? NO_UPLOAD;
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
  }

  addPart(request: Contract.AddPart): Contract.AnswerOf<"addPart"> {
    const { upload, number, content, checksum = null } = request;
    const { uploads, contents, multiparts } = this.#options.ledger;
    const now = this.#options.now();
    const answer = this.#withOpen(upload, ({ gen }): Contract.Done | Contract.Refused<"no-such-content"> => {
      if (contents.lacksKept(content, gen)) return { ok: false, reason: "no-such-content" };
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
    return answer;
  }

  listParts({ upload, after, limit }: Contract.RequestOf<"listParts">): Contract.AnswerOf<"listParts"> {
    return this.#withOpen(upload, ({ path, initiatedAt, checksum }) => {
      const most = Math.min(limit, MAX_LIST_ENTRIES);
      const found = this.#options.ledger.multiparts.parts.list(upload, { after, limit: most + 1 });
      const parts = found.slice(0, most);
      return { ok: true, path, initiatedAt, checksum, parts, truncated: found.length > most };
    });
  }

  bodies({ upload, numbers }: Contract.RequestOf<"partBodies">): Contract.AnswerOf<"partBodies"> {
    return this.#withOpen(upload, ({ gen }) => {
      const parts = this.#options.ledger.multiparts.parts.bodies(upload, { gen, numbers });
      return { ok: true, parts };
    });
  }

  list(request: Contract.ListMultiparts): Contract.AnswerOf<"listMultiparts"> {
    const { live, multiparts } = this.#options.ledger;
    if (!live) return { ok: false, reason: "no-such-branch" };
    const limit = Math.min(request.limit, MAX_LIST_ENTRIES);
    return multiparts.list(live.gen, { ...request, limit });
  }

  saveProgress({ upload, progress }: Contract.RequestOf<"saveProgress">): Contract.AnswerOf<"saveProgress"> {
    const { uploads, multiparts } = this.#options.ledger;
    return this.#withOpen(upload, ({ gen }) => {
      uploads.renew(upload, { gen, now: this.#options.now() });
      multiparts.saveProgress(upload, progress);
      return DONE;
    });
  }

  abort({ upload }: Contract.RequestOf<"abortMultipart">): Contract.AnswerOf<"abortMultipart"> {
    const { uploads, contents } = this.#options.ledger;
    const answer = this.#withOpen(upload, () => {
      const now = this.#options.now();
      uploads.close(upload, now);
      contents.removeReleased(now);
      return DONE;
    });
    return answer;
  }

  /** Works on a multipart upload of the live branch that is in progress, in a transaction. */
  #withOpen<A>(upload: string, work: (multipart: Multipart) => A): A | NoUpload {
    const { ledger } = this.#options;
    const { live } = ledger;
    if (!live) return NO_UPLOAD;
    return ledger.transaction(() => {
      const multipart = ledger.multiparts.find(upload, live.gen);
      return multipart ? work(multipart) : NO_UPLOAD;
    });
  }
}

const DONE = { ok: true } as const;
const NO_UPLOAD = { ok: false, reason: "no-such-upload" } as const;
