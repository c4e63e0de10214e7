import { env } from "cloudflare:test";
import type { Job } from "../../../../protocol/pipelines.ts";
import { openCatalogue } from "../../../../worker/catalogue/catalogue.ts";
import { allJobs, branchOf, contentOf, master, pipelineOf, query, textOf } from "../support.ts";
import type { NaiveJob, NaivePipeline } from "./naive-pipeline.ts";
import { datumsOf, endOf, failedOf, type MatchedJob, merged, type NaiveEnd } from "./naive-results.ts";
import type { Outside } from "./outside.ts";
import type { RunLog } from "./run-log.ts";

/** Holds a pipeline that rests to the model, and to its own rows. */
export async function check(
  name: string,
  { model, log, outside }: { model: NaivePipeline; log: RunLog; outside: Outside },
): Promise<void> {
  const jobs = await allJobs(pipelineOf(name));
  const matched = jobs.map(({ id }, index): MatchedJob => ({ id, naive: model.jobs[index] as NaiveJob }));
  for (const [index, { naive }] of matched.entries()) {
    const job = jobs[index] as Job;
    if (naive.checked) continue;
    same(`the inputs of job ${index}`, {
      real: job.inputs.map((input) => [input.name, input.repo, input.commit]),
      model: naive.inputs.map((input) => [input.name, input.repo, input.commit]),
    });
    if (naive.killed) await checkKilled(name, { job, naive, log });
    else await checkEnd(name, { job, end: endOf(matched, { index, log }), index });
    naive.checked = true;
  }
  await checkCommits(name, jobs);
  await checkErrors(name, { jobs, matched, log });
  await checkRows(name, model);
  const last = matched.at(-1);
  if (!last || last.naive.killed || model.spec.store === null) return;
  const { state, files } = endOf(matched, { index: matched.length - 1, log });
  if (state !== "success" || !files) return;
  same("the external store", {
    real: outside.files(model.spec.store),
    model: files.filter(([path]) => !path.endsWith("/")),
  });
}

/**
 * Of a killed job only the number of datums is determined, and that only if they were worked out: what it got done
 * before it was killed is chance. Killed while it pushed, it has its commit.
 */
async function checkKilled(
  name: string,
  { job, naive, log }: { job: Job; naive: NaiveJob; log: RunLog },
): Promise<void> {
  const { state, finishedAt, outputCommit, datums } = job;
  same(`the killed job ${job.id}`, { real: [state, finishedAt !== null], model: ["killed", true] });
  const expected = datumsOf(naive);
  if (naive.killed === "by itself") same(`total of ${job.id}`, { real: datums.total, model: expected.size });
  if (outputCommit === null) return;
  const failed = failedOf({ naive, id: job.id }, log).map(({ id }) => id);
  const good = [...expected.values()].filter(({ id }) => !failed.includes(id));
  await checkFiles(name, { commit: outputCommit, files: merged(good, naive.cmd) });
}

/** The errors branch tells of what was bad in the last job that came to telling. */
async function checkErrors(
  name: string,
  { jobs, matched, log }: { jobs: readonly Job[]; matched: readonly MatchedJob[]; log: RunLog },
): Promise<void> {
  const tells = matched.flatMap((each, index): (readonly string[])[] => {
    if (!each.naive.killed) {
      const { told } = endOf(matched, { index, log });
      return told ? [told] : [];
    }
    const isCommitted = jobs[index]?.outputCommit !== null;
    return isCommitted ? [failedOf(each, log).map(({ key }) => key)] : [];
  });
  const errors = { repo: name, branch: "errors" };
  const listed = await branchOf(errors).files.list({ prefix: "", limit: 1000 });
  const entries = listed.ok ? listed.entries : [];
  const told = await Promise.all(
    entries.map(async (entry) => JSON.parse(entry.kind === "file" ? await textOf(errors, entry) : "")),
  );
  const keys = told.map(({ inputs }: { inputs: { path: string }[] }) =>
    inputs
      .map(({ path }) => path)
      .reverse()
      .join("\u0001"),
  );
  same("what is told of bad datums", { real: keys.sort(), model: [...(tells.at(-1) ?? [])].sort() });
}

async function checkEnd(
  name: string,
  { job, end, index }: { job: Job; end: NaiveEnd; index: number },
): Promise<void> {
  same(`job ${index}`, { real: [job.state, job.datums], model: [end.state, end.counts] });
  same(`job ${index} has a commit`, { real: job.outputCommit !== null, model: end.files !== null });
  if (end.files && job.outputCommit !== null)
    await checkFiles(name, { commit: job.outputCommit, files: end.files });
}

async function checkFiles(
  name: string,
  { commit, files }: { commit: string; files: NonNullable<NaiveEnd["files"]> },
): Promise<void> {
  const listed = await branchOf({ repo: name, branch: "master" }).files.list({
    prefix: "",
    limit: 1000,
    commit,
  });
  if (!listed.ok) throw new Error(`the output ${commit}: ${listed.reason}`);
  same(`the output ${commit}`, {
    real: listed.entries.map((entry) => [entry.path, entry.kind === "file" ? entry.digest : ""]),
    model: files.map(([path, text]) => [path, path.endsWith("/") ? "" : contentOf(text).digest]),
  });
}

/** The output branch has the commits of the jobs that succeeded, in their order, and no other. */
async function checkCommits(name: string, jobs: readonly Job[]): Promise<void> {
  const { events } = await master(name).feed.read({ cursor: { generation: 0, seq: 0 }, limit: 10_000 });
  same("the commits of the output branch", {
    real: events.map(({ id }) => id),
    model: jobs.flatMap(({ outputCommit }) => outputCommit ?? []),
  });
}

/** What must not be there while a pipeline rests. */
const LEFT_OVER = [
  "SELECT 'touched' AS what, job, path FROM touched",
  // What a job leaves that failed in its end is cleared when the next one ends.
  `SELECT 'task' AS what, job, t.id FROM tasks AS t JOIN jobs ON n = job WHERE jobs.state = 'success'`,
  `SELECT 'attempt ' || state AS what, job, id FROM attempts WHERE finishedAt IS NULL`,
  `SELECT 'job ' || state AS what, n, id FROM jobs WHERE finishedAt IS NULL OR filled = 0 OR reaping = 1`,
  `SELECT 'ending' AS what, step FROM ending JOIN jobs ON n = job WHERE state = 'success'`,
  `SELECT 'counters' AS what, n, id FROM jobs WHERE state <> 'killed' AND (open <> 0
     OR processed <> (SELECT count(*) FROM attempts WHERE job = jobs.n AND state = 'success')
     OR failed <> (SELECT count(*) FROM attempts WHERE job = jobs.n AND state = 'failed')
     OR total <> processed + skipped + failed)`,
  `SELECT 'error change' AS what, id FROM error_changes
   WHERE (SELECT state FROM jobs ORDER BY n DESC LIMIT 1) = 'success'`,
  "SELECT 'twice alive' AS what, key FROM datums WHERE died IS NULL GROUP BY key HAVING count(*) > 1",
];

/** Nothing is left over, the counters are what the rows say, and the set of datums is that of the newest job. */
async function checkRows(name: string, model: NaivePipeline): Promise<void> {
  const found = await Promise.all(LEFT_OVER.map((sql) => query<{ what: string }>(name, sql)));
  const leftOver = found.flat();
  same("what is left over", { real: leftOver, model: [] });
  const newest = model.jobs.at(-1);
  // A job that was killed before its turn may have been dropped before its datums were known.
  if (!newest || newest.killed) return;
  const [row] = await query<{ alive: number }>(name, "SELECT alive FROM pipeline");
  const keys = await query<{ key: string }>(name, "SELECT key FROM datums WHERE died IS NULL ORDER BY key");
  const expected = [...datumsOf(newest).values()].map(({ key }) => key);
  same("the set of datums", { real: keys.map(({ key }) => key), model: expected });
  same("the number of datums", { real: row?.alive, model: expected.length });
}

/** The catalogue has every job as it ended; it is told a moment later. */
export async function isTold(name: string): Promise<boolean> {
  const jobs = await allJobs(pipelineOf(name));
  const told = await openCatalogue(env.DB).jobs.list({ pipeline: name, limit: 1000 });
  return JSON.stringify(told.reverse()) === JSON.stringify(jobs);
}

function same(what: string, { real, model }: { real: unknown; model: unknown }): void {
  const [is, should] = [JSON.stringify(real), JSON.stringify(model)];
  if (is !== should) throw new Error(`${what} is not as it should be\n  is:     ${is}\n  should: ${should}`);
}
