import type { InputStart } from "../contract/pipelines.ts";
import { BranchStore } from "../store.ts";
import type { Position } from "../tree/commit-store.ts";

/** The commits that inputs of pipelines start after, as the pipelines tell. */
export class StartStore extends BranchStore {
  /**
   * Where such a commit stands. Also of one that was given back before its pipeline told of it: what was written after it
   * can be told all the same.
   */
  find(commit: string): Position | undefined {
    return this.sql.first<Position>`
      SELECT gen, seq FROM starts INDEXED BY starts_by_commit WHERE "commit" = ${commit} LIMIT 1`;
  }

  /** These are all of a pipeline. `holds`: whether a new one is kept, which this one then sees to. */
  tell(uid: string, starts: readonly InputStart[], holds: (start: InputStart) => boolean): void {
    const known = this.sql.all<{
      commit: string;
    }>`SELECT "commit" FROM starts WHERE uid = ${uid}`;
    for (const { commit } of known) {
      if (starts.some((start) => start.commit === commit)) continue;
      this.sql.run`DELETE FROM starts WHERE uid = ${uid} AND "commit" = ${commit}`;
      this.wake("history GC");
    }
    this.sql.run`UPDATE starts SET stopped = 0 WHERE uid = ${uid}`;
    for (const start of starts) {
      if (known.some(({ commit }) => commit === start.commit)) continue;
      this.sql.run`
        INSERT OR REPLACE INTO starts (uid, "commit", gen, seq, holds)
        VALUES (${uid}, ${start.commit}, ${start.generation}, ${start.seq}, ${holds(start) ? 1 : 0})`;
    }
  }

  /**
   * The pipeline is stopped: it is no subscriber from now on, and goes on from these commits if it is started again. Call it
   * while it still is one, which knows its name.
   */
  stop(uid: string): void {
    this.sql.run`
      UPDATE starts SET stopped = 1,
        pipeline = ifnull((SELECT pipeline FROM subscribers WHERE subscribers.uid = starts.uid), pipeline)
      WHERE uid = ${uid}`;
  }

  forget(uid: string): void {
    this.sql.run`DELETE FROM starts WHERE uid = ${uid}`;
  }
}
