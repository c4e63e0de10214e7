import { decodeTime } from "ulid";
import { BranchStore } from "../store.ts";
import type { Position } from "../tree/commit-store.ts";

/** An export: what it reads are the commits of a generation up to one. */
interface Export extends Position {
  readonly id: string;
}

/** The exports that are under way. One whose reader is gone ends by itself. */
export class ExportStore extends BranchStore {
  open({ id, gen, seq }: Export, due: number): void {
    this.sql.run`INSERT INTO exports (id, gen, seq, due) VALUES (${id}, ${gen}, ${seq}, ${due})`;
    this.wake("housekeeping", due);
  }

  find(id: string, now: number): Export | undefined {
    return this.sql.first<Export>`SELECT id, gen, seq FROM exports WHERE id = ${id} AND due > ${now}`;
  }

  renew(id: string, due: number): void {
    this.sql.run`UPDATE exports SET due = ${due} WHERE id = ${id}`;
  }

  close(id: string): void {
    if (this.sql.run`DELETE FROM exports WHERE id = ${id}`) this.wake("history GC");
  }

  /** None of a generation can be one state of it any more. */
  endAll(gen: number): void {
    if (this.sql.run`DELETE FROM exports WHERE gen = ${gen}`) this.wake("history GC");
  }

  /** Whether one reads a generation: nothing of that may go meanwhile. */
  reads(gen: number, now: number): boolean {
    return this.sql.has`SELECT 1 FROM exports WHERE gen = ${gen} AND due > ${now} LIMIT 1`;
  }

  /** When the first one that reads a generation began; undefined if none does. Ids begin with that time. */
  since(gen: number, now: number): number | undefined {
    const first = this.sql.first<{ id: string | null }>`
      SELECT min(id) AS id FROM exports WHERE gen = ${gen} AND due > ${now}`;
    return first?.id ? decodeTime(first.id) : undefined;
  }

  /** Forgets those whose readers are gone. */
  forgetOld(now: number): void {
    if (this.sql.run`DELETE FROM exports WHERE due <= ${now}`) this.wake("history GC");
  }

  /** When the next one ends by itself; undefined if there is none. */
  nextDue(): number | undefined {
    return this.sql.first<{ due: number | null }>`SELECT min(due) AS due FROM exports`?.due ?? undefined;
  }
}
