import { type Invariant, inWorker } from "../mutant.ts";

/** Every commit on an input makes exactly one job. */
export const ONE_JOB: Invariant = {
  id: "4",
  mutants: [
    {
      name: "A wake-up that comes while feeds are read is taken for heard",
      file: "worker/pipeline/work/inputs/pull.ts",
      text: "if (rest || taken > 0 || memory.wakeUps !== heard) {",
      replacement: "if (rest || taken > 0) {",
      tests: [inWorker("pipeline/inputs"), inWorker("pipeline/jobs"), inWorker("pipeline/burst")],
    },
    {
      name: "A commit owes no wake-up to the pipelines that read it",
      file: "worker/branch/write/committer.ts",
      text: "      ledger.outbox.ring(ledger.subscribers.all(), { event: last.commit, now });\n",
      replacement: "",
      tests: [inWorker("pipeline/jobs")],
    },
    {
      name: "The mark of a pull goes before the job of the commit is there",
      file: "worker/pipeline/work/inputs/pull.ts",
      text: "    const heard = memory.wakeUps;\n",
      replacement:
        "    const heard = memory.wakeUps;\n    ledger.step(definition, () => ledger.pipeline.setPullDue(0));\n",
      tests: [inWorker("pipeline/job-crash", "before the cursor moves"), inWorker("pipeline/crash")],
    },
    {
      name: "The first job is made before every input has a file, and leaves out what comes first to the others",
      file: "worker/pipeline/work/inputs/pull.ts",
      text: "if (first && !ledger.sources.allHaveData()) return;",
      replacement: "if (first && !hasData) return;",
      tests: [inWorker("pipeline/inputs"), inWorker("pipeline/input-branches")],
    },
  ],
};

/** A datum's result is recorded once, by the holder of its lease. */
export const ONE_RESULT: Invariant = {
  id: "5",
  mutants: [
    {
      name: "A lease that ran out and is not swept yet still records a result",
      file: "worker/pipeline/attempts/attempt-store.ts",
      text: "WHERE lease = ${lease} AND leaseUntil > ${now} AND attempts.state = 'running'",
      replacement: "WHERE lease = ${lease} AND ${now} AND attempts.state = 'running'",
      tests: [inWorker("pipeline/leases", "ran out")],
    },
    {
      name: "A lease that ran out and is not swept yet is renewed",
      file: "worker/pipeline/attempts/attempt-store.ts",
      text: "WHERE lease = ${lease} AND leaseUntil > ${now} AND state = 'running'",
      replacement: "WHERE lease = ${lease} AND ${now} AND state = 'running'",
      tests: [inWorker("pipeline/leases", "ran out")],
    },
    {
      name: "The lease of a job that has ended still records a result",
      file: "worker/pipeline/attempts/attempt-store.ts",
      text: "AND attempts.state = 'running'\n        AND jobs.finishedAt IS NULL`;",
      replacement: "AND attempts.state = 'running'`;",
      tests: [inWorker("pipeline/stop-job")],
    },
    {
      name: "The lease of a job that has ended is renewed",
      file: "worker/pipeline/attempts/attempt-store.ts",
      text: "\n        AND EXISTS (SELECT 1 FROM jobs WHERE n = attempts.job AND finishedAt IS NULL)\n",
      replacement: "\n",
      tests: [inWorker("pipeline/stop-job")],
    },
  ],
};

/** The output commit of a job is a function of its input commits and specification. */
export const OUTPUTS: Invariant = {
  id: "6",
  mutants: [
    {
      name: "What merged the same parts in another order is taken for their merge",
      file: "worker/pipeline/work/finish/plan-output.ts",
      text: 'parts.map(contentName).join("\\n")',
      replacement: 'parts.map(contentName).sort().join("\\n")',
      tests: [inWorker("pipeline/same-path", "two orders")],
    },
    {
      name: "A path whose datums wrote other bytes of the same number is not committed",
      file: "worker/pipeline/work/finish/plan-output.ts",
      text: "now.every(({ digest, size }, index) => digest === before[index]?.digest && size === before[index]?.size)",
      replacement: "now.every(({ size }, index) => size === before[index]?.size)",
      tests: [inWorker("pipeline/output"), inWorker("pipeline/same-path"), inWorker("pipeline/model")],
    },
    {
      name: "What a datum wrote that is gone stays in the output",
      file: "worker/pipeline/work/finish/collect.ts",
      text: "    for (const path of paths) changed.drop({ path, key });\n",
      replacement: "",
      tests: [inWorker("pipeline/output")],
    },
    {
      name: "Births are looked at from the oldest job on and not from the last commit",
      file: "worker/pipeline/work/finish/collect.ts",
      text: "const span = { from: this.#committed, to: this.#n };",
      replacement: "const span = { from: this.#committed + 1, to: this.#n };",
      tests: [inWorker("pipeline/output"), inWorker("pipeline/model")],
    },
    {
      name: "A datum that failed in the job has what it wrote for a later one",
      file: "worker/pipeline/work/finish/collect.ts",
      text: "if (this.#hasFailed(id)) return this.#pass();",
      replacement: "if (id === key) return this.#pass();",
      tests: [inWorker("pipeline/bad-datums")],
    },
  ],
};

/** A job that fails before its output commit changes no branch. */
export const FAILURES: Invariant = {
  id: "7",
  mutants: [
    {
      name: "A job whose output may be committed already is stopped",
      file: "worker/pipeline/work/jobs.ts",
      text: "  if (job.committing === 1) return false;\n",
      replacement: "",
      tests: [inWorker("pipeline/stop-job"), inWorker("pipeline/ends-job")],
    },
    {
      name: "A step of a job's end is done though the job has ended",
      file: "worker/pipeline/work/guards.ts",
      text: "return (tx) => (ledger.jobs.isUnfinished(job.n) ? work(tx) : undefined);",
      replacement: "return (tx) => (ledger.jobs.get(job.n) ? work(tx) : undefined);",
      tests: [inWorker("pipeline/stop-job"), inWorker("pipeline/ends-job")],
    },
    {
      name: "An earlier holder of the claim commits to the output branch",
      file: "worker/branch/staging/admission.ts",
      text: "const holds = held?.uid === uid && held.epoch === epoch;",
      replacement: "const holds = held?.uid === uid && held.epoch >= epoch;",
      tests: [inWorker("branch/claims")],
    },
    {
      name: "A job that asks again for its commit gets a second one",
      file: "worker/branch/write/commit.ts",
      text: "  if (made) return { ok: true, commit: made.id, modifiedAt: made.createdAt };\n  recordLineage",
      replacement: "  void made;\n  recordLineage",
      tests: [inWorker("branch/claims")],
    },
    {
      name: "What an earlier holder of the claim had staged is committed by the next one",
      file: "worker/branch/write/generation.ts",
      text: "  if (live) endOutputs(tx, ledger, { gen: live.gen, now: moment.now });\n  else beginGeneration",
      replacement: "  if (!live) beginGeneration",
      tests: [inWorker("branch/staged-outputs")],
    },
    {
      name: "A job commits though a datum of it failed",
      file: "worker/pipeline/work/finish/advance.ts",
      text: "  if (job.failed === 0 || isDecided) return undefined;",
      replacement: "  if (job.failed <= job.bad || isDecided) return undefined;",
      tests: [inWorker("pipeline/failures")],
    },
  ],
};
