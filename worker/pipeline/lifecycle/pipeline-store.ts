import type { CommitPosition } from "../../branch/contract/pipelines.ts";
import type { Sql, SqlValue } from "../../objects/sql.ts";
import { Store } from "../../objects/store.ts";
import { type Definition, define, type Revision, type Submission } from "./definition.ts";
import type { VersionStore } from "./version-store.ts";

/** `purging`: gone for everybody else, while its rows are still being removed. */
export type StoredState =
  | "creating"
  | "active"
  | "stopping"
  | "stopped"
  | "starting"
  | "updating"
  | "deleting"
  | "purging"
  | "deleted";

export interface PipelineRow {
  readonly state: StoredState;
  readonly version: number;
  /** The version that the catalogue has. */
  readonly catalogueVersion: number;
  readonly revision: number;
  readonly epoch: number | null;
  readonly keepOutput: number;
  /** 1: an input may have news that were not read. */
  readonly pullDue: number;
  /** Datums that are alive. */
  readonly alive: number;
  /** The last job whose output commit is recorded. */
  readonly committed: number;
  /** The last job that began to take over what those before it left undone. */
  readonly turn: number;
  /** Whether the present inputs have had their first job. */
  readonly hadFirstJob: number;
  /** 1: the next start makes a job that reads the inputs whole, as they moved or a job was left undone meanwhile. */
  readonly wholeJobDue: number;
  /** Until this job is committed, the results of other salts than the present one are kept; null: there are none. */
  readonly staleUntil: number | null;
  /** 1: what is known of the inputs is no good, so the next job reads them whole. */
  readonly nextReadsWhole: number;
  /** The catalogue has no job before this one. */
  readonly unlisted: number;
  /** How often the output branch has said that it keeps less, since we last asked what; 0: we know. */
  readonly outputDue: number;
  /** The last job whose output commit is known to be kept no more. */
  readonly releasedTo: number;
  /** What nobody needs any more is gone that ended with this job or before (work/trim/trim.ts). */
  readonly freedTo: number;
  /** The newest code when those were last looked for that nothing names. */
  readonly codesSwept: number;
}

/** What is written down as it is. */
type PlainFields = Pick<
  PipelineRow,
  "keepOutput" | "epoch" | "hadFirstJob" | "wholeJobDue" | "nextReadsWhole"
> &
  Pick<PipelineRow, "staleUntil" | "unlisted" | "codesSwept" | "freedTo" | "turn">;

/** A commit of one input that can't have its turn before the clock of another one has passed its time. */
export interface Behind {
  /** The buckets. */
  readonly ahead: string;
  readonly behind: string;
  /** The commit's time; milliseconds since 1970. */
  readonly until: number;
}

/** So many earlier versions are held in memory, where each may take several megabytes. */
const EARLIER_HELD = 8;

/** All of the row. */
interface StoredPipeline extends PipelineRow {
  readonly name: string;
  readonly uid: string;
  /** The version that waits to become the present one. */
  readonly nextRevision: number | null;
  /** A `Behind`. */
  readonly behind: string | null;
}

/** The one row about the pipeline itself, and the versions of its specification. Kept in memory: each step asks many times. */
export class PipelineStore extends Store {
  /** Null: there is none; undefined: not loaded, or written since. */
  #stored: StoredPipeline | null | undefined;
  #definition: Definition | undefined;
  /** Earlier versions, read for jobs that were made for them: those that were asked for last, in that order. */
  readonly #earlier = new Map<number, Definition>();
  readonly #versions: VersionStore;

  constructor(sql: Sql, versions: VersionStore) {
    super(sql);
    this.#versions = versions;
  }

  row(): PipelineRow | undefined {
    return this.#row();
  }

  /** The row, for who knows that there is one. */
  get existing(): PipelineRow {
    const row = this.#row();
    if (!row) throw new Error("there is no pipeline");
    return row;
  }

  /** Undefined: there never was one. */
  name(): string | undefined {
    return this.#row()?.name;
  }

  /** Of the pipeline, or of the last one of the name. Undefined: there never was one. */
  uid(): string | undefined {
    return this.#row()?.uid;
  }

  /** What the pipeline is, in whatever state. */
  definition(): Definition | undefined {
    const row = this.#row();
    if (!row) return undefined;
    const { uid, revision } = row;
    if (this.#definition?.uid !== uid || this.#definition.revision !== revision) {
      this.#definition = this.#read(revision);
      this.#earlier.clear();
    }
    return this.#definition;
  }

  /** Results of another one do not count. */
  salt(): string {
    return this.definition()?.salt ?? "";
  }

  active(): Definition | undefined {
    return this.row()?.state === "active" ? this.definition() : undefined;
  }

  /** The pipeline as it was in an earlier version. */
  definitionAt(revision: number): Definition | undefined {
    const present = this.definition();
    if (!present || present.revision === revision) return present;
    const found = this.#earlier.get(revision) ?? this.#read(revision);
    if (!found) return undefined;
    this.#earlier.delete(revision);
    this.#earlier.set(revision, found);
    const [longestAgo] = this.#earlier.keys();
    if (longestAgo !== undefined && this.#earlier.size > EARLIER_HELD) this.#earlier.delete(longestAgo);
    return found;
  }

  /** The version that a job was made for, which stays as long as the job. */
  versionOf({ id, revision }: { readonly id: string; readonly revision: number }): Definition {
    const found = this.definitionAt(revision);
    if (!found) throw new Error(`job ${id} is of version ${revision}, which is not there`);
    return found;
  }

  /** A new pipeline, on top of the tombstone of an earlier one. */
  begin(
    submitted: Omit<Revision, "revision" | "salt">,
    { uid, by, now }: { uid: string; by: Submission; now: number },
  ): void {
    this.#write`
      INSERT INTO pipeline (one, name, uid, state, createdAt, version, epoch, keepOutput, pullDue, alive, committed)
      VALUES (1, ${submitted.spec.pipeline.name}, ${uid}, 'creating', ${now}, 1, NULL, 0, 0, 0, 0)
      ON CONFLICT (one) DO UPDATE SET
        uid = excluded.uid, state = excluded.state, createdAt = excluded.createdAt, version = version + 1,
        epoch = NULL, keepOutput = 0, pullDue = 0, alive = 0, committed = 0, revision = 1, hadFirstJob = 0,
        wholeJobDue = 0, nextRevision = NULL, staleUntil = NULL, nextReadsWhole = 0, behind = NULL, unlisted = 0, outputDue = 0, releasedTo = 0,
        freedTo = 0, codesSwept = 0, turn = 0`;
    this.#insertRevision({ revision: 1, salt: "1", ...submitted }, { by, now });
  }

  /** Whether a version waits to become the present one. */
  hasNextRevision(): boolean {
    return this.#row()?.nextRevision != null;
  }

  /** Writes down the version that is to follow the present one. Versions that are kept no more for it go. */
  setNextRevision(next: Revision, { by, now }: { by: Submission; now: number }): void {
    this.#insertRevision(next, { by, now });
    this.#write`UPDATE pipeline SET nextRevision = ${next.revision}`;
    for (const revision of this.#versions.tooOld()) {
      this.#versions.remove(revision);
      this.#earlier.delete(revision);
    }
    this.#versions.dropOldTexts();
  }

  /** Makes the version that waits the present one. */
  revise(): void {
    this.#write`
      UPDATE pipeline SET revision = nextRevision, version = version + 1, nextRevision = NULL WHERE nextRevision IS NOT NULL`;
  }

  /**
   * The present version was submitted again as it is: it is now that of this key, which is limited or is not. It has the
   * text that came with it; if none came, it keeps its own, which says the same.
   */
  resubmit({ limited, by }: { limited: boolean; by: Submission }): void {
    this.sql.run`
      UPDATE revisions SET limited = ${Number(limited)} WHERE revision = (SELECT revision FROM pipeline)`;
    const { revision } = this.existing;
    this.#versions.note(revision, { ...by, text: by.text ?? this.#versions.text(revision) });
    // It is known by its number, which stays.
    this.#definition = undefined;
  }

  /** Every change of state is a new version for the catalogue. */
  setState(state: StoredState): void {
    this.#write`UPDATE pipeline SET state = ${state}, version = version + 1`;
  }

  /** Nothing has changed but the version, which makes a job unique that no commit made. */
  setNewVersion(): void {
    this.#write`UPDATE pipeline SET version = version + 1`;
    this.wake("state");
  }

  setCatalogueVersion(version: number): void {
    this.#write`UPDATE pipeline SET catalogueVersion = max(catalogueVersion, ${version})`;
  }

  /** The catalogue may know nothing of the pipeline any more. */
  forgetCatalogueVersion(): void {
    this.#write`UPDATE pipeline SET catalogueVersion = 0`;
  }

  set(fields: Partial<PlainFields>): void {
    this.#stored = undefined;
    const names = Object.keys(fields).map((name) => `${name} = ?`);
    this.sql.execute(`UPDATE pipeline SET ${names.join(", ")}`, Object.values(fields));
  }

  setPullDue(due: 0 | 1): void {
    this.#write`UPDATE pipeline SET pullDue = ${due}`;
  }

  /** Returns how many datums are alive after the change. */
  addAlive(change: number): number {
    this.#stored = undefined;
    return this.sql.number`
      UPDATE pipeline SET alive = alive + ${change} RETURNING alive`;
  }

  /** Which input keeps the events of the others waiting; null: none does. */
  behind(): Behind | null {
    const text = this.#row()?.behind;
    return text ? JSON.parse(text) : null;
  }

  setBehind(behind: Behind | null): void {
    const text = behind && JSON.stringify(behind);
    this.#write`UPDATE pipeline SET behind = ${text} WHERE behind IS NOT ${text}`;
  }

  setCommitted(job: number): void {
    this.#write`UPDATE pipeline SET committed = ${job}`;
  }

  /** The output branch keeps less than before. */
  addOutputNews(): void {
    this.#write`UPDATE pipeline SET outputDue = outputDue + 1`;
    this.wake("trim");
  }

  /** It is known what the output branch keeps, unless it has called since. */
  settleOutputNews(count: number): void {
    this.#write`UPDATE pipeline SET outputDue = 0 WHERE outputDue = ${count}`;
  }

  /** The output commits of these jobs are kept no more: what ended after the first of them is to be looked at again. */
  setReleased({ first, last }: { first: number; last: number }): void {
    this.#write`
      UPDATE pipeline SET releasedTo = max(releasedTo, ${last}), freedTo = min(freedTo, ${first})`;
  }

  /** What is in memory may not be what is written. */
  forget(): void {
    this.#stored = undefined;
    this.#definition = undefined;
    this.#earlier.clear();
  }

  #row(): StoredPipeline | undefined {
    if (this.#stored === undefined) {
      const row = this.sql.first<StoredPipeline>`
        SELECT name, uid, state, version, catalogueVersion, revision, nextRevision, epoch, keepOutput, pullDue, alive,
          committed, hadFirstJob, wholeJobDue, staleUntil, nextReadsWhole, behind, unlisted, outputDue, releasedTo,
          freedTo, codesSwept, turn
        FROM pipeline WHERE one = 1`;
      this.#stored = row ?? null;
    }
    return this.#stored ?? undefined;
  }

  /** A statement that writes the row. */
  #write(strings: TemplateStringsArray, ...values: SqlValue[]): void {
    this.#stored = undefined;
    this.sql.run(strings, ...values);
  }

  #insertRevision(
    { revision, spec, salt, starts, limited }: Revision,
    { by, now }: { by: Submission; now: number },
  ): void {
    this.sql.run`
      INSERT OR REPLACE INTO revisions (revision, spec, salt, starts, limited, createdAt)
      VALUES (${revision}, ${JSON.stringify(spec)}, ${salt}, ${JSON.stringify(starts)}, ${Number(limited)}, ${now})`;
    this.#versions.note(revision, by);
  }

  #read(revision: number): Definition | undefined {
    const row = this.sql.first<StoredRevision>`
      SELECT p.uid, p.createdAt, r.spec, r.salt, r.starts, r.limited
      FROM pipeline AS p, revisions AS r WHERE p.one = 1 AND r.revision = ${revision}`;
    if (!row) return undefined;
    const { uid, createdAt, salt } = row;
    const starts: (CommitPosition | null)[] = JSON.parse(row.starts);
    const spec = JSON.parse(row.spec);
    return define({ revision, spec, salt, starts, limited: row.limited === 1 }, { uid, createdAt });
  }
}

interface StoredRevision {
  readonly uid: string;
  readonly createdAt: number;
  readonly spec: string;
  readonly salt: string;
  readonly starts: string;
  readonly limited: number;
}
