import { type Invariant, inNode, inWorker } from "../mutant.ts";
import { HISTORIES } from "./near-files.ts";

/** No commit, tag or listing shows what was erased. Its bytes go once nothing names them, and not before. */
export const ERASED: Invariant = {
  id: "10e",
  mutants: [
    {
      name: "What was erased is still read out of memory",
      file: "worker/branch/erasures/erase.ts",
      text: "  for (const { path } of rows) reads.drop(path);\n",
      replacement: "  void reads;\n",
      tests: [inWorker("branch/erasures")],
    },
    {
      name: "The deletion of a file goes with the version that was erased before it",
      file: "worker/branch/erasures/erase.ts",
      text: "  if (dead.length > 0) {\n    sql.execute(KEEP_DELETIONS",
      replacement: "  if (dead.length > rows.length) {\n    sql.execute(KEEP_DELETIONS",
      tests: [inWorker("branch/erasures")],
    },
    {
      name: "A version whose successor was erased shows as deleted",
      file: "worker/branch/erasures/erase.ts",
      text: "  sql.execute(UNMARK, [gen, pathsAt(births)]);\n",
      replacement: "",
      tests: [inWorker("branch/erasures")],
    },
  ],
};

/** Only a job that was about to commit reads what was erased. No datum runs again because a file of its output was erased. */
export const ERASED_INPUTS: Invariant = {
  id: "10f",
  mutants: [
    {
      name: "Jobs that read what was erased go on",
      file: "worker/pipeline/work/inputs/erased.ts",
      text: "if (!read.some((erasure) => isAt(erasure, job.positions[source]))) continue;",
      replacement: "if (read.every((erasure) => isAt(erasure, job.positions[source]))) continue;",
      tests: [inWorker("pipeline/erasures")],
    },
    {
      name: "A path that was erased is not compared by the next job",
      file: "worker/pipeline/work/inputs/erased.ts",
      text: "      notePaths(context, { source, read });\n",
      replacement: "",
      tests: [inWorker("pipeline/erasures")],
    },
    {
      name: "After jobs were killed for an erasure none follows them",
      file: "worker/pipeline/work/inputs/erased.ts",
      text: "    insertJob(tx, context, { ...pipelineEvent(ledger, definition), fill: ALL_COLLECTED });\n",
      replacement: "    void [insertJob, tx, pipelineEvent, ALL_COLLECTED];\n",
      tests: [inWorker("pipeline/erasures")],
    },
  ],
};

/** What was erased goes from every cache. */
export const CACHES: Invariant = {
  id: "10k",
  mutants: [
    {
      name: "Copies that a read under way left near its reader stay there, since they are purged but once",
      file: "worker/branch/outbox/cache-purge-store.ts",
      text: "const PURGE_AGAIN_MS = 10 * 60 * 1000;",
      replacement: "const PURGE_AGAIN_MS = 0;",
      tests: [inWorker("branch/cache-purges"), HISTORIES],
    },
    {
      name: "A blob that is deleted while copies are purged is taken for purged",
      file: "worker/branch/outbox/cache-purge-store.ts",
      text: "marks = marks + 1",
      replacement: "marks = marks",
      tests: [inWorker("branch/cache-purges")],
    },
    {
      name: "Copies of whatever is deleted are purged, until Cloudflare takes no more",
      file: "worker/branch/work/blob-reaper.ts",
      text: "    else if (erased.has(blob)) tags.add(write);\n",
      replacement: "    else tags.add(write);\n",
      tests: [inWorker("branch/cache-purges")],
    },
    {
      name: "Copies of a deleted branch stay in caches",
      file: "worker/branch/work/blob-reaper.ts",
      text: "    if (isDeleted.get(uid)) tags.add(uid);\n    else if",
      replacement: "    if",
      tests: [inWorker("branch/cache-purges")],
    },
    {
      name: "Copies stay that Cloudflare did not purge, since it was asked too often",
      file: "worker/blobs/near/entrypoint.ts",
      text: "if (purged && !purged.success)",
      replacement: "if (!purged)",
      tests: [inWorker("blobs/near-reads")],
    },
    {
      name: "What a fetch brings that began before the erasure is kept",
      file: "runner/cache/erasures.ts",
      text: "      underway.erase(names);\n",
      replacement: "",
      tests: [inNode("runner/cache-erasures", "on its way")],
    },
    {
      name: "Whoever comes after the erasure gets a fetch that began before it",
      file: "runner/cache/erasures.ts",
      text: "      arrivals.forget(names);\n",
      replacement: "",
      tests: [inNode("runner/cache-erasures", "on its way")],
    },
    {
      name: "The cache is used after a silence if one of the two clocks stood still",
      file: "runner/cache/erasures.ts",
      text: "Math.max(now.wall - this.#heardAt.wall, now.steady - this.#heardAt.steady)",
      replacement: "Math.min(now.wall - this.#heardAt.wall, now.steady - this.#heardAt.steady)",
      tests: [inNode("runner/cache-erasures", "not used")],
    },
    {
      name: "The cache counts as up to date from when the answer came, and not from when it was asked for",
      file: "runner/cache/erasures.ts",
      text: "      this.#heardAt = at;\n",
      replacement: "      this.#heardAt = this.#options.now();\n      void at;\n",
      tests: [inNode("runner/cache-erasures", "not used")],
    },
  ],
};

/** The annotation of a redacted commit is in no row of its branch. */
export const REDACTED: Invariant = {
  id: "16c",
  mutants: [
    {
      name: "The open commit that made a commit still has its annotation",
      file: "worker/branch/history/redact.ts",
      text: "    ledger.openCommits.forgetAnnotation(gen, id),\n",
      replacement: "",
      tests: [inWorker("branch/redact")],
    },
    {
      name: "A branch that came back out of an archive still has the annotation of before",
      file: "worker/branch/history/redact.ts",
      text: "    ledger.commits.forgetAnnotationsBefore(id),\n",
      replacement: "",
      tests: [inWorker("branch/archives", "in a life of before")],
    },
    {
      name: "A fork still has what was said when it was asked for",
      file: "worker/branch/history/redact.ts",
      text: "    seq === 1 && ledger.forks.forgetAnnotation(uid),\n",
      replacement: "    seq < 1 && ledger.forks.forgetAnnotation(uid),\n",
      tests: [inWorker("branch/redact")],
    },
  ],
};

/** Once a data folder was scrubbed, no file of it has what was erased. A scrub loses nothing. */
export const SCRUBBED: Invariant = {
  id: "16d",
  mutants: [
    {
      name: "A scrub gives rows other numbers",
      file: "embedded/scrub/rewrite.ts",
      text: "    if (differenceBetween(database, copy) !== undefined) {",
      replacement: "    if (differenceBetween(database, copy) === copy) {",
      tests: [inNode("embedded/scrub")],
    },
    {
      name: "The log that the folder keeps names what was erased",
      file: "embedded/scrub/scrub.ts",
      text: "  if (owing.length > 0) removeKeptLog(dirname(stateDir));\n",
      replacement: "  void [removeKeptLog, dirname];\n",
      tests: [inNode("embedded/scrub")],
    },
    {
      name: "A debt is forgotten with the first payment, though rows may still go that name what was erased",
      file: "embedded/scrub/scrub.ts",
      text: 'debt.until <= now ? "DELETE FROM rewrite" : "UPDATE rewrite SET paid = 1"',
      replacement: 'debt.until >= now ? "DELETE FROM rewrite" : "UPDATE rewrite SET paid = 1"',
      tests: [inNode("embedded/scrub")],
    },
    {
      name: "The catalogue is written anew after the objects whose debts it repeats",
      file: "embedded/scrub/scrub.ts",
      text: "[...catalogue, ...owing];",
      replacement: "[...owing, ...catalogue];",
      tests: [inNode("embedded/scrub")],
    },
    {
      name: "The log of a database is not written back before the copy is made",
      file: "embedded/scrub/rewrite.ts",
      text: '    database.exec("PRAGMA wal_checkpoint(TRUNCATE)");\n',
      replacement: "",
      equivalent:
        "SQLite writes the log back when the last connection is closed, as it is here, too; whether the log has gone is looked at right after",
    },
  ],
};
