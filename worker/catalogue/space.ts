import type { Space } from "../../protocol/repos.ts";
import { TOLD_FROM } from "../../protocol/repos.ts";

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
