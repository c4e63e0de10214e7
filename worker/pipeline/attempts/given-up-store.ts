import { Store } from "../../objects/store.ts";

interface GivenUp {
  readonly upload: string;
  /** How often it was given up: tells whether that has happened again since. */
  readonly marks: number;
}

/** Uploads in the output branch of which a result or a merge went that named them, until the branch has let go of the rest. */
export class GivenUpStore extends Store {
  /** Null: nothing was uploaded. */
  add(upload: string | null): void {
    if (upload === null) return;
    this.sql.run`
      INSERT INTO given_up (upload, marks) VALUES (${upload}, 1)
      ON CONFLICT (upload) DO UPDATE SET marks = marks + 1`;
  }

  some(limit: number): GivenUp[] {
    return this.sql.all<GivenUp>`SELECT upload, marks FROM given_up ORDER BY upload LIMIT ${limit}`;
  }

  /** The branch has let go. Not of what was given up again since. */
  settle(uploads: readonly GivenUp[]): void {
    for (const { upload, marks } of uploads)
      this.sql.run`DELETE FROM given_up WHERE upload = ${upload} AND marks = ${marks}`;
  }
}
