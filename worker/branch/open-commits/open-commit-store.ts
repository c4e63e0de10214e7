import type { Annotation } from "../contract/answers.ts";
import type { CommitRefused } from "../contract/files.ts";
import type { ConditionsChanged } from "../contract/open-commits.ts";
import { BranchStore, standsFor } from "../store.ts";
import { annotationText, readAnnotation } from "../tree/annotation.ts";

/** How long a finished open commit is remembered for clients that ask again; milliseconds. */
const FINISHED_KEPT_MS = 24 * 60 * 60 * 1000;

/** The state of an open commit, by its number in its row. `ended`: nobody sees it any more. */
const STATES = ["open", "applying", "finished", "ended"] as const;
type OpenCommitState = (typeof STATES)[number];
const [OPEN, APPLYING, FINISHED, ENDED] = [0, 1, 2, 3];
/** States below this one: what is uploaded into it may still be of use. */
export const UNFINISHED_BELOW = FINISHED;

/**
 * An open commit: operations that many writes stage, one a path, and that become one commit when it is finished. They keep
 * their contents as files do. Its bucket `<session>.<branch>.<repo>` reads as HEAD with them laid over it. The output of a job
 * that is too large for one call is staged as one, too; it has an `origin` and no client sees it.
 */
export interface OpenCommit {
  readonly number: number;
  readonly id: string;
  readonly gen: number;
  readonly state: OpenCommitState;
  /** Milliseconds since 1970, each. */
  readonly openedAt: number;
  readonly writtenAt: number;
  readonly due: number | null;
  /** Paths that it has an operation for. */
  readonly operations: number;
  readonly origin: string | null;
  /** Set if it is finished and changed something. */
  readonly commit: string | null;
  readonly modifiedAt: number | null;
  /** What was said of its commit when it began. */
  readonly annotation: Annotation | undefined;
}

interface NewOpenCommit {
  readonly id: string;
  readonly gen: number;
  readonly now: number;
  /** Null: it does not end with time. */
  readonly ttlMs: number | null;
  /** HEAD, if that is to stay as long as this is open. */
  readonly base?: number;
  readonly origin: string | null;
  readonly annotation?: Annotation | undefined;
}

type StoredRow = Omit<OpenCommit, "state" | "annotation"> & {
  readonly state: number;
  readonly annotation: string | null;
};

const SELECT = `
  SELECT number, id, gen, state, openedAt, writtenAt, due, operations, origin,
    "commit", modifiedAt, annotation FROM open_commits`;
const BY_ID = `${SELECT} WHERE id = ? AND gen = ?`;
const BY_ORIGIN = `${SELECT} WHERE gen = ? AND origin = ?`;
const BY_NUMBER = `${SELECT} WHERE number = ?`;
const UNFINISHED = `${SELECT} INDEXED BY open_commits_by_gen
  WHERE gen = ? AND origin IS NULL AND state IN (${OPEN}, ${APPLYING}) AND number > ? ORDER BY number LIMIT ?`;
const EXPIRED = `${SELECT} INDEXED BY open_commits_by_due WHERE due IS NOT NULL AND due <= ? ORDER BY due LIMIT 1`;

/** The open commits of all generations. What they stage is for `StagedStore`. */
export class OpenCommitStore extends BranchStore {
  open({ id, gen, now, ttlMs, base, origin, annotation }: NewOpenCommit): void {
    const due = ttlMs === null ? null : now + ttlMs;
    this.sql.run`
      INSERT INTO open_commits (id, gen, state, openedAt, writtenAt, ttl, due, operations, origin, annotation, base)
      VALUES (${id}, ${gen}, ${OPEN}, ${now}, ${now}, ${ttlMs ?? 0}, ${due}, 0, ${origin}, ${annotationText(annotation)},
        ${base ?? null})`;
    if (due !== null) this.wake("housekeeping", due);
  }

  /** An open commit of this generation that has not ended. */
  find(id: string, gen: number): OpenCommit | undefined {
    const openCommit = this.#first(BY_ID, [id, gen]);
    return openCommit?.state === "ended" ? undefined : openCommit;
  }

  /** One of this generation that takes operations of clients. */
  findOpen(id: string, gen: number): OpenCommit | undefined {
    const found = this.find(id, gen);
    return found?.state === "open" && found.origin === null ? found : undefined;
  }

  /** Those of clients that are not finished, in the order in which they began, behind a number. */
  unfinished(gen: number, { after, limit }: { after: number; limit: number }): OpenCommit[] {
    return this.sql.query<StoredRow>(UNFINISHED, [gen, after, limit]).map(openCommitOf);
  }

  /** What is staged of a job's output. */
  byOrigin(gen: number, origin: string): OpenCommit | undefined {
    return this.#first(BY_ORIGIN, [gen, origin]);
  }

  /** One that must be there. */
  get(number: number): OpenCommit {
    const openCommit = this.#first(BY_NUMBER, [number]);
    if (!openCommit) throw new Error(`open commit ${number} is not there`);
    return openCommit;
  }

  /** Something was staged: the open commit stays open for another while. `added`: how many more paths it has. */
  written({ number }: OpenCommit, { added, now }: { added: number; now: number }): void {
    this.sql.run`
      UPDATE open_commits SET operations = operations + ${added}, writtenAt = ${now}, refusal = NULL,
        due = CASE WHEN due IS NULL THEN NULL ELSE ${now} + ttl END
      WHERE number = ${number}`;
  }

  /** It is being checked and applied: time does not end it any more. */
  startApplying({ number }: OpenCommit): void {
    this.sql.run`UPDATE open_commits SET state = ${APPLYING}, due = NULL WHERE number = ${number}`;
  }

  /** It can't be applied and is open as before. A job's output has no ttl: time does not end it. */
  reopen(
    number: number,
    { refusal, now }: { refusal: CommitRefused | ConditionsChanged; now: number },
  ): void {
    this.sql.run`
      UPDATE open_commits SET state = ${OPEN}, refusal = ${JSON.stringify(refusal)},
        due = CASE WHEN origin IS NULL THEN ${now} + ttl END
      WHERE number = ${number}`;
    this.wake("housekeeping");
  }

  /** Why it could not be applied, once. */
  takeRefusal({ number }: OpenCommit): CommitRefused | ConditionsChanged | undefined {
    const refusal = this.sql.first<{ refusal: string | null }>`
      SELECT refusal FROM open_commits WHERE number = ${number}`?.refusal;
    if (refusal === null || refusal === undefined) return undefined;
    this.sql.run`UPDATE open_commits SET refusal = NULL WHERE number = ${number}`;
    return JSON.parse(refusal);
  }

  /** It was made a commit, or nothing in it was a change. Nothing of it is staged any more. */
  finish(
    openCommit: OpenCommit,
    { commit, modifiedAt, now }: { commit: string | null; modifiedAt: number; now: number },
  ): void {
    const { number, origin } = openCommit;
    // A job's output is found by its commit.
    if (origin !== null) this.remove(number);
    else {
      this.#endUploads(openCommit, now);
      this.wake("housekeeping", now + FINISHED_KEPT_MS);
      this.sql.run`
        UPDATE open_commits SET state = ${FINISHED}, due = ${now + FINISHED_KEPT_MS}, "commit" = ${commit},
          modifiedAt = ${modifiedAt}
        WHERE number = ${number}`;
    }
  }

  /** What was said of a commit is to be nowhere: of the open commit that became it, if that is still remembered. Returns whether it was. */
  forgetAnnotation(gen: number, commit: string): boolean {
    return this.sql.run`
      UPDATE open_commits SET annotation = NULL
      WHERE number IN (
        SELECT number FROM open_commits INDEXED BY open_commits_by_gen
        WHERE gen = ${gen} AND "commit" = ${commit} AND annotation IS NOT NULL)`;
  }

  /** Nobody sees it any more; the alarm takes away what it staged. */
  end(openCommit: OpenCommit, now: number): void {
    this.#endUploads(openCommit, now);
    this.sql.run`
      UPDATE open_commits SET state = ${ENDED}, origin = NULL, due = ${now} WHERE number = ${openCommit.number}`;
    this.wake("housekeeping");
  }

  /**
   * Multipart uploads into it have nowhere to go. Nobody finds them any more (`MultipartStore`), and the alarm ends them. It
   * names the commit no more that it began with.
   */
  #endUploads({ id, gen }: OpenCommit, now: number): void {
    const leavesUploads = this.sql.run`
      UPDATE uploads SET due = ${now} WHERE isFresh = 0 AND id IN (
        SELECT upload FROM multiparts INDEXED BY multiparts_by_path WHERE gen = ${gen} AND openCommit = ${id})`;
    if (leavesUploads) this.wake("housekeeping");
    this.wake("history GC");
  }

  /** The generation is gone, and its open commits with it. */
  endGeneration(gen: number, now: number): void {
    this.sql.run`
      UPDATE open_commits INDEXED BY open_commits_by_gen SET state = ${ENDED}, origin = NULL, due = ${now}
      WHERE gen = ${gen}`;
    this.wake("housekeeping");
  }

  /** Ends what is staged of jobs' outputs, but for `except`: its rows are being written, so it goes on. */
  endOutputs({ gen, except, now }: { gen: number; except: number | undefined; now: number }): void {
    this.sql.run`
      UPDATE open_commits INDEXED BY open_commits_by_origin SET state = ${ENDED}, origin = NULL, due = ${now}
      WHERE gen = ${gen} AND origin IS NOT NULL AND number IS NOT ${except ?? null}`;
    this.wake("housekeeping");
  }

  remove(number: number): void {
    this.sql.run`DELETE FROM open_commits WHERE number = ${number}`;
  }

  /** One whose time is over. */
  expired(now: number): OpenCommit | undefined {
    return this.#first(EXPIRED, [now]);
  }

  /** When the next one's time is over; undefined if no time ends any of them. */
  nextDue(): number | undefined {
    return this.sql.first<{ due: number }>`
      SELECT due FROM open_commits INDEXED BY open_commits_by_due WHERE due >= 0 ORDER BY due LIMIT 1`?.due;
  }

  #first(text: string, values: readonly (string | number)[]): OpenCommit | undefined {
    const [row] = this.sql.query<StoredRow>(text, values);
    return row && openCommitOf(row);
  }
}

function openCommitOf(row: StoredRow): OpenCommit {
  return { ...row, state: standsFor(STATES, row.state, "ended"), annotation: readAnnotation(row.annotation) };
}
