import { EMPTY_DIGEST } from "../../../protocol/content.ts";
import type { Tx } from "../../objects/transaction.ts";
import type { OwnedContent } from "../contents/content-store.ts";
import type { Moment } from "../context.ts";
import type { SetTags, TagsRefused, TagsSet } from "../contract/files.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { readFile } from "../read/file.ts";
import { isKept } from "../retention/kept.ts";
import { type Admitted, admit } from "../staging/admission.ts";
import { concludeStaging, stageBatch } from "../staging/stage.ts";
import { withTags } from "../tree/attributes.ts";
import type { HeadRow } from "../tree/file-store.ts";
import type { Live } from "../tree/generation-store.ts";
import { writeCommit } from "./commit.ts";

/*
 * Other tags for what is there. It is a write: it needs what a PUT needs, and makes a commit and a version. The new row has
 * the content of the old one, so that the ETag stays and a job finds every datum done. It also says when the bytes were
 * written, by which Last-Modified of objects and lifecycle rules go: as on S3, tags do not make an object younger.
 */

export function setTags(
  tx: Tx,
  ledger: Ledger,
  { request, moment }: { request: SetTags; moment: Moment },
): TagsSet | TagsRefused {
  const { path, openCommit, version, annotation } = request;
  const operations = [{ put: path, digest: EMPTY_DIGEST, size: 0 }];
  const admitted = admit(tx, ledger, { operations, openCommit, annotation });
  if (!admitted.ok) return admitted;
  const { live } = admitted;
  if (admitted.openCommit) {
    return stageTags(tx, ledger, { live, openCommit: admitted.openCommit, request, moment });
  }
  const head = ledger.files.head(live.gen, path);
  const refusal = version === undefined ? undefined : versionRefusal(ledger, { live, path, head, version });
  if (refusal) return refusal;
  if (!head) return { ok: false, reason: "no-such-file", path };
  const { id, writtenAt } = ledger.files.versionAt({ gen: live.gen, seq: head.born }, path);
  const attributes = withTags(head.attributes, request.tags);
  if (attributes === head.attributes) {
    return { ok: true, commit: null, modifiedAt: live.head.modifiedAt, version: id };
  }
  const now = { digest: head.digest, size: head.size, attributes, bytesAt: writtenAt };
  const keep = (content: OwnedContent) => ledger.contents.keep(content, 1);
  const done = writeCommit(tx, ledger, {
    live,
    changes: [{ path, before: head, now }],
    moment,
    annotation,
    keep,
  });
  return { ...done, version: done.commit };
}

/**
 * Stages them with the bytes that the open commit shows at the path. If those are HEAD's, they become a precondition, so
 * that bytes which somebody writes there meanwhile are not replaced by what was there when it was tagged. Set again,
 * they are those of what HEAD has by then.
 */
function stageTags(
  tx: Tx,
  ledger: Ledger,
  {
    live,
    openCommit,
    request: { path, tags },
    moment,
  }: Required<Pick<Admitted, "live">> & {
    readonly openCommit: NonNullable<Admitted["openCommit"]>;
    readonly request: SetTags;
    readonly moment: Moment;
  },
): TagsSet | TagsRefused {
  const staged = ledger.staged.find(openCommit.number, path);
  const isOfHead = !staged || (staged.state?.bytesAt ?? null) !== null;
  const head = isOfHead ? ledger.presentFile(live, path) : undefined;
  const there = head ?? staged?.state;
  if (!there) return { ok: false, reason: "no-such-file", path };
  const attributes = withTags(there.attributes, tags);
  const answer = { modifiedAt: live.head.modifiedAt, version: null };
  const shown = staged?.state ?? there;
  const precondition = head?.born ?? staged?.precondition ?? null;
  if (attributes === shown.attributes && precondition === (staged ? staged.precondition : precondition)) {
    return { ok: true, commit: null, ...answer };
  }
  const { digest, size } = there;
  const bytesAt = head
    ? ledger.files.versionAt({ gen: live.gen, seq: head.born }, path).writtenAt
    : (there.bytesAt ?? null);
  const done = stageBatch(tx, ledger, {
    openCommit,
    states: new Map([[path, { digest, size, attributes, bytesAt }]]),
    preconditions: new Map(precondition === null ? [] : [[path, precondition]]),
  });
  if (!done.ok) return done;
  const { added } = done;
  return {
    ...concludeStaging(tx, ledger, { live, openCommit, moment, added, upload: undefined }),
    version: null,
  };
}

/** Why a version is not what HEAD has; undefined if it is. */
function versionRefusal(
  ledger: Ledger,
  { live, path, head, version }: { live: Live; path: string; head: HeadRow | undefined; version: string },
): TagsRefused | undefined {
  const { gen } = live;
  if (head && ledger.files.versionAt({ gen, seq: head.born }, path).id === version) return undefined;
  const commit = ledger.commits.byId(version);
  const isThere = commit?.gen === gen && isKept(ledger, commit);
  if (head && isThere && ledger.files.at(commit, path)?.born === head.born) return undefined;
  const read = readFile(ledger, { path, commit: version });
  if (read.ok) return { ok: false, reason: "not-newest" };
  return read.reason === "is-deletion" ? read : { ok: false, reason: "no-such-version" };
}
