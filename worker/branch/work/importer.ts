import type { NamedLoop } from "../../objects/loop.ts";
import type { Import } from "../archives/import-store.ts";
import type { BranchContext } from "../context.ts";
import { giveUpImport } from "../history/archives/import-rows.ts";
import type { BranchLoop } from "../store.ts";
import { purgeSlice } from "./forks/purge.ts";

/** Rows that one slice of a purge removes. */
const PURGED_ROWS = 1000;

type ImporterOptions = Pick<BranchContext, "ledger" | "now" | "turn">;

/**
 * Makes a branch of the pages of an archive: the same commits with the same ids, times and annotations, the same tags and files.
 *
 * 1. Coming. The rows are those of a generation that is in no row of `generations`, so that nobody sees any of them. Its
 *    number is far above the others: a branch that is made meanwhile has one below it, and the import gives way. Each
 *    page is a transaction that says how far it is. So after a crash, of either side, it goes on behind the last page.
 * 2. Made. One transaction enters the generation, with what it is set to. Then the branch is there, whole.
 * 3. Purging, if it was given up, or nothing came for a day, or another archive is imported instead: its rows go in slices.
 *
 * A pipeline that follows the name of the branch would make a job of each old commit. So none may: it is stopped first,
 * and started again when the branch is there.
 */
export function importer({ ledger, now, turn }: ImporterOptions): NamedLoop {
  const { imports } = ledger;
  async function purge({ uid, gen }: Import): Promise<void> {
    while (ledger.transaction((tx) => purgeSlice(tx, ledger, { gen, now: now() }))) await turn();
    for (const table of PURGED) {
      while (ledger.sql.execute(purgeOf(table), [gen, PURGED_ROWS]).rowsWritten > 0) await turn();
    }
    ledger.transaction(() => imports.remove(uid));
    await turn();
  }
  return {
    name: "imports" satisfies BranchLoop,
    due: () => (imports.purging() ? 0 : imports.nextDue()),
    /** Expires an import to which nothing came for too long, or goes on with what there is to purge. */
    async step() {
      ledger.transaction((tx) => {
        const expired = imports.expired(now());
        if (expired) giveUpImport(tx, ledger, { row: expired, now: now() });
      });
      for (let row = imports.purging(); row; row = imports.purging()) await purge(row);
    },
  };
}

/** Tables with rows of a generation, beside those of files and contents, and what follows `gen` in their keys. */
const PURGED = [
  ["commits", "seq"],
  ["lineages", "seq"],
  ["tags", "name"],
  ["revived", "version, path, born"],
] as const;

/** Of (?1 gen, ?2 limit). */
function purgeOf([table, key]: (typeof PURGED)[number]): string {
  return `DELETE FROM ${table} WHERE gen = ?1 AND (${key}) IN (SELECT ${key} FROM ${table} WHERE gen = ?1 LIMIT ?2)`;
}
