import type { ContentId } from "../../../protocol/content.ts";
import type { Content } from "../../blobs/content.ts";
import type { Tx } from "../../objects/transaction.ts";
import type { Moment } from "../context.ts";
import type { Refused } from "../contract/answers.ts";
import type { CommitRefused } from "../contract/files.ts";
import type { Completed, CompleteMultipart } from "../contract/multipart.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { writableBranch } from "../staging/admission.ts";
import { endAnnotation } from "../tree/annotation.ts";
import type { Multipart } from "../uploads/multipart-store.ts";
import { putContent } from "./commit.ts";

type Answer = Completed | CommitRefused | Refused<"part-changed">;
/** Makes the object of a multipart upload, once: a client that asks again gets the same answer. */
export function completeMultipart(
  tx: Tx,
  ledger: Ledger,
  { request, moment }: { request: CompleteMultipart; moment: Moment },
): Answer {
  const { upload, content } = request;
  const gen = ledger.generations.live()?.gen;
  if (gen === undefined) return { ok: false, reason: "no-such-branch" };
  const made = ledger.completions.find(upload, gen)?.completed;
  if (made) {
    if (!isSame(made, content)) return { ok: false, reason: "no-such-upload" };
    // Two that asked at once each wrote a list of the chunks: the caller, who hears that all is well, does not remove its own.
    ledger.contents.discard(ofParts(request), moment.now);
    return made;
  }
  const multipart = ledger.multiparts.find(upload, gen);
  return multipart
    ? completeOpen(tx, ledger, { request, multipart, moment })
    : { ok: false, reason: "no-such-upload" };
}

function completeOpen(
  tx: Tx,
  ledger: Ledger,
  { request, multipart, moment }: { request: CompleteMultipart; multipart: Multipart; moment: Moment },
): Answer {
  const writable = writableBranch(tx, ledger, { operations: 1, key: request.annotation?.key });
  if (!writable.ok) return writable;
  const { live } = writable;
  const { gen, uid } = live;
  const { openCommit: id } = multipart;
  const openCommit = id === null ? undefined : ledger.openCommits.findOpen(id, gen);
  if (id !== null && !openCommit) return { ok: false, reason: "no-such-open-commit" };
  const { upload, parts, condition } = request;
  const content = ofParts(request);
  if (!hasParts(tx, ledger, { upload, parts, content, gen })) return { ok: false, reason: "part-changed" };
  const { path, initiatedAt, checksum, attributes: said } = multipart;
  const attributes = { ...said, ...request.attributes };
  const annotation = endAnnotation(multipart.annotation, request.annotation);
  const put = {
    path,
    content,
    attributes,
    upload,
    ...(condition && { condition }),
    ...(annotation && { annotation }),
  };
  const answer = putContent(tx, ledger, { live, openCommit, put, moment });
  if (!answer.ok) return answer;
  const completed: Completed = {
    ok: true,
    path,
    digest: content.digest,
    size: content.size,
    commit: answer.commit,
    checksum: attributes.checksum ?? null,
  };
  ledger.completions.add(upload, {
    gen,
    status: { ok: true, path, uid, attributes: said, checksum, initiatedAt, progress: null, completed },
    now: moment.now,
  });
  return completed;
}

/**
 * The content, which is made of parts that own its blobs, whether the caller says so or not: if the branch has it already, what
 * is brought here is not there to be deleted.
 */
function ofParts({ content, parts }: Pick<CompleteMultipart, "content" | "parts">): Content {
  return { ...content, keeps: content.keeps ?? parts };
}

/** Whether the parts named are there, and in the life in which they were read if the content keeps them. */
function hasParts(
  _: Tx,
  { multiparts, contents }: Ledger,
  { upload, parts, content, gen }: Pick<CompleteMultipart, "upload" | "parts" | "content"> & { gen: number },
): boolean {
  return multiparts.parts.areThere(upload, parts) && !contents.lacksKept(content, gen);
}

function isSame(one: ContentId, other: ContentId): boolean {
  return one.digest === other.digest && one.size === other.size;
}
