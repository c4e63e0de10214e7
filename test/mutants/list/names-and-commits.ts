import { type Invariant, inNode, inWorker } from "../mutant.ts";

/** A name never points at missing bytes. */
export const NAMES: Invariant = {
  id: "1",
  mutants: [
    {
      name: "A file may name a content that went meanwhile",
      file: "worker/branch/contents/content-store.ts",
      text: "if (!isHere) throw new Error(`a content that is to be kept is not there: ${digest}-${size}`);",
      replacement: "void isHere;",
      tests: [inWorker("branch/commits", "nothing is named")],
    },
    {
      name: "A commit is planned without a look at whether its contents are there",
      file: "worker/branch/write/commit.ts",
      text: `  const state = finalState(holding.operations);
  const planned = planCommit(tx, ledger, { gen, state, contents: "look-up" });`,
      replacement: `  const state = finalState(holding.operations);
  const planned = planCommit(tx, ledger, { gen, state, contents: "known" });`,
      tests: [inWorker("branch/commits")],
    },
    {
      name: "A content is put together from parts that went since they were read",
      file: "worker/branch/staging/admission.ts",
      text: "if (content && ledger.contents.lacksKept(content, live.gen)) {",
      replacement: "if (content && live.gen < 0) {",
      tests: [inWorker("branch/multipart", "to keep a content which the branch does not have")],
    },
    {
      name: "An upload that has ended still brings a content to a file",
      file: "worker/branch/staging/admission.ts",
      text: "if (upload !== undefined && !ledger.uploads.find(upload, live.gen)) {",
      replacement: "if (upload !== undefined && live.gen < 0) {",
      tests: [inWorker("branch/uploads"), inWorker("branch/commits")],
    },
  ],
};

/** On one machine that holds for a power cut, too. */
export const POWER_CUTS: Invariant = {
  id: "1a",
  mutants: [
    {
      name: "A blob counts as written before it is flushed",
      file: "worker/blobs/stores.ts",
      text: "    await (together ? together.finish(name, finish) : finish([name])).catch((error) => {\n",
      replacement:
        "    void (together ? together.finish(name, finish) : finish([name])).catch((error) => {\n",
      tests: [inWorker("blobs/flushed-store")],
    },
    {
      name: "Blobs count as gone whose names a power cut brings back",
      file: "worker/blobs/stores.ts",
      text: "    if (removed.length > 0) {\n",
      replacement: "    if (removed.length > names.length) {\n",
      tests: [inWorker("blobs/flushed-store")],
    },
    {
      name: "A flush that failed counts as one, unless the disk is full",
      file: "worker/blobs/stores.ts",
      text: "      if (failure) throw new UnflushedError(",
      replacement: "      if (failure?.isFull) throw new UnflushedError(",
      tests: [inWorker("blobs/flushed-store")],
    },
    {
      name: "Who asks together with others does not hear that a blob could not be flushed",
      file: "embedded/data/flushed-blobs.ts",
      text: "      if (error) throw error;\n",
      replacement: "      void error;\n",
      tests: [inNode("embedded/flushed-blobs")],
    },
  ],
};

/** Two writers, one order: no lost or mixed write. */
export const ORDER: Invariant = {
  id: "2",
  mutants: [
    {
      name: "The condition of a PUT is not looked at",
      file: "worker/branch/write/commit.ts",
      text: "const operation = { put: path, digest, size, attributes, ...(condition && { condition }) };",
      replacement: "const operation = { put: path, digest, size, attributes };",
      tests: [inWorker("branch/conditions"), inWorker("branch/commits")],
    },
    {
      name: "An open commit is finished though somebody wrote under its conditions",
      file: "worker/branch/write/finish.ts",
      text: "const changed = isLarge(openCommit) ? undefined : changedConditions(tx, ledger, openCommit);",
      replacement:
        "const changed = isLarge(openCommit) ? changedConditions(tx, ledger, openCommit) : undefined;",
      tests: [inWorker("branch/open-commit-conditions")],
    },
    {
      name: "A later condition takes the place of the first one that an open commit had on a path",
      file: "worker/branch/staging/preconditions.ts",
      text: "seen.set(path, staged ? staged.precondition : (head?.born ?? NOTHING));",
      replacement: "seen.set(path, ledger.presentFile(live, path)?.born ?? head?.born ?? NOTHING);",
      tests: [inWorker("branch/open-commit-conditions")],
    },
    {
      name: "Writers wait at the gate, and go on in the order of the last one first",
      file: "worker/branch/write/gate.ts",
      text: "for (const goOn of this.#waiting) {",
      replacement: "for (const goOn of [...this.#waiting].reverse()) {",
      tests: [inWorker("branch/gate")],
    },
    {
      name: "A writer goes past the gate while a large commit is applied",
      file: "worker/branch/write/gate.ts",
      text: "if (!this.isClosed) return await work();",
      replacement: "if (!this.isClosed || this.#waiting.size === 0) return await work();",
      tests: [inWorker("branch/gate"), inWorker("branch/large-commits")],
    },
    {
      name: "A batch of PUTs that fails takes along those that were not at fault",
      file: "worker/branch/write/put-queue.ts",
      text: "if (batch.length === 1) batch[0]?.reject(error);",
      replacement: "if (batch.length > 0) for (const one of batch) one.reject(error);",
      tests: [inWorker("branch/commits")],
    },
  ],
};

/** A commit is visible whole or not at all. */
export const WHOLE: Invariant = {
  id: "3",
  mutants: [
    {
      name: "Half of a large commit is seen by who reads HEAD",
      file: "worker/branch/ledger/ledger.ts",
      text: "return this.applying.writesTo(gen) ? this.files.at({ gen, seq }, path) : this.files.head(gen, path);",
      replacement: "return this.files.head(gen, path) ?? this.files.at({ gen, seq }, path);",
      tests: [inWorker("branch/large-commits", "is invisible")],
    },
    {
      name: "What was read before a large commit writes its rows is remembered while it does",
      file: "worker/branch/work/large-commit/check.ts",
      text: "    ledger.reads.dropAll();\n",
      replacement: "",
      tests: [inWorker("branch/large-commits")],
    },
    {
      name: "The applier goes on from the beginning after each slice: the counts of a large commit are wrong",
      file: "worker/branch/work/large-commit/write.ts",
      text: "  applying.count({ births: first.paths - same.length, deaths: over.length - same.length });\n",
      replacement: "",
      tests: [inWorker("branch/large-commits")],
    },
    {
      name: "A transaction that throws leaves what was read of it in memory",
      file: "worker/objects/transaction.ts",
      text: "      forget();\n",
      replacement: "",
      tests: [inWorker("branch/commits", "does not harm those")],
    },
    {
      name: "A transaction that throws leaves what was read of the pipeline in memory",
      file: "worker/pipeline/ledger/ledger.ts",
      text: "    this.pipeline.forget();\n",
      replacement: "",
      tests: [inWorker("pipeline/versions", "what was read of the pipeline")],
    },
  ],
};
