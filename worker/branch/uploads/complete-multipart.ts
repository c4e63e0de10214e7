import { type ContentId, contentName } from "../../../protocol/content.ts";
import type { CommitRefused, Completed, CompleteMultipart, Refused } from "../contract.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { findOpenCommit, stageContent } from "../open-commits/stage.ts";
import { putContent } from "../write/commit.ts";
import { type Stamps, writableBranch } from "../write/writable.ts";
import type { Multipart } from "./multipart-store.ts";

type Answer = Completed | CommitRefused | Refused<"part-changed">;

/** Makes the object of a multipart upload, once: whoever asks again is answered the same. To be called in a transaction. */
export function completeMultipart(
  ledger: Ledger,
  { request, stamps }: { request: CompleteMultipart; stamps: Stamps },
): Answer {
  const { upload, content } = request;
  const gen = ledger.generations.live()?.gen;
  if (gen === undefined) return { ok: false, reason: "no-such-branch" };
  const made = ledger.completions.find(upload, gen)?.completed;
  if (made) return isSame(made, content) ? made : { ok: false, reason: "no-such-upload" };
  const multipart = ledger.multiparts.find(upload, gen);
  return multipart
    ? completeOpen(ledger, { request, multipart, stamps })
    : { ok: false, reason: "no-such-upload" };
}

function completeOpen(
  ledger: Ledger,
  { request, multipart, stamps }: { request: CompleteMultipart; multipart: Multipart; stamps: Stamps },
): Answer {
  const writable = writableBranch(ledger, 1);
  if (!writable.ok) return writable;
  const { live } = writable;
  const openCommit = findOpenCommit(ledger, multipart.openCommit);
  if (openCommit === undefined) return { ok: false, reason: "no-such-open-commit" };
  const { upload, content, condition } = request;
  if (!hasParts(ledger, { request, gen: live.gen })) return { ok: false, reason: "part-changed" };
  const { path, initiatedAt, checksum } = multipart;
  const attributes = { ...multipart.attributes, ...request.attributes };
  const put = { path, content, attributes, upload, ...(condition && { condition }) };
  const answer = openCommit
    ? stageContent(ledger, { live, openCommit, put, stamps })
    : putContent(ledger, { live, put, stamps });
  if (!answer.ok) return answer;
  const completed: Completed = {
    ok: true,
    path,
    digest: content.digest,
    size: content.size,
    commit: answer.commit,
    checksum: attributes.checksum ?? null,
  };
  const { attributes: said } = multipart;
  const { uid } = live;
  const status = {
    ok: true,
    path,
    uid,
    attributes: said,
    checksum,
    initiatedAt,
    progress: null,
    completed,
  } as const;
  ledger.completions.add(upload, { gen: live.gen, status, now: stamps.now });
  return completed;
}

/** Whether the parts named, and what the content keeps beside them, are there. */
function hasParts(ledger: Ledger, { request, gen }: { request: CompleteMultipart; gen: number }): boolean {
  const { upload, parts, content } = request;
  if (!ledger.multiparts.parts.areThere(upload, parts)) return false;
  // The upload holds the contents of its parts.
  const held = new Set(parts.map(contentName));
  const others = (content.keeps ?? []).filter((kept) => !held.has(contentName(kept)));
  return !ledger.contents.lacksKept({ ...content, keeps: others }, gen);
}

function isSame(one: ContentId, other: ContentId): boolean {
  return one.digest === other.digest && one.size === other.size;
}
