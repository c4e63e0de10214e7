import type { PipelineApi, PlanAnswer } from "../../../../worker/pipeline/contract.ts";
import type { Random } from "../../platform/random.ts";
import type { JobsWorld } from "./clients.ts";

/** Somebody looks at a pipeline while it works: at its jobs, at one of them, and at one of its datums. What is wrong by itself is told. */
export async function lookAt(
  world: JobsWorld,
  { name, random }: { name: string; random: Random },
): Promise<string[]> {
  const pipeline = world.pipeline(name);
  const faults: string[] = [];
  const { jobs } = await pipeline.jobs.list({ limit: 1000 });
  const open = jobs.filter(({ finishedAt }) => finishedAt === null);
  const oldest = open.at(-1);
  for (const { id, waitsFor, reason } of open) {
    if (id === oldest?.id) continue;
    if (waitsFor !== "job" || reason !== `behind job ${oldest?.id}`)
      faults.push(`job ${id} waits for ${waitsFor}, ${reason}, and not for job ${oldest?.id}`);
  }
  for (const { id, datums } of jobs)
    if (datums.processed + datums.skipped + datums.failed > datums.total)
      faults.push(`job ${id} has more than all of its datums: ${JSON.stringify(datums)}`);
  if (jobs.length === 0) return faults;
  const { id } = random.chance(0.5) && oldest ? oldest : random.pick(jobs);
  await pipeline.jobs.unfinished(jobs.map((job) => job.id));
  const summary = await pipeline.jobs.summary(id);
  if (summary.ok)
    for (const { from, to } of summary.steps)
      if (to !== null && to < from) faults.push(`job ${id} has a step that ends early`);
  faults.push(...(await lookAtDatums(pipeline, { id, random })));
  await pipeline.logs.read({ job: id, after: null, waitMs: random.pick([null, 0, 3_000]) });
  const [repo = ""] = world.inputs;
  const event = world.recorder(repo).last;
  if (event) {
    const { generation, seq, id: commit } = event;
    await pipeline.lineage.fate({ repo, branch: "master", commit, at: { generation, seq } });
  }
  return faults.map((fault) => `pipeline ${name}: ${fault}`);
}

async function lookAtDatums(
  pipeline: PipelineApi,
  { id: job, random }: { id: string; random: Random },
): Promise<string[]> {
  const page = await pipeline.datums.list({ job, limit: 1 + random.below(10), why: true });
  if (!page.ok) return [];
  const faults = page.datums
    .filter(({ state, why = [] }) => state !== "killed" && why.length === 0)
    .map(({ id, state }) => `datum ${id} of job ${job} is ${state}, and nothing tells why`);
  if (page.datums.length === 0) return faults;
  const { id: datum } = random.pick(page.datums);
  await pipeline.datums.view({ job, datum });
  await pipeline.datums.outputs({ job, datum, limit: 3 });
  await pipeline.logs.read({
    job,
    datum: datum.slice(0, 8),
    after: null,
    waitMs: random.pick([null, 500]),
    tail: 1,
  });
  await pipeline.lineage.provenance({ job, path: `own/${datum.slice(0, 12)}`, after: null, limit: 5 });
  return faults;
}

/** Somebody asks what an update would come to: what it says of datums is so by the results that there are. */
export async function planAt(
  world: JobsWorld,
  { name, random }: { name: string; random: Random },
): Promise<string[]> {
  const pipeline = world.pipeline(name);
  const found = await pipeline.lifecycle.inspect();
  const { jobs } = await pipeline.jobs.list({ limit: 4 });
  if (!found.ok || jobs.length === 0) return [];
  const { id: job } = random.pick(jobs);
  const first = await pipeline.datums.list({ job, limit: 50 });
  const after = first.ok && first.next !== null && random.chance(0.7) ? first.next : undefined;
  const page = after === undefined ? first : await pipeline.datums.list({ job, after, limit: 50 });
  if (!page.ok) return [];
  const { spec } = found.pipeline;
  const [cmd] = spec.transform.cmd;
  const isCode = random.chance(0.4);
  const isGlob = random.chance(0.3);
  const inputs = spec.inputs.map((input) => (isGlob ? { ...input, glob: "/none/*" } : input));
  const next = { ...spec, inputs, ...(isCode && { transform: { ...spec.transform, cmd: [`${cmd}!`] } }) };
  const ids = [...page.datums.map(({ id }) => id), "0".repeat(64)];
  const paths = [...page.datums.map((datum) => datum.inputs.map(({ path }) => path)), ["none"]];
  const reprocess = random.chance(0.2);
  const plan = await pipeline.specification.plan({
    spec: next,
    reprocess,
    ids,
    ...(random.chance(0.7) && { paths }),
  });
  if (!plan.ok) return [];
  const since = await pipeline.lifecycle.inspect();
  const { version, createdAt } = found.pipeline;
  // Somebody else updated it meanwhile.
  if (!since.ok || since.pipeline.version !== version || since.pipeline.createdAt !== createdAt) return [];
  const faults = [...contradictions(plan, ids)];
  const runsAll = isCode || reprocess;
  if (plan.runsAll !== runsAll) faults.push(`it runs ${plan.runsAll ? "all" : "not all"}`);
  if (plan.changes.includes("transform.cmd") !== isCode) faults.push(`it changes ${plan.changes}`);
  return faults.map((fault) => `an update of ${name} that was asked about: ${fault}`);
}

function* contradictions(
  { kept, why: reasons, runsAll }: Extract<PlanAnswer, { ok: true }>,
  ids: readonly string[],
): Generator<string> {
  for (const [index, id] of ids.entries()) {
    const why = reasons?.[index];
    if (kept[index] && runsAll) yield `it runs all, and would keep ${id}`;
    if (kept[index] && why) yield `it would keep ${id}, and run it for ${why.reason}`;
    if (!kept[index] && why === null) yield `it would run ${id}, and nothing tells why`;
  }
  if (kept.at(-1)) yield "it would keep a datum that never was";
}
