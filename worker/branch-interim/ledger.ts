import { MAX_COMMIT_OPERATIONS } from "../../protocol/files.ts";
import { registerContent } from "./contents.ts";
import type { CommitRefused, Committed, Operation, PutFile } from "../branch/contract.ts";
import { type Generation, newestGeneration } from "./generations.ts";
import { post } from "./outbox.ts";
import { headCommit } from "./position.ts";
import { closeUpload, uploadGeneration } from "./uploads.ts";
import { applyOperations, checkPut, type Put, writePut } from "./write-files.ts";
import { writerOf } from "./writer.ts";

/** Bytes of the 10 GB that an object may hold at which it takes no more commits. */
const FULL_AT_BYTES = 9.5 * 1024 ** 3;

/** When something happens, and the id it gets if it becomes a commit. */
export interface Stamp {
  readonly now: number;
  readonly id: string;
}

/** The rules of writing, over rows alone: clock and ids are brought along. Every method is to be called in a transaction. */
export class Ledger {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** The generation that the branch is in; null where it does not exist now. */
  current(): Generation | null {
    const newest = newestGeneration(this.#sql);
    return newest?.deleted_at === null ? newest : null;
  }

  /** One file, one commit. Writes nothing where it refuses, so that others may share the transaction. */
  put(request: PutFile, stamp: Stamp): Committed | CommitRefused {
    const writable = this.#writable();
    if (!writable.ok) return writable;
    const { generation } = writable;
    const { path, content, attributes, upload } = request;
    if (upload !== undefined && uploadGeneration(this.#sql, upload) !== generation.gen) return { ok: false, reason: "no-such-upload" };
    const operation: Put = { put: path, digest: content.digest, size: content.size, attributes };
    const check = checkPut(this.#sql, generation.gen, operation);
    if (!check.ok) return check;
    registerContent(this.#sql, { gen: generation.gen, content, now: stamp.now });
    if (upload !== undefined) closeUpload(this.#sql, upload);
    if (check.same) return this.#unchanged(generation);
    const seq = this.#nextSeq(generation);
    return this.#record({ generation, seq, stamp, changes: writePut(this.#sql, { gen: generation.gen, seq }, operation) });
  }

  /** Many operations, one commit. Where it refuses, the caller rolls back. */
  commit(
    { operations, upload }: { operations: readonly Operation[]; upload?: string },
    stamp: Stamp,
  ): Committed | CommitRefused {
    const writable = this.#writable();
    if (!writable.ok) return writable;
    const { generation } = writable;
    if (upload !== undefined && uploadGeneration(this.#sql, upload) !== generation.gen) return { ok: false, reason: "no-such-upload" };
    const seq = this.#nextSeq(generation);
    const applied = this.#apply({ gen: generation.gen, seq }, operations);
    if (!applied.ok) return applied;
    if (upload !== undefined) closeUpload(this.#sql, upload);
    if (applied.changes === 0) return this.#unchanged(generation);
    return this.#record({ generation, seq, stamp, changes: applied.changes });
  }

  /** The commit of a job: made once per origin, also where it changes nothing. Where it refuses, the caller rolls back. */
  commitOutput(
    request: { uid: string; epoch: number; origin: string; operations: readonly Operation[] },
    stamp: Stamp,
  ): Committed | CommitRefused {
    const made = this.#byOrigin(request.origin);
    if (made) return made;
    const generation = this.current();
    if (!generation) return { ok: false, reason: "no-such-branch" };
    const writer = writerOf(this.#sql);
    if (writer?.uid !== request.uid || writer.epoch !== request.epoch) return { ok: false, reason: "lost-claim" };
    if (this.#full()) return { ok: false, reason: "branch-full" };
    const seq = this.#nextSeq(generation);
    const applied = this.#apply({ gen: generation.gen, seq }, request.operations);
    if (!applied.ok) return applied;
    return this.#record({ generation, seq, stamp, changes: applied.changes, origin: request.origin });
  }

  /** Leaves a doorbell for everyone who reads the branch. */
  ringAll(now: number): void {
    for (const { uid } of this.#sql.exec<{ uid: string }>("SELECT uid FROM subscribers").toArray())
      post(this.#sql, { kind: "bell", target: uid, now });
  }

  /** The generation that may be written to by clients, or why there is none. */
  #writable(): { ok: true; generation: Generation } | Exclude<CommitRefused, { path: string }> {
    const generation = this.current();
    if (!generation) return { ok: false, reason: "no-such-branch" };
    if (writerOf(this.#sql)) return { ok: false, reason: "pipeline-output" };
    return this.#full() ? { ok: false, reason: "branch-full" } : { ok: true, generation };
  }

  #full(): boolean {
    return this.#sql.databaseSize > FULL_AT_BYTES;
  }

  #apply(target: { gen: number; seq: number }, operations: readonly Operation[]): ReturnType<typeof applyOperations> {
    if (operations.length > MAX_COMMIT_OPERATIONS) return { ok: false, reason: "too-many-operations" };
    return applyOperations(this.#sql, target, operations);
  }

  #nextSeq({ gen }: Generation): number {
    return (headCommit(this.#sql, gen)?.seq ?? 0) + 1;
  }

  #unchanged({ gen, created_at }: Generation): Committed {
    return { ok: true, commit: null, modifiedAt: headCommit(this.#sql, gen)?.created_at ?? created_at };
  }

  #record({
    generation,
    seq,
    stamp,
    changes,
    origin = null,
  }: {
    generation: Generation;
    seq: number;
    stamp: Stamp;
    changes: number;
    origin?: string | null;
  }): Committed {
    const head = headCommit(this.#sql, generation.gen);
    this.#sql.exec(
      "INSERT INTO commits (gen, seq, id, parent, created_at, changes, origin) VALUES (?, ?, ?, ?, ?, ?, ?)",
      generation.gen,
      seq,
      stamp.id,
      head?.id ?? null,
      stamp.now,
      (head?.changes ?? 0) + changes,
      origin,
    );
    return { ok: true, commit: stamp.id, modifiedAt: stamp.now };
  }

  #byOrigin(origin: string): Committed | null {
    const query = "SELECT id, created_at FROM commits WHERE origin = ?";
    const row = this.#sql.exec<{ id: string; created_at: number }>(query, origin).toArray()[0];
    return row ? { ok: true, commit: row.id, modifiedAt: row.created_at } : null;
  }
}
