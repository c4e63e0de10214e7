import type { Fork } from "../../forks/fork-store.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import { neededFrom } from "../../retention/horizon.ts";

type WorkStores = Pick<Ledger, "sql" | "forks" | "roots" | "commits" | "subscribers" | "contents">;

/** The fork that there is something to do for now, but none of `except`. */
export function forkAtWork(ledger: WorkStores, except: ReadonlySet<string> = NONE): Fork | undefined {
  return ledger.forks
    .unfinished()
    .find((fork) => !except.has(fork.uid) && (fork.state !== "purging" || mayPurge(ledger, fork)));
}

const NONE: ReadonlySet<string> = new Set();

/**
 * Whether something can be done for a fork that is to go. Its rows stay while forks of it stand, since what those name may
 * be here alone, and while a pipeline needs them, whose jobs may still read what there was. At last its uploads
 * and open commits may hold contents of the parent, and let go of them in their time.
 */
function mayPurge(
  { sql, roots, commits, subscribers, contents }: WorkStores,
  { gen }: Pick<Fork, "gen">,
): boolean {
  if (gen === null) return true;
  const last = commits.newest(gen);
  if (last && (roots.hasAny(gen) || neededFrom(subscribers.needs(), gen) < last.seq)) return false;
  return sql.has`SELECT 1 FROM files WHERE gen = ${gen} LIMIT 1` || !contents.hasOnLoan(gen);
}
