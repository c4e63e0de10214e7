import { MAX_COMMIT_OPERATIONS } from "../../../protocol/files.ts";
import { pathFault } from "../../../protocol/paths.ts";
import type { Content } from "../../blobs/content.ts";
import type { Tx } from "../../objects/transaction.ts";
import type { Annotation } from "../contract/answers.ts";
import type { CommitRefused, Operation } from "../contract/files.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { OpenCommit } from "../open-commits/open-commit-store.ts";
import { notOpen } from "../read/views.ts";
import { protectionRefusal } from "../settings/settings.ts";
import { kindOf } from "../tree/file-store.ts";
import type { Live } from "../tree/generation-store.ts";

/** A write, as far as it can be refused before anybody looks at the tree. */
export interface Asked {
  readonly operations: readonly Operation[];
  /** The open commit that it goes into. */
  readonly openCommit?: string | undefined;
  readonly upload?: string | undefined;
  /** A content that comes along. */
  readonly content?: Content;
  /** Its key says who writes. */
  readonly annotation?: Annotation | undefined;
}

/** Where a write goes: the live branch, or one of its open commits. */
export interface Admitted {
  readonly live: Live;
  readonly openCommit: OpenCommit | undefined;
}

type Refusable<A> = ({ readonly ok: true } & A) | CommitRefused;

/** Lets a client's write in, or says why not. */
export function admit(
  tx: Tx,
  ledger: Ledger,
  { operations, openCommit: id, upload, content, annotation }: Asked,
): Refusable<Admitted> {
  const refusal = pathRefusal(operations);
  if (refusal) return refusal;
  const gen = ledger.generations.live()?.gen;
  const openCommit = id === undefined || gen === undefined ? undefined : ledger.openCommits.findOpen(id, gen);
  if (id !== undefined && !openCommit) return notOpen(ledger, id);
  const writable = writableBranch(tx, ledger, {
    operations: operations.length,
    of: kindOfAll(operations),
    key: annotation?.key,
  });
  if (!writable.ok) return writable;
  const { live } = writable;
  if (upload !== undefined && !ledger.uploads.find(upload, live.gen)) {
    return { ok: false, reason: "no-such-upload" };
  }
  if (content && ledger.contents.lacksKept(content, live.gen)) {
    const [operation] = operations;
    return { ok: false, reason: "no-such-content", path: operation ? pathOf(operation) : "" };
  }
  return { ok: true, live, openCommit };
}

/** Why no tree can hold what these operations put, or that there are too many of them; undefined if it can. */
export function pathRefusal(operations: readonly Operation[]): CommitRefused | undefined {
  if (operations.length > MAX_COMMIT_OPERATIONS) return { ok: false, reason: "too-many-operations" };
  for (const operation of operations) {
    const path = pathOf(operation);
    const fault = pathFault(path) ?? bytesFault(path, operation);
    if (fault) return { ok: false, reason: "bad-path", path, fault };
  }
  return undefined;
}

/** The live branch, if a client with this key may write so many operations to it. */
export function writableBranch(
  tx: Tx,
  ledger: Ledger,
  {
    operations,
    of = "writes",
    key,
  }: { operations: number; of?: "writes" | "deletions"; key: string | undefined },
): Refusable<{ live: Live }> {
  const live = ledger.generations.live();
  if (!live) return { ok: false, reason: "no-such-branch" };
  if (ledger.claim.get()) return { ok: false, reason: "pipeline-output" };
  const refusal = protectionRefusal(tx, ledger, { gen: live.gen, key });
  if (refusal) return refusal;
  if (ledger.isFull(operations, { of })) return { ok: false, reason: "branch-full" };
  return { ok: true, live };
}

/** The live branch, if this claim is the newest. The epoch is the fence: an earlier holder who comes late is refused. */
export function claimedBranch(
  _: Tx,
  { generations, claim }: Ledger,
  { uid, epoch }: { uid: string; epoch: number },
): Refusable<{ live: Live }> {
  const live = generations.live();
  if (!live) return { ok: false, reason: "no-such-branch" };
  const held = claim.get();
  const holds = held?.uid === uid && held.epoch === epoch;
  return holds ? { ok: true, live } : { ok: false, reason: "lost-claim" };
}

/** The path that an operation is about. */
export function pathOf(operation: Operation): string {
  return "put" in operation ? operation.put : operation.delete;
}

function kindOfAll(operations: readonly Operation[]): "writes" | "deletions" {
  return operations.every((operation) => "delete" in operation) ? "deletions" : "writes";
}

function bytesFault(path: string, operation: Operation): "directory-with-bytes" | undefined {
  const hasBytes = "put" in operation && operation.size > 0;
  return hasBytes && kindOf(path) === "dir" ? "directory-with-bytes" : undefined;
}
