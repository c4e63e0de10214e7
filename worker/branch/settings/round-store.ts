import type { RoundAction } from "../../core/lifecycle-rules.ts";
import { BranchStore } from "../store.ts";

/** The action of a row of `rounds`, by its number. */
const ACTIONS: readonly RoundAction[] = ["expire", "abort"];

/** One of a rule's actions: when its next round begins, and how far the one is that goes on. */
export interface Round {
  readonly gen: number;
  readonly rule: string;
  readonly action: RoundAction;
  /** Null: nothing is there that can become due. */
  readonly due: number | null;
  /** Null: no round goes on. */
  readonly work: RoundWork | null;
  /** The newest commit that its last round had seen, or that was there when the one that goes on began; null: none did. */
  readonly seen: number | null;
}

/** A round that goes on. */
export interface RoundWork {
  /** The midnight that it is for. */
  readonly midnight: number;
  /** What was written before is due; null: nothing is. */
  readonly cutoff: number | null;
  /** It has looked at all up to this path, and of this path up to this upload. */
  readonly path: string;
  readonly upload: string;
  /** It has looked at everything. */
  readonly through: boolean;
  /** When the oldest was written of all that stays; null: nothing stays. */
  readonly oldest: number | null;
  /** The open commit into which the deletions are staged; null while there are none. */
  readonly openCommit: string | null;
  /** Tags were set since it began, by which files may be due that it has passed. */
  readonly retagged: boolean;
}

/** Which row of `rounds` is meant. */
export type RoundKey = Pick<Round, "gen" | "rule" | "action">;

/** Of (?1 gen, ?2 JSON of rules, ?3 due): a row for each that is written. */
const HASTEN = `
  UPDATE rounds SET due = CASE WHEN midnight IS NULL THEN ?3 ELSE due END, retagged = midnight IS NOT NULL
  WHERE gen = ?1 AND rule IN (SELECT value FROM json_each(?2)) AND action = 0
    AND CASE WHEN midnight IS NULL THEN due IS NULL OR due > ?3 ELSE retagged = 0 END
  RETURNING rule`;

interface StoredRow extends Pick<Round, "gen" | "rule" | "due" | "seen"> {
  readonly action: number;
  readonly midnight: number | null;
  readonly cutoff: number | null;
  readonly path: string | null;
  readonly upload: string | null;
  readonly through: number;
  readonly oldest: number | null;
  readonly openCommit: string | null;
  readonly retagged: number;
}

const SELECT = `
  SELECT gen, rule, action, due, midnight, cutoff, path, upload, through, oldest, openCommit,
    seen, retagged
  FROM rounds WHERE gen = ?1`;
const ALL = `${SELECT} ORDER BY rule, action`;
/** Sorts what it finds: two rows for each rule of a branch, at most. */
export const AT_WORK = `${SELECT} AND (midnight IS NOT NULL OR due <= ?2) ORDER BY midnight IS NULL, rule, action LIMIT 1`;

/** What lifecycle rules have to do: a row for each of their actions. Those that wait for a first file are kept in memory, since each commit asks. */
export class RoundStore extends BranchStore {
  #waiting: { readonly gen: number; readonly rounds: readonly RoundKey[] } | undefined;

  all(gen: number): Round[] {
    return this.#query(ALL, [gen]);
  }

  /** Those for which nothing can become due. */
  waiting(gen: number): readonly RoundKey[] {
    if (this.#waiting?.gen !== gen) {
      const rounds = this.all(gen).filter(({ due, work }) => due === null && work === null);
      this.#waiting = { gen, rounds };
    }
    return this.#waiting.rounds;
  }

  /** The round that goes on, or the next that is due. */
  atWork(gen: number, now: number): Round | undefined {
    return this.#query(AT_WORK, [gen, now])[0];
  }

  find({ gen, rule, action }: RoundKey): Round | undefined {
    return this.all(gen).find((round) => round.rule === rule && round.action === action);
  }

  /** When the next one is due; undefined if none is. */
  nextDue(gen: number): number | undefined {
    return (
      this.sql.first<{ due: number | null }>`SELECT min(due) AS due FROM rounds WHERE gen = ${gen}`?.due ??
      undefined
    );
  }

  /** The round whose deletions an open commit holds. */
  ofOpenCommit(id: string): Round | undefined {
    const row = this.sql.first<{ gen: number }>`SELECT gen FROM rounds WHERE openCommit = ${id} LIMIT 1`;
    return row && this.all(row.gen).find(({ work }) => work?.openCommit === id);
  }

  /** An action without a round that goes on, which is next due then. It replaces what was there. */
  plan({ gen, rule, action }: RoundKey, due: number): void {
    this.sql.run`
      INSERT OR REPLACE INTO rounds (gen, rule, action, due) VALUES (${gen}, ${rule}, ${ACTIONS.indexOf(action)}, ${due})`;
    this.wake("lifecycle scan", due);
    this.forget();
  }

  /** What waited for a first file has one. */
  expect({ gen, rule, action }: RoundKey, due: number): void {
    this.sql.run`
      UPDATE rounds SET due = ${due}
      WHERE gen = ${gen} AND rule = ${rule} AND action = ${ACTIONS.indexOf(action)} AND due IS NULL`;
    this.wake("lifecycle scan", due);
    this.forget();
  }

  /** A round begins, or begins again. */
  begin(
    { gen, rule, action }: RoundKey,
    { midnight, cutoff, seen }: Pick<RoundWork, "midnight" | "cutoff"> & { readonly seen: number },
  ): void {
    this.sql.run`
      UPDATE rounds SET midnight = ${midnight}, cutoff = ${cutoff}, seen = ${seen}, retagged = 0, path = '', upload = '', through = 0,
        oldest = NULL, openCommit = NULL
      WHERE gen = ${gen} AND rule = ${rule} AND action = ${ACTIONS.indexOf(action)}`;
    this.forget();
  }

  save(
    { gen, rule, action }: RoundKey,
    { path, upload, through, oldest, openCommit }: Omit<RoundWork, "midnight" | "cutoff" | "retagged">,
  ): void {
    this.sql.run`
      UPDATE rounds SET path = ${path}, upload = ${upload}, through = ${Number(through)}, oldest = ${oldest},
        openCommit = ${openCommit}
      WHERE gen = ${gen} AND rule = ${rule} AND action = ${ACTIONS.indexOf(action)}`;
  }

  /** The round is over. `seen`: the newest commit that it has seen. */
  end({ gen, rule, action }: RoundKey, { due, seen }: { due: number | null; seen: number }): void {
    this.sql.run`
      UPDATE rounds SET due = ${due}, seen = ${seen}, midnight = NULL, cutoff = NULL, path = NULL, upload = NULL,
        through = 0, oldest = NULL, openCommit = NULL, retagged = 0
      WHERE gen = ${gen} AND rule = ${rule} AND action = ${ACTIONS.indexOf(action)}`;
    this.forget();
  }

  /**
   * Old files may have come under these rules: their expiration begins then at the latest, or once more after the round that goes
   * on. No row is written of which that is known already.
   */
  hasten(gen: number, { rules, due }: { rules: readonly string[]; due: number }): void {
    if (this.sql.query(HASTEN, [gen, JSON.stringify(rules), due]).length === 0) return;
    this.wake("lifecycle scan", due);
    this.forget();
  }

  remove({ gen, rule, action }: RoundKey): void {
    this.sql.run`
      DELETE FROM rounds WHERE gen = ${gen} AND rule = ${rule} AND action = ${ACTIONS.indexOf(action)}`;
    this.forget();
  }

  endGeneration(gen: number): void {
    this.sql.run`DELETE FROM rounds WHERE gen = ${gen}`;
    this.forget();
  }

  /** What is in memory may not be what is written. */
  forget(): void {
    this.#waiting = undefined;
  }

  #query(text: string, values: readonly number[]): Round[] {
    return this.sql.query<StoredRow>(text, values).map(roundOf);
  }
}

function roundOf({ gen, rule, action, due, seen, midnight, through, retagged, ...work }: StoredRow): Round {
  const ways = { through: through === 1, retagged: retagged === 1 };
  const at = { path: work.path ?? "", upload: work.upload ?? "", ...ways };
  return {
    gen,
    rule,
    action: ACTIONS[action] ?? "expire",
    due,
    seen,
    work: midnight === null ? null : { ...work, ...at, midnight },
  };
}
