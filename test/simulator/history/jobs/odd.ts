import type { PipelineApi } from "../../../../worker/pipeline/contract.ts";
import type { Random } from "../../platform/random.ts";

/** What is asked that comes to nothing, and what it may come to: an answer, or a reason. */
type Question = readonly [what: string, asked: Promise<unknown>, ...may: unknown[]];

const NONE = "no-such-job";
const GONE = "no-such-pipeline";
/** A pipeline that nobody ever makes. */
export const NEVER = "never";
const NOWHERE = { repo: "nowhere", branch: "master" };

/** Somebody asks a pipeline, which may not be there, for what is not there. Answers what is wrong with the answers. */
export async function askForNothing(
  pipeline: PipelineApi,
  { name, random }: { name: string; random: Random },
): Promise<string[]> {
  const faults: string[] = [];
  const { jobs } = await pipeline.jobs.list({ limit: 5 });
  const job = jobs.length > 0 ? random.pick(jobs).id : "none";
  for (const [what, asked, ...may] of questions(pipeline, { job, name })) {
    const answer = await asked;
    if (!may.some((each) => isAnswer(answer, each)))
      faults.push(`pipeline ${name}: ${what} came to ${JSON.stringify(answer).slice(0, 200)}`);
  }
  return faults;
}

function isAnswer(answer: unknown, may: unknown): boolean {
  if (typeof may === "string") return (answer as { reason?: string } | null)?.reason === may;
  return JSON.stringify(answer) === JSON.stringify(may);
}

function* questions(
  pipeline: PipelineApi,
  { job, name }: { job: string; name: string },
): Generator<Question> {
  const { jobs, datums, logs, specification, lineage, leases, wakeUps } = pipeline;
  const page = { limit: 3 };
  if (name === NEVER) {
    const call = { node: "n1", worker: "nobody", max: 1, waitMs: 0 };
    yield ["to work for no pipeline", leases.take(call), GONE];
    yield [
      "to plan for no pipeline",
      specification.plan({ spec: {} as never, reprocess: false, ids: [] }),
      GONE,
    ];
    yield ["to update no pipeline", specification.update({ spec: {} as never, reprocess: false }), GONE];
    yield ["to look at no pipeline", pipeline.lifecycle.inspect(), GONE];
    yield ["to start no pipeline", pipeline.lifecycle.start(), GONE];
    yield ["to delete no pipeline", pipeline.lifecycle.destroy({ keepOutput: false }), GONE];
    yield ["what became of a commit", lineage.fate({ ...NOWHERE, commit: "none", at: null }), GONE];
    yield ["what was computed", lineage.outputsOf({ ...NOWHERE, files: [] }), { outputs: [], next: null }];
    yield ["the jobs of no pipeline", jobs.list(page), { jobs: [], next: null }];
    yield ["how no pipeline stands", pipeline.admin.loops(), null];
    yield ["the room of no pipeline", pipeline.admin.space(), null];
    yield ["to tell of no pipeline", pipeline.admin.announce(), GONE];
    yield ["where no output goes", leases.output(), null];
  }
  yield ["a job that never was", jobs.view("none"), null];
  yield ["to wait for no job", jobs.wait({ id: "none", waitMs: 5 }), null];
  yield ["what is not ended of none", jobs.unfinished(["none"]), []];
  yield ["the summary of no job", jobs.summary("none"), NONE];
  yield ["to stop no job", jobs.stop("none"), NONE];
  const notNow = [GONE, "stopped", "unavailable", "job-running", "no-data"];
  yield ["to try no job again", jobs.retry({ job: "none", every: false }), NONE, ...notNow];
  yield ["the datums of no job", datums.list({ job: "none", ...page }), NONE];
  for (const after of ["x", "r=%", "r%"])
    yield [`datums after ${after}`, datums.list({ job, after, ...page }), "no-such-place", NONE];
  const datum = "zz";
  yield ["no datum", datums.view({ job, datum }), "no-such-datum", NONE];
  yield ["the files of no datum", datums.outputs({ job, datum, ...page }), "no-such-datum", NONE];
  yield ["the log of no datum", logs.read({ job, datum, after: null, waitMs: null }), "no-such-datum", NONE];
  yield ["a log after no place", logs.read({ job, after: "x", waitMs: null }), "no-such-place", NONE];
  yield ["version 0", specification.version(0), "no-such-version", GONE];
  yield ["version 9999", specification.version(9999), "no-such-version", GONE];
  yield [
    "no versions",
    specification.versions({ before: 1, limit: 2 }),
    { ok: true, versions: [], next: null },
    GONE,
  ];
  const path = "never written";
  const made = { path, after: null, ...page };
  const nothing = { ok: true, datums: [], next: null };
  yield ["what made nothing", lineage.provenance({ job, ...made }), nothing, NONE, "not-yet"];
  yield ["what made it in no job", lineage.provenance({ job: "none", ...made }), NONE];
  yield ["what made errors", lineage.provenance({ job, branch: "errors", ...made }), nothing, NONE];
  const lost = { lost: ["none"] };
  const worker = "nobody";
  yield ["to renew no lease", leases.renew({ worker, leases: ["none"], trouble: "none" }), lost];
  yield ["to leave without a lease", leases.renew({ worker, leases: [], leaving: true }), { lost: [] }];
  const outcomes = [{ lease: "none", state: "returned" }] as const;
  yield ["to end no lease", leases.finish({ worker, outcomes }), lost];
  const entries = [{ lease: "none", seq: 0, dropped: 1, lines: [] }];
  yield ["to print under no lease", logs.add({ worker, entries }), lost];
  yield ["to leave no place", leases.vacate({ worker, visit: "none" }), undefined];
  yield ["news of an earlier life", wakeUps.ring({ uid: "none" }), undefined];
  yield ["news of its output", wakeUps.outputKept({ uid: "none" }), undefined];
  yield ["uploads of an earlier life", wakeUps.named({ uid: "none", uploads: ["none"] }), { named: [] }];
}
