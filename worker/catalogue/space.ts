import { type Space, TOLD_FROM } from "../../protocol/repos.ts";
import { Table } from "./table.ts";

/** An object whose database is almost full, or was when it said so. */
export interface AlmostFullRow {
  readonly kind: "branch" | "pipeline";
  /** Of a branch its bucket. */
  readonly name: string;
  /** Milliseconds since 1970. */
  readonly toldAt: number;
}

/**
 * Which objects said that they are almost full. A word may get lost, since nobody waits for it: the object says it again with
 * each hundredth that it grows. One that is no longer true is removed by whoever asks the object.
 */
export class AlmostFullTable extends Table {
  async tell({ kind, name, toldAt }: AlmostFullRow): Promise<void> {
    await this.run`
      INSERT INTO almost_full (kind, name, toldAt) VALUES (${kind}, ${name}, ${toldAt})
      ON CONFLICT (kind, name) DO UPDATE SET toldAt = max(toldAt, excluded.toldAt)`;
  }

  /** The newest words first. */
  async list(limit: number): Promise<AlmostFullRow[]> {
    return await this.all`SELECT kind, name, toldAt FROM almost_full ORDER BY toldAt DESC LIMIT ${limit}`;
  }

  /** Removes what is no longer true, unless the object has said it again meanwhile. */
  async forget({ kind, name, toldAt }: AlmostFullRow): Promise<void> {
    await this.run`DELETE FROM almost_full WHERE kind = ${kind} AND name = ${name} AND toldAt = ${toldAt}`;
  }
}

/** What one database of D1 may have. */
const CATALOGUE_BYTES = 10_000_000_000;

/** How full it was when this isolate told that last, in hundredths. */
let told = 0;

/** What the catalogue has, and may have. */
export async function catalogueSpace(db: D1Database): Promise<Space> {
  const { meta } = await db.prepare("SELECT 1").all();
  return { usedBytes: meta.size_after, limitBytes: CATALOGUE_BYTES };
}

/** Looks at the size that came with an answer of D1, and tells of it once for each hundredth. */
export function watchSpace(answer: { readonly meta: { readonly size_after: number } } | undefined): void {
  const hundredths = Math.floor(((answer?.meta.size_after ?? 0) / CATALOGUE_BYTES) * 100);
  if (hundredths >= TOLD_FROM * 100 && hundredths > told) {
    console.warn(`the catalogue has ${hundredths} % of what D1 may have: 'sluice repo usage' shows it`);
  }
  told = hundredths;
}
