import type { RuleAction } from "../../core/lifecycle-rules.ts";
import { BranchStore, standsFor } from "../store.ts";

/** The action of a row of `lifecycle_scans`, by its number. */
const ACTIONS: readonly RuleAction[] = ["expire", "abort"];

/** One of a rule's actions: when its next scan begins, and how far the one is that goes on. */
export interface LifecycleScan {
  readonly gen: number;
  readonly rule: string;
  readonly action: RuleAction;
  /** Null: nothing is there that can become due. */
  readonly due: number | null;
  /** Null: no scan goes on. */
  readonly work: ScanProgress | null;
  /** The newest commit that its last scan had seen, or that was there when the one that goes on began; null: none did. */
  readonly seen: number | null;
}

/** A scan that goes on. */
export interface ScanProgress {
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

/** Which row of `lifecycle_scans` is meant. */
export type ScanKey = Pick<LifecycleScan, "gen" | "rule" | "action">;

/** Of (?1 gen, ?2 JSON of rules, ?3 due): a row for each that is written. */
const HASTEN = `
  UPDATE lifecycle_scans SET due = CASE WHEN midnight IS NULL THEN ?3 ELSE due END, retagged = midnight IS NOT NULL
  WHERE gen = ?1 AND rule IN (SELECT value FROM json_each(?2)) AND action = 0
    AND CASE WHEN midnight IS NULL THEN due IS NULL OR due > ?3 ELSE retagged = 0 END
  RETURNING rule`;

interface StoredRow extends Pick<LifecycleScan, "gen" | "rule" | "due" | "seen"> {
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
  FROM lifecycle_scans WHERE gen = ?1`;
const ALL = `${SELECT} ORDER BY rule, action`;
/** Sorts what it finds: two rows for each rule of a branch, at most. */
export const AT_WORK = `${SELECT} AND (midnight IS NOT NULL OR due <= ?2) ORDER BY midnight IS NULL, rule, action LIMIT 1`;

/** What lifecycle rules have to do: a row for each of their actions. Those that wait for a first file are kept in memory, since each commit asks. */
export class LifecycleScanStore extends BranchStore {
  #waiting: { readonly gen: number; readonly scans: readonly ScanKey[] } | undefined;

  all(gen: number): LifecycleScan[] {
    return this.#query(ALL, [gen]);
  }

  /** Those for which nothing can become due. */
  waiting(gen: number): readonly ScanKey[] {
    if (this.#waiting?.gen !== gen) {
      const scans = this.all(gen).filter(({ due, work }) => due === null && work === null);
      this.#waiting = { gen, scans };
    }
    return this.#waiting.scans;
  }

  /** The scan that goes on, or the next that is due. */
  atWork(gen: number, now: number): LifecycleScan | undefined {
    return this.#query(AT_WORK, [gen, now])[0];
  }

  find({ gen, rule, action }: ScanKey): LifecycleScan | undefined {
    return this.all(gen).find((scan) => scan.rule === rule && scan.action === action);
  }

  /** When the next one is due; undefined if none is. */
  nextDue(gen: number): number | undefined {
    return (
      this.sql.first<{ due: number | null }>`SELECT min(due) AS due FROM lifecycle_scans WHERE gen = ${gen}`
        ?.due ?? undefined
    );
  }

  /** The scan whose deletions an open commit holds. */
  ofOpenCommit(id: string): LifecycleScan | undefined {
    const row = this.sql.first<{
      gen: number;
    }>`SELECT gen FROM lifecycle_scans WHERE openCommit = ${id} LIMIT 1`;
    return row && this.all(row.gen).find(({ work }) => work?.openCommit === id);
  }

  /** An action without a scan that goes on, which is next due then. It replaces what was there. */
  plan({ gen, rule, action }: ScanKey, due: number): void {
    this.sql.run`
      INSERT OR REPLACE INTO lifecycle_scans (gen, rule, action, due) VALUES (${gen}, ${rule}, ${ACTIONS.indexOf(action)}, ${due})`;
    this.wake("lifecycle scan", due);
    this.forget();
  }

  /** What waited for a first file has one. */
  expect({ gen, rule, action }: ScanKey, due: number): void {
    this.sql.run`
      UPDATE lifecycle_scans SET due = ${due}
      WHERE gen = ${gen} AND rule = ${rule} AND action = ${ACTIONS.indexOf(action)} AND due IS NULL`;
    this.wake("lifecycle scan", due);
    this.forget();
  }

  /** A scan begins, or begins again. */
  begin(
    { gen, rule, action }: ScanKey,
    { midnight, cutoff, seen }: Pick<ScanProgress, "midnight" | "cutoff"> & { readonly seen: number },
  ): void {
    this.sql.run`
      UPDATE lifecycle_scans SET midnight = ${midnight}, cutoff = ${cutoff}, seen = ${seen}, retagged = 0, path = '', upload = '', through = 0,
        oldest = NULL, openCommit = NULL
      WHERE gen = ${gen} AND rule = ${rule} AND action = ${ACTIONS.indexOf(action)}`;
    this.forget();
  }

  save(
    { gen, rule, action }: ScanKey,
    { path, upload, through, oldest, openCommit }: Omit<ScanProgress, "midnight" | "cutoff" | "retagged">,
  ): void {
    this.sql.run`
      UPDATE lifecycle_scans SET path = ${path}, upload = ${upload}, through = ${Number(through)}, oldest = ${oldest},
        openCommit = ${openCommit}
      WHERE gen = ${gen} AND rule = ${rule} AND action = ${ACTIONS.indexOf(action)}`;
  }

  /** The scan is over. `seen`: the newest commit that it has seen. */
  end({ gen, rule, action }: ScanKey, { due, seen }: { due: number | null; seen: number }): void {
    this.sql.run`
      UPDATE lifecycle_scans SET due = ${due}, seen = ${seen}, midnight = NULL, cutoff = NULL, path = NULL, upload = NULL,
        through = 0, oldest = NULL, openCommit = NULL, retagged = 0
      WHERE gen = ${gen} AND rule = ${rule} AND action = ${ACTIONS.indexOf(action)}`;
    this.forget();
  }

  /**
   * Old files may have come under these rules: their expiration begins then at the latest, or once more after the scan that goes
   * on. No row is written of which that is known already.
   */
  hasten(gen: number, { rules, due }: { rules: readonly string[]; due: number }): void {
    if (this.sql.query(HASTEN, [gen, JSON.stringify(rules), due]).length === 0) return;
    this.wake("lifecycle scan", due);
    this.forget();
  }

  remove({ gen, rule, action }: ScanKey): void {
    this.sql.run`
      DELETE FROM lifecycle_scans WHERE gen = ${gen} AND rule = ${rule} AND action = ${ACTIONS.indexOf(action)}`;
    this.forget();
  }

  endGeneration(gen: number): void {
    this.sql.run`DELETE FROM lifecycle_scans WHERE gen = ${gen}`;
    this.forget();
  }

  /** What is in memory may not be what is written. */
  forget(): void {
    this.#waiting = undefined;
  }

  #query(text: string, values: readonly number[]): LifecycleScan[] {
    return this.sql.query<StoredRow>(text, values).map(scanOf);
  }
}

function scanOf({
  gen,
  rule,
  action,
  due,
  seen,
  midnight,
  through,
  retagged,
  ...work
}: StoredRow): LifecycleScan {
  const ways = { through: through === 1, retagged: retagged === 1 };
  const at = { path: work.path ?? "", upload: work.upload ?? "", ...ways };
  return {
    gen,
    rule,
    action: standsFor(ACTIONS, action, "expire"),
    due,
    seen,
    work: midnight === null ? null : { ...work, ...at, midnight },
  };
}
