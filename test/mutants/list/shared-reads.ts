import { type Invariant, inWorker, type TestRun } from "../mutant.ts";

const CACHE = "worker/branch/tree/read-cache.ts";
const FILES = "worker/branch/tree/file-store.ts";

/** Histories that mostly read by the entry of the Worker, in the simulation. */
export const HISTORIES: TestRun = {
  project: "simulator",
  file: "test/simulator/shared-reads.test.ts",
  title: "in 80 histories",
};

/** Objects that end before all that they wrote is on the disk, in the simulation. */
const CRASHES: TestRun = { ...HISTORIES, title: "what a crash takes back" };

/** A branch that is public and is not, by turns, beside whoever reads it without a key, in the simulation. */
const CLOSED: TestRun = { ...HISTORIES, title: "whoever has no key" };

/** What is answered out of memory is what the branch would answer. */
export const SHARED_READS: Invariant = {
  id: "2a",
  mutants: [
    {
      name: "The time of the newest commit is told out of memory after the next one",
      file: CACHE,
      text: "    this.#record = undefined;\n    this.#pageEpoch++;",
      replacement: "    this.#pageEpoch++;",
      tests: [inWorker("branch/shared-reads"), HISTORIES],
    },
    {
      name: "A transaction that may have changed anything leaves rows in memory",
      file: CACHE,
      text: "      this.#epoch++;\n",
      replacement: "",
      tests: [inWorker("branch/shared-reads")],
    },
    {
      name: "A file that was deleted is read out of memory",
      file: FILES,
      text: "    this.#reads.drop(path);\n    this.sql.run`UPDATE files SET died",
      replacement: "    this.sql.run`UPDATE files SET died",
      tests: [inWorker("branch/shared-reads"), HISTORIES],
    },
    {
      name: "A file that is new is not there for whoever had heard that it is not",
      file: FILES,
      text: "    this.#reads.drop(path);\n    this.sql.run`\n      INSERT INTO files",
      replacement: "    this.sql.run`\n      INSERT INTO files",
      tests: [inWorker("branch/shared-reads"), HISTORIES],
    },
    {
      name: "What was written again as it is keeps its time in memory",
      file: FILES,
      text: "    this.#reads.drop(path);\n    this.sql.run`\n      UPDATE files SET renewed",
      replacement: "    this.sql.run`\n      UPDATE files SET renewed",
      tests: [inWorker("branch/shared-reads"), HISTORIES],
    },
    {
      name: "What is not on the disk is read out of memory",
      file: "worker/branch/ledger/ledger.ts",
      text: "    if (this.transactions.areDurable) return true;\n",
      replacement: "    if (this.transactions.areDurable || this.exists) return true;\n",
      tests: [inWorker("branch/shared-reads"), CRASHES],
    },
    {
      name: "A write that came while the disk had the one before counts as on it",
      file: "worker/objects/transaction.ts",
      text: "    this.#onDisk = Math.max(this.#onDisk, ended);\n",
      replacement: "    this.#onDisk = Math.max(this.#ended, ended);\n",
      tests: [inWorker("branch/shared-reads")],
    },
    {
      name: "What an instance that ended has read is read out of memory",
      file: CACHE,
      text: "    sharing.delete(bucket);\n    sharing.set(bucket, this);\n",
      replacement: "    if (!sharing.has(bucket)) sharing.set(bucket, this);\n",
      tests: [inWorker("branch/shared-reads")],
    },
    {
      name: "An earlier life of a branch is read out of memory",
      file: CACHE,
      text: " || entry.gen !== record.gen",
      replacement: "",
      tests: [inWorker("branch/shared-reads")],
    },
    {
      name: "Whoever has no key reads out of memory what is public no more",
      file: CACHE,
      text: "publicOnly && !record?.isPublic ?",
      replacement: "publicOnly && !record ?",
      tests: [inWorker("branch/shared-reads"), CLOSED],
    },
    {
      name: "Whoever has no key lists out of memory what is not public",
      file: "worker/s3/bucket-tree.ts",
      text: "shared.page({ ...listing, publicOnly: true })",
      replacement: "shared.page(listing)",
      tests: [inWorker("s3/public/public", "out of memory"), CLOSED],
    },
    {
      name: "A page of a listing is answered out of memory after a transaction",
      file: CACHE,
      text: "    this.#pageEpoch++;\n",
      replacement: "",
      tests: [inWorker("branch/shared-reads"), HISTORIES],
    },
    {
      name: "Files are listed out of memory with the times that somebody else asked for",
      file: CACHE,
      text: "[of, prefix, delimiter, after, limit, modified]",
      replacement: "[of, prefix, delimiter, after, limit, modified && null]",
      tests: [inWorker("branch/shared-reads")],
    },
    {
      name: "A page of an open commit is answered as one of the newest state",
      file: "worker/branch/read/tree.ts",
      text: "view.isHead && !view.openCommit",
      replacement: "view.isHead",
      tests: [inWorker("branch/shared-reads")],
    },
    {
      name: "A page of a commit is answered as one of the newest state",
      file: "worker/branch/read/tree.ts",
      text: "view.isHead && !view.openCommit",
      replacement: "!view.openCommit",
      tests: [inWorker("branch/shared-reads")],
    },
    {
      name: "A page that is not on the disk, or while a large commit is applied, is shared",
      file: "worker/branch/ledger/ledger.ts",
      text: "live && this.mayShare()",
      replacement: "live",
      tests: [inWorker("branch/shared-reads")],
    },
    {
      name: "What is read while a large commit is applied is shared",
      file: "worker/branch/ledger/ledger.ts",
      text: " || this.applying.get() !== null) return false;",
      replacement: ") return false;",
      tests: [inWorker("branch/shared-reads")],
    },
    {
      name: "Reads are shared where entry and object may be on two machines",
      file: "worker/env.ts",
      text: 'env.HOST !== undefined && data.SLUICE_READ_MEMORY === "on"',
      replacement: 'data.SLUICE_READ_MEMORY === "on"',
      tests: [inWorker("branch/shared-reads")],
    },
  ],
};
