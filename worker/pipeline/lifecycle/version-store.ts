import type { BranchAddress } from "../../../protocol/names.ts";
import { type PipelineSpec, skipsBadDatums } from "../../../protocol/spec.ts";
import { Store } from "../../objects/store.ts";
import type { Definition, Submission } from "./definition.ts";

/** So many of the newest versions are kept, whatever jobs there are. */
const KEPT_VERSIONS = 1000;
/** Of those, as many as come to so many bytes of specifications and texts. */
const KEPT_VERSION_BYTES = 64 * 1024 * 1024;
/** The present version and the one before, which an update may still have to do with, are kept whatever their bytes. */
const ALWAYS_KEPT = 2;
/** Most versions, and most texts, that go with one update: a step is short, however much has come together. */
const REMOVED_AT_ONCE = 20;
/** What is read of versions in one slice: so many bytes of specifications, and so many rows. */
const SLICE_BYTES = 1_000_000;
const SLICE_ROWS = 100;

/** A version as it is stored, without its text. */
export interface StoredVersion {
  readonly revision: number;
  readonly createdAt: number;
  readonly key: string | null;
  readonly limited: boolean;
  readonly hasText: boolean;
  readonly salt: string;
  readonly spec: PipelineSpec;
  /** Of the specification, in UTF-8. */
  readonly bytes: number;
}

/** What is kept of the newest versions, if it is not what is kept else. */
interface KeptMost {
  readonly versions?: number;
  readonly bytes?: number;
}

interface StoredRow extends Omit<StoredVersion, "limited" | "hasText" | "spec"> {
  readonly limited: number;
  readonly hasText: number;
  readonly spec: string;
}

/**
 * Who submitted each version of the specification, the text that it was read from, and which versions are kept. The
 * specifications themselves are in `revisions` (lifecycle/pipeline-store.ts).
 */
export class VersionStore extends Store {
  note(version: number, { key, text }: Submission): void {
    this.sql.run`
      INSERT OR REPLACE INTO submissions (revision, key, text) VALUES (${version}, ${key}, ${text})`;
  }

  /** The text that a version was read from; null: none is kept. */
  text(version: number): string | null {
    const row = this.sql.first<{ text: string | null }>`
      SELECT text FROM submissions WHERE revision = ${version}`;
    return row?.text ?? null;
  }

  /** The newest version up to one, if any is kept. */
  upTo(version: number): StoredVersion | undefined {
    const row = this.sql.first<StoredRow>`
      SELECT r.revision, r.createdAt, s.key, r.limited, s.text IS NOT NULL AS hasText, r.salt, r.spec,
        octet_length(r.spec) AS bytes
      FROM revisions AS r LEFT JOIN submissions AS s ON s.revision = r.revision
      WHERE r.revision <= ${version} ORDER BY r.revision DESC LIMIT 1`;
    return (
      row && {
        ...row,
        limited: row.limited === 1,
        hasText: row.hasText === 1,
        spec: JSON.parse(row.spec),
      }
    );
  }

  /**
   * Versions that are older than those that are kept, and that no job was made for which is. A job shows its version, and
   * needs it for as long as it goes on.
   */
  tooOld(most: KeptMost = {}): number[] {
    return this.sql.all<{ revision: number }>`
      SELECT revision FROM revisions AS r
      WHERE revision < ${this.#oldestKept(most)}
        AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.revision = r.revision)
      ORDER BY revision LIMIT ${REMOVED_AT_ONCE}`.map(({ revision }) => revision);
  }

  /** Drops texts of versions that are kept for their jobs alone: the output branch may keep the commits of those for ever. */
  dropOldTexts(): void {
    this.sql.run`
      UPDATE submissions SET text = NULL WHERE revision IN (
        SELECT revision FROM submissions WHERE revision < ${this.#oldestKept({})} AND text IS NOT NULL
        ORDER BY revision LIMIT ${REMOVED_AT_ONCE})`;
  }

  /** The oldest of the newest versions, as many as are kept whatever jobs there are. */
  #oldestKept({ versions = KEPT_VERSIONS, bytes: most = KEPT_VERSION_BYTES }: KeptMost): number {
    // octet_length looks at how long a value is, and reads none of it.
    const newest = this.sql.all<{ revision: number; bytes: number }>`
      SELECT r.revision, octet_length(r.spec) + coalesce(octet_length(s.text), 0) AS bytes
      FROM revisions AS r LEFT JOIN submissions AS s ON s.revision = r.revision
      ORDER BY r.revision DESC LIMIT ${versions}`;
    let bytes = 0;
    const fit = newest.filter((row, index) => {
      bytes += row.bytes;
      return index < ALWAYS_KEPT || bytes <= most;
    });
    return fit.at(-1)?.revision ?? 0;
  }

  /** Forgets a version, but for the branches that it read. */
  remove(version: number): void {
    for (const { repo, branch } of this.#sourcesOf(version)) {
      this.sql.run`
        INSERT OR IGNORE INTO former_sources (repo, branch) VALUES (${repo}, ${branch})`;
    }
    this.sql.run`DELETE FROM revisions WHERE revision = ${version}`;
    this.sql.run`DELETE FROM submissions WHERE revision = ${version}`;
  }

  formerSources(): BranchAddress[] {
    return this.sql.all<BranchAddress>`SELECT repo, branch FROM former_sources`;
  }

  /** The branches that the next versions after one read, a slice of them, and the last that was looked at. */
  sourcesAfter(version: number): { sources: BranchAddress[]; last: number } | undefined {
    // octet_length looks at how long a value is, and reads none of it.
    const next = this.sql.all<{ revision: number; bytes: number }>`
      SELECT revision, octet_length(spec) AS bytes FROM revisions
      WHERE revision > ${version} ORDER BY revision LIMIT ${SLICE_ROWS}`;
    let bytes = 0;
    const slice = next.filter((row, index) => {
      bytes += row.bytes;
      return index === 0 || bytes <= SLICE_BYTES;
    });
    const last = slice.at(-1)?.revision;
    if (last === undefined) return undefined;
    return { sources: slice.flatMap(({ revision }) => this.#sourcesOf(revision)), last };
  }

  /** SQLite takes them out of the specification, which is not read as a whole for it. */
  #sourcesOf(version: number): BranchAddress[] {
    return this.sql.all<BranchAddress>`
      SELECT DISTINCT input.value ->> '$.repo.name' AS repo, input.value ->> '$.branch' AS branch
      FROM revisions, json_each(revisions.spec, '$.inputs') AS input WHERE revision = ${version}`;
  }
}

/** The pipeline's claim on its errors branch. */
interface ErrorsClaim {
  /** Null: the branch is about to be claimed. */
  readonly epoch: number | null;
  /** Whether the pipeline has the branch for good. Else it was claimed for a specification that is not accepted yet. */
  readonly settled: boolean;
}

/** Under which epoch a pipeline writes to its errors branch. A row of another uid is of an earlier pipeline of the name. */
export class ErrorsClaimStore extends Store {
  get(uid: string): ErrorsClaim | undefined {
    const row = this.sql.first<{ epoch: number | null; settled: number }>`
      SELECT epoch, settled FROM errors_claim WHERE uid = ${uid}`;
    return row && { epoch: row.epoch, settled: row.settled === 1 };
  }

  /** Written down before the branch is asked, so that a claim that comes to nothing is given back. */
  begin(uid: string): void {
    if (this.get(uid)) return;
    this.sql.run`INSERT OR REPLACE INTO errors_claim (one, uid, epoch, settled) VALUES (1, ${uid}, NULL, 0)`;
  }

  /** The branch has granted it. */
  take(uid: string, epoch: number): void {
    const settled = this.get(uid)?.settled ? 1 : 0;
    this.sql.run`
      INSERT OR REPLACE INTO errors_claim (one, uid, epoch, settled) VALUES (1, ${uid}, ${epoch}, ${settled})`;
  }

  /** The specification that wants the branch is the pipeline's. */
  settle(uid: string): void {
    this.sql.run`UPDATE errors_claim SET settled = 1 WHERE uid = ${uid}`;
  }

  remove(uid: string): void {
    this.sql.run`DELETE FROM errors_claim WHERE uid = ${uid}`;
  }
}

/** Whether the pipeline writes to its errors branch, or may. */
export function hasErrors(
  { errorsClaim }: { readonly errorsClaim: ErrorsClaimStore },
  { uid, spec }: Pick<Definition, "uid" | "spec">,
): boolean {
  return skipsBadDatums(spec) || errorsClaim.get(uid)?.settled === true;
}

/** The proposals of this pipeline that the catalogue may have (work/saga/propose.ts). Not of one life of a pipeline. */
export class ProposalStore extends Store {
  add(id: string): void {
    this.sql.run`INSERT INTO proposals (id) VALUES (${id}) ON CONFLICT DO NOTHING`;
  }

  all(): string[] {
    return this.sql.all<{ id: string }>`SELECT id FROM proposals ORDER BY id`.map(({ id }) => id);
  }

  remove(ids: readonly string[]): void {
    this.sql.run`DELETE FROM proposals WHERE id IN (SELECT value FROM json_each(${JSON.stringify(ids)}))`;
  }
}
