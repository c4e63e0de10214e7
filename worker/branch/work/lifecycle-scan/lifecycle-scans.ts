import {
  cutoffOf,
  dueMidnight,
  type LifecycleRule,
  midnightOf,
  scanTime,
  type Term,
  termOf,
} from "../../../core/lifecycle-rules.ts";
import type { NamedLoop } from "../../../objects/loop.ts";
import type { Tx } from "../../../objects/transaction.ts";
import type { BranchContext } from "../../context.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import type { LifecycleScan, ScanProgress } from "../../settings/lifecycle-scan-store.ts";
import { nextScan } from "../../settings/lifecycle-scans.ts";
import { writableBranch } from "../../staging/admission.ts";
import type { BranchLoop } from "../../store.ts";
import type { Live } from "../../tree/generation-store.ts";
import { rangeOf } from "../../tree/path-ranges.ts";
import { RELEASED } from "../../uploads/upload-store.ts";
import type { Committer } from "../../write/committer.ts";
import { expireFound, findExpired } from "./expire.ts";

interface LifecycleScansOptions extends Pick<BranchContext, "ledger" | "now" | "moment"> {
  readonly committer: Committer;
}

/** What a slice is about. */
interface Doing {
  readonly live: Live;
  readonly scan: LifecycleScan;
  readonly rule: LifecycleRule;
  readonly term: Term;
  /** Who put the rules. */
  readonly key: string | undefined;
}

/**
 * Does what lifecycle rules say. Each rule has a *scan* for each of its actions, which begins shortly after a midnight
 * (UTC), and not before something is due, as far as is known:
 *
 * 1. Walk. Files of the rule's prefix are looked at in slices, and the deletion of those that are due is staged in an open
 *    commit that nobody else fills. Writers go on meanwhile.
 * 2. Commit. Up to 10,000 deletions are one transaction, in which each is looked at again: what somebody has written since
 *    is left out. More are a large commit like others (work/large-commit/applier.ts), and looked at again while the gate is
 *    closed. If nothing is left there is no commit.
 * 3. Plan. The oldest of what stays says when the next scan is. If nothing stays there is none, until something is
 *    written: then the object has no alarm.
 *
 * Each slice is a transaction that says how far it is, and a scan is for the midnight before it began, however long it
 * takes: after a crash it goes on, or begins again and finds dead what it has deleted, and makes no second commit.
 */
export function lifecycleScans({ ledger, now, moment, committer }: LifecycleScansOptions): NamedLoop {
  /** One slice. Rests while a large commit is applied, whose end wakes it. */
  function step(): boolean {
    const { live } = ledger;
    if (!live || ledger.applying.get()) return false;
    const scan = ledger.lifecycleScans.atWork(live.gen, now());
    const lifecycle = ledger.settings.of(live.gen).lifecycle;
    const rule = lifecycle?.rules.find(({ id }) => id === scan?.rule);
    const term = scan && rule && termOf(rule, scan.action);
    if (!scan) return false;
    if (!rule || !term) ledger.transaction(() => ledger.lifecycleScans.remove(scan));
    else {
      const doing = { live, scan, rule, term, key: lifecycle?.key };
      const { work } = scan;
      if (!work) begin(doing);
      else if (!work.through) walk({ ...doing, work });
      else conclude({ ...doing, work });
    }
    return true;
  }

  /** A branch into which nothing may be written is not looked through. */
  function begin({ live, scan, term, key }: Pick<Doing, "live" | "scan" | "term" | "key">): void {
    const midnight = midnightOf(now());
    ledger.transaction((tx) => {
      const reason = scan.action === "expire" ? refusal(tx, key) : undefined;
      if (reason === undefined)
        ledger.lifecycleScans.begin(scan, {
          midnight,
          cutoff: cutoffOf(term, midnight) ?? null,
          seen: live.head.seq,
        });
      else putOff({ live, scan, reason });
    });
  }

  function refusal(tx: Tx, key: string | undefined): string | undefined {
    const writable = writableBranch(tx, ledger, { operations: 0, of: "deletions", key });
    return writable.ok ? undefined : writable.reason;
  }

  function walk(walking: Pick<Doing, "live" | "scan" | "rule"> & { work: ScanProgress }): void {
    const at = moment();
    ledger.transaction((tx) => {
      if (walking.scan.action === "expire") findExpired(tx, ledger, { ...walking, moment: at });
      else abortSlice(tx, ledger, { ...walking, now: at.now });
    });
  }

  function conclude(concluding: Doing & { work: ScanProgress }): void {
    const { live, scan, work } = concluding;
    committer.one((tx, moment) => {
      const answer = expireFound(tx, ledger, { ...concluding, moment });
      if (answer.ok) end(concluding);
      else if (answer.reason === "again") ledger.lifecycleScans.begin(scan, { ...work, seen: live.head.seq });
      else if (answer.reason !== "applying") putOff({ live, scan, reason: answer.reason });
      return answer;
    });
  }

  /** What came while the scan went on, behind its back, is not older than the scan, unless tags alone were set. */
  function end({ live: { gen, uid }, scan, rule, term, work }: Doing & { work: ScanProgress }): void {
    const oldest = work.oldest ?? (isLeft({ gen, scan, rule }) ? work.midnight : null);
    const midnight = oldest === null ? null : dueMidnight(term, oldest);
    const planned = midnight === null ? null : scanTime({ midnight, after: work.midnight, uid });
    // It may have been said since this scan was read.
    const again = ledger.lifecycleScans.find(scan)?.work?.retagged
      ? scanTime({ midnight: 0, after: now(), uid })
      : undefined;
    ledger.lifecycleScans.end(scan, {
      due: again === undefined ? planned : Math.min(again, planned ?? again),
      seen: ledger.generations.live()?.head.seq ?? 0,
    });
  }

  /** Whether there may be anything that the rule is about. Of tags that is not known once something was committed meanwhile. */
  function isLeft({ gen, scan, rule }: Pick<Doing, "scan" | "rule"> & { gen: number }): boolean {
    if (scan.action === "abort") return ledger.multiparts.anyBegun(gen, rule.prefix);
    if (rule.tags) return ledger.generations.live()?.head.seq !== scan.seen;
    return ledger.files.anyAtHead(gen, rule.prefix);
  }

  /** Tomorrow again. */
  function putOff({
    live: { gen, uid, head },
    scan,
    reason,
  }: {
    live: Live;
    scan: LifecycleScan;
    reason: string;
  }): void {
    console.warn(`the lifecycle rule '${scan.rule}' of generation ${gen} waits for a day: ${reason}`);
    ledger.lifecycleScans.end(scan, { due: scanTime({ midnight: 0, after: now(), uid }), seen: head.seq });
  }

  return { name: "lifecycle scan" satisfies BranchLoop, due: () => nextScan(ledger, now()), step };
}

/** Most uploads that one slice looks at, and that it ends. */
const UPLOADS = 500;
const ENDED = 5;

/** Of (?1 gen, ?2 path and ?3 upload to begin behind, ?4 lower, ?5 upper, ?6 limit): uploads into the branch itself. */
const BEGUN = `
  SELECT path, upload, initiatedAt FROM multiparts INDEXED BY multiparts_by_path
  WHERE gen = ?1 AND openCommit IS NULL AND (path, upload) > (?2, ?3) AND path >= ?4 AND path < ?5
  ORDER BY path, upload LIMIT ?6`;

/** Ends some more multipart uploads that began long enough ago. What is to go into an open commit ends with that. */
function abortSlice(
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
