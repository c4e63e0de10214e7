import type { LifecycleRule } from "../../../core/lifecycle-rules.ts";
import type { Tx } from "../../../objects/transaction.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import type { LifecycleScan, ScanProgress } from "../../settings/lifecycle-scan-store.ts";
import { rangeOf } from "../../tree/path-ranges.ts";
import { RELEASED } from "../../uploads/upload-store.ts";

/** Most uploads that one slice looks at, and that it ends. */
const UPLOADS = 500;
const ENDED = 5;

/** Of (?1 gen, ?2 path and ?3 upload to begin behind, ?4 lower, ?5 upper, ?6 limit): uploads into the branch itself. */
const BEGUN = `
  SELECT path, upload, initiatedAt FROM multiparts INDEXED BY multiparts_by_path
  WHERE gen = ?1 AND openCommit IS NULL AND (path, upload) > (?2, ?3) AND path >= ?4 AND path < ?5
  ORDER BY path, upload LIMIT ?6`;

/** Ends some more multipart uploads that began long enough ago. What is to go into an open commit ends with that. */
export function abortSlice(
  _: Tx,
  ledger: Ledger,
  { scan, work, rule, now }: { scan: LifecycleScan; work: ScanProgress; rule: LifecycleRule; now: number },
): void {
  const { lower, upper } = rangeOf(rule.prefix);
  const begun = ledger.sql.query<{ path: string; upload: string; initiatedAt: number }>(BEGUN, [
    scan.gen,
    work.path,
    work.upload,
    lower,
    upper,
    UPLOADS,
  ]);
  const cutoff = work.cutoff ?? Number.NEGATIVE_INFINITY;
  let [at, ended, oldest] = [{ path: work.path, upload: work.upload }, 0, work.oldest];
  let through = begun.length < UPLOADS;
  let room = RELEASED;
  for (const { path, upload, initiatedAt } of begun) {
    if (ended === ENDED) {
      through = false;
      break;
    }
    if (initiatedAt < cutoff) {
      room -= ledger.uploads.close(upload, now, { atMost: room });
      ended++;
    } else oldest = Math.min(oldest ?? initiatedAt, initiatedAt);
    at = { path, upload };
  }
  if (ended > 0) ledger.contents.removeReleased(now);
  ledger.lifecycleScans.save(scan, { ...at, through, oldest, openCommit: null });
}
