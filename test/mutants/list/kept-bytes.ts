import { type Invariant, inWorker } from "../mutant.ts";

/** Nothing that is or becomes named is pending deletion or deleted. What nothing keeps goes. */
export const DELETIONS: Invariant = {
  id: "10",
  mutants: [
    {
      name: "The blob reaper forgets its rows before it deletes the blobs",
      file: "worker/branch/work/blob-reaper.ts",
      text: "    const { gone, held } = await remove(due)",
      replacement:
        "    ledger.transaction(() => ledger.pendingDeletions.forget(due.map(({ blob }) => blob)));\n    const { gone, held } = await remove(due)",
      tests: [inWorker("branch/expiry", "being deleted")],
    },
    {
      name: "A blob that could not be deleted is forgotten",
      file: "worker/branch/work/blob-reaper.ts",
      text: "      ledger.pendingDeletions.forget(gone);\n",
      replacement: "      ledger.pendingDeletions.forget(due.map(({ blob }) => blob));\n",
      tests: [inWorker("branch/expiry")],
    },
    {
      name: "A content is put together from a later life of its parts than the one that was read",
      file: "worker/branch/contents/content-store.ts",
      text: "AND (json_array_length(kept.value) = 2 OR contents.life IS kept.value ->> 2)",
      replacement: "AND json_array_length(kept.value) >= 2",
      tests: [inWorker("branch/multipart"), inWorker("s3/multipart/given-back"), inWorker("branch/uploads")],
    },
    {
      name: "Blobs of bytes that come a second time stay for ever",
      file: "worker/branch/contents/content-store.ts",
      text: "      if (!this.#leaveRow(content, gen)) this.discard(content, now);\n",
      replacement: "      this.#leaveRow(content, gen);\n",
      tests: [inWorker("branch/refs-property"), inWorker("branch/uploads")],
    },
    {
      name: "Blobs of a content are pending deletion though another one owns them",
      file: "worker/branch/contents/pending-deletion-store.ts",
      text: "    const owned = this.owned(blobs);\n    const unowned",
      replacement: "    const owned = new Set<string>();\n    const unowned",
      tests: [
        inWorker("branch/refs-property"),
        inWorker("branch/uploads"),
        inWorker("s3/multipart/given-back"),
      ],
    },
    {
      name: "An open commit that changes nothing keeps what was staged for it",
      file: "worker/branch/write/finish.ts",
      text: "  releaseUnchanged(tx, ledger, { gen, state, changes });\n",
      replacement: "",
      tests: [inWorker("branch/refs-property"), inWorker("branch/open-commits")],
    },
    {
      name: "A file that is replaced takes its content along, which the past still reads",
      file: "worker/branch/write/commit.ts",
      text: "      ledger.files.kill(path, { gen, born: before.born, seq });\n",
      replacement:
        '      ledger.files.kill(path, { gen, born: before.born, seq });\n      if (kindOf(path) === "file") ledger.contents.release({ ...before, gen });\n',
      tests: [inWorker("branch/refs-property")],
    },
  ],
};

/** Whoever names a blob either owns it, or has a fork reference in a branch that names it. */
export const FORKS: Invariant = {
  id: "10a",
  mutants: [
    {
      name: "The parent drops the root of a fork before the fork has let go of its rows",
      file: "worker/branch/work/forks/forker.ts",
      text: "    else if (!this.#purgeSome(fork)) await this.#letGo(fork);",
      replacement: "    else {\n      await this.#letGo(fork);\n      while (this.#purgeSome(fork));\n    }",
      tests: [inWorker("branch/forks", "before the first rows go")],
    },
    {
      name: "A deleted fork lets go of what forks of it have of its parent",
      file: "worker/branch/work/forks/forker.ts",
      text: "roots.hasAny(gen) || lowestMark(",
      replacement: "lowestMark(",
      tests: [inWorker("branch/forks", "middle one of three")],
    },
    {
      name: "A deleted fork lets go of what its uploads have of its parent",
      file: "worker/branch/work/forks/forker.ts",
      text: " || !contents.hasOnLoan(gen);",
      replacement: " || gen > 0;",
      tests: [inWorker("branch/forks", "upload of the deleted fork")],
    },
  ],
};

/** What a kept commit has stays, and reads as it was made. What no kept commit has goes. */
export const HISTORY: Invariant = {
  id: "10b",
  mutants: [
    {
      name: "History goes that a pipeline still reads",
      file: "worker/branch/retention/horizon.ts",
      text: "Math.max(present, Math.min(asked.horizon, needed))",
      replacement: "Math.max(present, asked.horizon)",
      tests: [inWorker("branch/retention"), inWorker("pipeline/needs")],
    },
    {
      name: "A commit below the horizon reads as if it was kept",
      file: "worker/branch/retention/kept.ts",
      text: "  return generations.live()?.gen === commit.gen ? names.has(commit) : names.isRoot(commit);",
      replacement:
        "  return generations.live()?.gen === commit.gen ? commit.seq > 0 || names.has(commit) : names.isRoot(commit);",
      tests: [inWorker("branch/retention")],
    },
    {
      name: "Rows go that a commit has which something names",
      file: "worker/branch/work/history-gc/free.ts",
      text: "    AND NOT EXISTS (SELECT 1 FROM held WHERE held.gen = ?1 AND held.seq >= born AND held.seq < died)`;",
      replacement:
        "    AND NOT EXISTS (SELECT 1 FROM held WHERE held.gen = ?1 AND held.seq > born AND held.seq < died)`;",
      tests: [inWorker("branch/retention"), inWorker("branch/retention-property")],
    },
  ],
};

/** An orphan scan removes nothing that is or becomes named, or that an open upload brings. */
export const ORPHANS: Invariant = {
  id: "10c",
  mutants: [
    {
      name: "Orphans are removed without a last look at whether something names them",
      file: "worker/branch/work/orphan-scan.ts",
      text: "const unaccounted = new Set(sweeps.unaccounted(ours, bucket()));",
      replacement: "const unaccounted = new Set(ours);",
      tests: [inWorker("branch/sweep", "spares an orphan")],
    },
    {
      name: "What an open upload brings is taken for an orphan",
      file: "worker/branch/uploads/sweep-store.ts",
      text: "WHERE uploads.isFresh IN (0, 1) AND uploads.id = ${bucket} || substr(listed.value, -27) AND uploads.lost = 0",
      replacement:
        "WHERE uploads.isFresh IN (0, 1) AND uploads.id = ${bucket} || substr(listed.value, -27) AND uploads.lost = 1",
      tests: [inWorker("branch/sweep", "open")],
    },
    {
      name: "A manifest that can't be read spares nothing, and the scan goes on",
      file: "worker/branch/work/orphan-scan.ts",
      text: "      if (!named && contents.manifestFrom(row)?.blob === blob.blob) throw new MissingBlobError(blob.blob);\n",
      replacement: "",
      tests: [inWorker("branch/sweep", "manifest")],
    },
  ],
};

/** No content on loan is there that nothing keeps. The parent hears what went. */
export const LOANS: Invariant = {
  id: "10i",
  mutants: [
    {
      name: "What goes of a parent's bytes is given back to nobody",
      file: "worker/branch/ledger/ledger.ts",
      text: "      this.#recordUnkept(unkept);\n",
      replacement: "",
      tests: [inWorker("branch/on-loan")],
    },
    {
      name: "A content on loan that is released stays where a PUT finds it",
      file: "worker/branch/contents/content-store.ts",
      text: "    this.#mayBeUnkept = true;\n",
      replacement: "",
      tests: [inWorker("branch/on-loan")],
    },
    {
      name: "What retention frees is released past the count of what is on loan",
      file: "worker/branch/contents/content-store.ts",
      text: "  releaseMany(named: Refs, gen: number): void {\n    this.#released();\n",
      replacement: "  releaseMany(named: Refs, gen: number): void {\n    this.#mayBeDead = true;\n",
      tests: [inWorker("branch/on-loan", "retention")],
    },
  ],
};

/** A body is served whole, or its connection is cut. */
export const WHOLE_BODIES: Invariant = {
  id: "10d",
  mutants: [
    {
      name: "A body ends where a blob of it is missing",
      file: "worker/blobs/read/read-content.ts",
      text: "  if (stream === null) throw new MissingBlobError(blob);\n",
      replacement: "  if (stream === null) return new Blob([]).stream();\n",
      tests: [inWorker("blobs/read-content")],
    },
    {
      name: "A long read does not say what it has still to read",
      file: "worker/blobs/read/read-content.ts",
      text: "const end = hold?.begin(store, { body, unread: () => blobsWithin(body, range).slice(sent) });",
      replacement: "const end = () => void hold;",
      tests: [inWorker("blobs/read-content"), inWorker("s3/long-reads")],
    },
    {
      name: "Blobs of what had a name are deleted under their readers",
      file: "worker/branch/contents/pending-deletion-store.ts",
      text: "const due = now + (named ? READERS_GRACE_MS : NAMELESS_GRACE_MS);",
      replacement: "const due = now + (named ? NAMELESS_GRACE_MS : READERS_GRACE_MS);",
      tests: [inWorker("branch/expiry")],
    },
  ],
};
