import type { ContentId } from "../../../protocol/content.ts";
import { Store } from "../../objects/store.ts";

/** A content that a result had, and the upload in the output branch that keeps it. */
export interface GivenUp extends ContentId {
  readonly upload: string;
}

/** A path of a source where nothing is before a commit, whatever elements say. */
interface ErasedPath {
  readonly source: number;
  readonly path: string;
  readonly generation: number;
  readonly died: number;
}

/** How far erasures in the branches of a pipeline were heard of, and what is yet to be done about them. */
export class ErasureStore extends Store {
  /** The number of the last one that was heard of. */
  heard(bucket: string): number {
    return this.sql.number`
      SELECT number FROM erasures_heard WHERE bucket = ${bucket}`;
  }

  hear(bucket: string, number: number): void {
    this.sql.run`
      INSERT INTO erasures_heard (bucket, number, due) VALUES (${bucket}, ${number}, 0)
      ON CONFLICT DO UPDATE SET number = max(number, excluded.number)`;
  }

  /** How many times something came that is still to be acted on; 0: nothing is to be done. */
  due(bucket: string): number {
    return this.sql.number`SELECT due FROM erasures_heard WHERE bucket = ${bucket}`;
  }

  /** Something is to be done. */
  addDue(bucket: string): void {
    this.sql.run`
      INSERT INTO erasures_heard (bucket, number, due) VALUES (${bucket}, 0, 1)
      ON CONFLICT DO UPDATE SET due = due + 1`;
    this.wake("erased");
  }

  /** What was due so many times is done, unless more came since. */
  settle(bucket: string, due: number): void {
    this.sql.run`UPDATE erasures_heard SET due = 0 WHERE bucket = ${bucket} AND due = ${due}`;
  }

  /** A path of a source that is there no more where it was read to, although no event has told of it. */
  note({ source, path, generation, died }: ErasedPath): void {
    this.sql.run`
      INSERT OR REPLACE INTO erased_paths (source, path, generation, died)
      VALUES (${source}, ${path}, ${generation}, ${died})`;
  }

  /** Takes out all paths that were noted. */
  takePaths(): ErasedPath[] {
    const rows = this.sql.all<ErasedPath>`
      SELECT source, path, generation, died FROM erased_paths ORDER BY source, path`;
    if (rows.length > 0) this.sql.run`DELETE FROM erased_paths`;
    return rows;
  }

  /** Jobs up to this one may know of what was erased. */
  noteJob(job: number): void {
    this.sql.run`
      INSERT INTO erased_jobs (one, job) VALUES (1, ${job}) ON CONFLICT DO UPDATE SET job = max(job, excluded.job)`;
  }

  /** The last job that may know of what was erased; undefined: none does. */
  lastJob(): number | undefined {
    return this.sql.first<{ job: number }>`SELECT job FROM erased_jobs WHERE one = 1`?.job;
  }

  /** No job is left that knows of it. */
  forgetJobs(): void {
    this.sql.run`DELETE FROM erased_jobs`;
  }

  giveUp({ upload, digest, size }: GivenUp): void {
    this.sql.run`
      INSERT INTO erased_outputs (upload, digest, size) VALUES (${upload}, ${digest}, ${size}) ON CONFLICT DO NOTHING`;
  }

  givenUp(limit: number): GivenUp[] {
    return this.sql.all<GivenUp>`SELECT upload, digest, size FROM erased_outputs LIMIT ${limit}`;
  }

  forgetGivenUp(rows: readonly GivenUp[]): void {
    for (const { upload, digest, size } of rows) {
      this.sql
        .run`DELETE FROM erased_outputs WHERE upload = ${upload} AND digest = ${digest} AND size = ${size}`;
    }
  }
}
