import { type Invariant, inWorker } from "../mutant.ts";

/** Pipelines never form a circle, however many are submitted at once. */
export const CIRCLES: Invariant = {
  id: "13",
  mutants: [
    {
      name: "A pipeline looks for circles before others see what it is to read",
      file: "worker/pipeline/work/saga/propose.ts",
      text: "  await peers.catalogue.proposals.add({ pipeline: name, id, uid, inputs, output, errors });\n  return await circleOf(context, { ...edges, inputs });",
      replacement:
        "  const circle = await circleOf(context, { ...edges, inputs });\n  await peers.catalogue.proposals.add({ pipeline: name, id, uid, inputs, output, errors });\n  return circle;",
      tests: [inWorker("pipeline/circles", "two submissions")],
    },
    {
      name: "A circle that is there all the same goes on for ever",
      file: "worker/pipeline/work/jobs.ts",
      text: "(lineage?.[uid] ?? 0) >= revision",
      replacement: "(lineage?.[uid] ?? 0) > revision",
      tests: [inWorker("pipeline/circles", "brake")],
    },
    {
      name: "An output that was put back into an input counts as a circle",
      file: "worker/pipeline/work/jobs.ts",
      text: "(lineage?.[uid] ?? 0) >= revision",
      replacement: "(lineage?.[uid] ?? 1) >= revision",
      tests: [inWorker("pipeline/circles", "brake"), inWorker("pipeline/jobs")],
    },
  ],
};

/** A commit has the annotation of the call that made it, and of no other. */
export const ANNOTATIONS: Invariant = {
  id: "16",
  mutants: [
    {
      name: "A PUT loses what was said of it",
      file: "worker/branch/write/commit.ts",
      text: "return writeChanges(tx, ledger, { live, changes, upload, moment, annotation, keep });",
      replacement: "return writeChanges(tx, ledger, { live, changes, upload, moment, keep });",
      tests: [inWorker("branch/commit-log")],
    },
    {
      name: "What is said at the end of an open commit is lost to what was said at its beginning",
      file: "worker/branch/tree/annotation.ts",
      text: "{ ...begun, ...ended }",
      replacement: "{ ...ended, ...begun }",
      tests: [inWorker("branch/commit-log")],
    },
    {
      name: "A large commit has the annotation of its beginning alone",
      file: "worker/branch/write/finish.ts",
      text: "ledger.applying.begin(openCommit, annotation);",
      replacement: "ledger.applying.begin(openCommit, openCommit.annotation);",
      tests: [inWorker("branch/large-commits", "is rolled forward from")],
    },
  ],
};

/** What a pipeline releases belongs to no commit that its output branch keeps and to no living datum. */
export const RELEASES: Invariant = {
  id: "16a",
  mutants: [
    {
      name: "A result goes though one of its datums lives",
      file: "worker/pipeline/attempts/result-store.ts",
      text: "\n        AND NOT EXISTS (SELECT 1 FROM datums WHERE datums.id = results.id)`;",
      replacement: "\n        AND results.died IS NULL`;",
      equivalent:
        "the guard spares rows a look: before a result goes it is looked at again, and stays while a datum has it (ResultStore.free)",
    },
    {
      name: "A result goes though its datum came back",
      file: "worker/pipeline/attempts/result-store.ts",
      text: "      if (lives) this.sql.run`UPDATE results SET died = NULL WHERE id = ${id} AND salt = ${salt}`;\n      else if (!needed)",
      replacement: "      void lives;\n      if (!needed)",
      tests: [inWorker("pipeline/given-back"), inWorker("pipeline/given-back-property")],
    },
    {
      name: "Results are looked at one job early: the last one that has them counts no more",
      file: "worker/pipeline/attempts/result-store.ts",
      text: "AND n >= results.job AND n < results.died) AS needed",
      replacement: "AND n >= results.job AND n < results.died - 1) AS needed",
      tests: [inWorker("pipeline/given-back"), inWorker("pipeline/given-back-property")],
    },
  ],
};

/** A worker of a deleted pipeline opens no upload that nobody ends. */
export const LATE_UPLOADS: Invariant = {
  id: "16b",
  mutants: [
    {
      name: "A worker of the pipeline before opens an upload with the next one of the name",
      file: "worker/branch/calls/uploads.ts",
      text: '    if (lease !== undefined && claim && isOlder(lease, claim.uid)) return refused("lost-lease");\n',
      replacement: "    void [claim, isOlder];\n",
      tests: [inWorker("pipeline/given-back"), inWorker("branch/uploads")],
    },
    {
      name: "A worker of a deleted pipeline opens an upload in a branch that is somebody else's",
      file: "worker/branch/calls/uploads.ts",
      text: "if (!live || (lease !== undefined && !claimed)) return absent(ledger);",
      replacement: "if (!live) return absent(ledger);",
      tests: [inWorker("pipeline/given-back"), inWorker("branch/uploads")],
    },
    {
      name: "A lost lease is forgotten before calls under it have arrived",
      file: "worker/branch/uploads/upload-store.ts",
      text: "    const forgotten = now + UPLOAD_LEASE_MS;\n",
      replacement: "    const forgotten = now;\n",
      tests: [inWorker("branch/ended-uploads"), inWorker("branch/uploads")],
    },
  ],
};

/** An output file leads to its build provenance, even when its result is kept no more. */
export const PROVENANCE: Invariant = {
  id: "17",
  mutants: [
    {
      name: "What made a file is forgotten while a commit has it",
      file: "worker/pipeline/output/published-store.ts",
      text: "AND n >= made.born AND n < made.died) AS needed",
      replacement: "AND n > made.born AND n < made.died) AS needed",
      tests: [inWorker("pipeline/given-back"), inWorker("pipeline/provenance")],
    },
    {
      name: "A file leads to the datum that made it before",
      file: "worker/pipeline/output/published-store.ts",
      text: "    if (before) this.#makers.end({ path, key }, this.#job());\n",
      replacement: "",
      tests: [inWorker("pipeline/provenance")],
    },
    {
      name: "What ran a datum is not known once its result has gone",
      file: "worker/pipeline/output/published-store.ts",
      text: "(SELECT code FROM results WHERE id = ${id} AND salt = ${salt}))",
      replacement: "(SELECT code FROM results WHERE id = ${id} AND salt = ${key}))",
      tests: [inWorker("pipeline/provenance")],
    },
  ],
};
