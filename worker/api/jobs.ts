import { decodeTime, isValid } from "ulid";
import { z } from "zod";
import { Name } from "../../protocol/names.ts";
import {
  type DatumDetail,
  type DatumOutputPage,
  type DatumPage,
  type Job,
  type JobDatum,
  type JobPage,
  type JobRetry,
  type JobSummary,
  ListedState,
  listedState,
  MAX_LIST_OUTPUTS,
  MAX_SEARCHED_JOBS,
} from "../../protocol/pipelines.ts";
import type { Context } from "../app.ts";
import { type ListJobs, UNDER_WAY } from "../catalogue/jobs.ts";
import type { DatumRefused, DatumSummary } from "../pipeline/contract.ts";
import { conditionalJson } from "./answer/conditional.ts";
import { type ApiError, apiError } from "./answer/errors.ts";
import { retryError, stopError } from "./answer/failures.ts";
import { withKept } from "./commits/log.ts";
import { type ApiRequest, mayRead, readQuery, waitMsFor } from "./request/api-request.ts";
import { invalidField } from "./request/issues.ts";

const MAX_JOBS = 1000;
/** Characters of a text that is looked for. */
const MAX_SEARCH = 200;
/** So many jobs one page looks through for a text. */
const SEARCHED_AT_ONCE = 2000;
/** The last time that an id can begin with, in the year 10889. */
const MAX_ULID_TIME = 2 ** 48 - 1;
/** How long one request waits for the end of a job. */
const MAX_WAIT_SECONDS = 20;

/** When a job was made, as its id has it. */
const Time = z.coerce.number().int().min(0).max(MAX_ULID_TIME);

const ListQuery = z.strictObject({
  pipeline: Name.optional(),
  state: ListedState.optional(),
  since: Time.optional(),
  before: Time.optional(),
  search: z.string().min(1).max(MAX_SEARCH).optional(),
  limit: z.coerce.number().int().min(1).max(MAX_JOBS).default(100),
  after: z.string().optional(),
});
type ListQuery = z.infer<typeof ListQuery>;

/** The repo of the pipeline whose jobs are asked for; null: the jobs of all pipelines. */
export function jobsRepo(asked: ApiRequest): readonly (string | null)[] {
  return [readQuery(asked, ListQuery).pipeline ?? null];
}

/**
 * `GET /jobs`: newest first, of the pipelines whose repo the key may read. The jobs of one pipeline, whatever their state, come from its
 * object, up to the moment. All others come from the catalogue, in one query a page.
 */
export async function listJobs(asked: ApiRequest): Promise<Response> {
  const query = readQuery(asked, ListQuery);
  const { pipeline, state, since, before, search, limit, after } = query;
  if (pipeline !== undefined && (state ?? since ?? before ?? search) === undefined) {
    const own = await asked.context
      .pipeline(pipeline)
      .jobs.list({ limit, ...(after !== undefined && { after }) });
    return await conditionalJson(asked.request, { body: own satisfies JobPage });
  }
  const { found, next, looked } = await pageOf(asked, query);
  const live = await unfinishedJobs(asked.context, found);
  const shown = found.map((job) => live.get(job.id) ?? job);
  const body: JobPage = {
    // The catalogue finds by its own state, in which it has those that wait too. What is shown may be another one by now.
    jobs: state === undefined ? shown : shown.filter((job) => listedState(job) === state),
    next,
    ...(looked && { looked }),
  };
  return await conditionalJson(asked.request, { body });
}

interface Found extends Pick<JobPage, "next" | "looked"> {
  readonly found: readonly Job[];
}

/** A page of the catalogue. Whether a job waits its pipeline alone knows: behind the last that can be asked, the next page begins. */
async function pageOf({ context, caller }: ApiRequest, query: ListQuery): Promise<Found> {
  const { state, search, limit } = query;
  const states = state === undefined ? undefined : state === "waiting" ? UNDER_WAY : [state];
  const wanted = { ...query, states, pipelines: caller.scope.repos ?? undefined, limit: limit + 1 };
  if (search !== undefined) return await searchedPage(context, { ...wanted, limit, search });
  const jobs = await context.catalogue.jobs.list(wanted);
  const found = state === undefined ? jobs.slice(0, limit) : ofAskedPipelines(jobs.slice(0, limit));
  return { found, next: jobs.length > found.length ? (found.at(-1)?.id ?? null) : null };
}

/**
 * A page of those that have a text. It looks through SEARCHED_AT_ONCE jobs, and its cursor says through how many all pages did, up to
 * MAX_SEARCHED_JOBS. A key for some repos has its jobs read pipeline by pipeline, so that it looks through no others, and
 * through fewer at once if there are many.
 */
async function searchedPage(
  { catalogue }: Pick<Context, "catalogue">,
  { after, limit, ...query }: ListJobs & { readonly search: string },
): Promise<Found> {
  const [, from, before = "0"] = /^(.*)\.([0-9]{1,5})$/.exec(after ?? "") ?? [undefined, after];
  const left = Math.max(0, MAX_SEARCHED_JOBS - Number(before));
  const pipelines = query.pipeline === undefined ? (query.pipelines?.length ?? 1) : 1;
  const scan = Math.min(left, Math.max(limit, Math.floor(SEARCHED_AT_ONCE / Math.max(1, pipelines))));
  const { jobs, looked, last } = await catalogue.jobs.search({ ...query, after: from, limit, scan });
  const found = ofAskedPipelines(jobs);
  // A page that ends early counts what it shows: what is counted too low only lets the search go on a little longer.
  const isCut = found.length < jobs.length;
  const count = Number(before) + (isCut ? found.length : looked);
  const end = isCut ? (found.at(-1)?.id ?? null) : last;
  const isOver = count >= MAX_SEARCHED_JOBS || (jobs.length < limit && looked < scan);
  const since = end !== null && isValid(end) ? decodeTime(end) : null;
  return {
    found,
    next: isOver || end === null ? null : `${end}.${count}`,
    looked: { jobs: count, since },
  };
}

/** The first jobs, as far as those that have not ended are of at most MAX_ASKED pipelines. */
function ofAskedPipelines(jobs: readonly Job[]): readonly Job[] {
  const pipelines = new Set<string>();
  const end = jobs.findIndex(
    ({ pipeline, finishedAt }) => finishedAt === null && pipelines.add(pipeline).size > MAX_ASKED,
  );
  return end < 0 ? jobs : jobs.slice(0, end);
}

/** For one list, at most so many pipelines are asked why their jobs wait. */
const MAX_ASKED = 50;

/**
 * Jobs that have not ended, by id, as their pipelines know them now. The catalogue does not know why a job waits, because that
 * changes without the job, and its counts are a moment old: a line with both would contradict itself, so it takes all of a job
 * from one of the two. A job is missing if it has ended, or if its pipeline can't answer or is beyond MAX_ASKED.
 */
export async function unfinishedJobs(
  context: Pick<Context, "pipeline">,
  jobs: readonly Pick<Job, "id" | "pipeline" | "finishedAt">[],
): Promise<ReadonlyMap<string, Job>> {
  const waiting = jobs.filter(({ finishedAt }) => finishedAt === null);
  const pipelines = [...new Set(waiting.map(({ pipeline }) => pipeline))].slice(0, MAX_ASKED);
  const answers = await Promise.allSettled(
    pipelines.map((name) => {
      const ids = waiting.filter(({ pipeline }) => pipeline === name).map(({ id }) => id);
      return context.pipeline(name).jobs.unfinished(ids);
    }),
  );
  const found = answers.flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
  return new Map(found.map((job) => [job.id, job]));
}

const InspectQuery = z.strictObject({
  /** Seconds to wait for the end of the job. */
  wait: z.coerce.number().min(0).max(MAX_WAIT_SECONDS).default(0),
});

/** The repo of the pipeline of the job in the path. */
export async function jobRepo(asked: ApiRequest): Promise<readonly string[]> {
  return [(await jobInPath(asked)).name];
}

/** The repos that the job in the path reads. */
export async function jobInputs(asked: ApiRequest): Promise<readonly string[]> {
  const { id, pipeline } = await jobInPath(asked);
  const job = await pipeline.jobs.view(id);
  if (!job) throw noSuchJob(id);
  return job.inputs.map(({ repo }) => repo);
}

/** `GET /jobs/{id}` */
export async function inspectJob(asked: ApiRequest): Promise<Response> {
  const { wait } = readQuery(asked, InspectQuery);
  const { id, pipeline } = await jobInPath(asked);
  const there: Job | null = await pipeline.jobs.wait({ id, waitMs: waitMsFor(asked, wait * 1000) });
  // Of a deleted pipeline whose output was kept, the catalogue still knows the jobs.
  const job = there ?? (await asked.context.catalogue.jobs.find(id));
  if (!job) throw noSuchJob(id);
  return Response.json((await withGone(asked.context, job)) satisfies Job);
}

/** A job that has ended says which of the commits that it read and made are kept no more. */
async function withGone(context: Context, job: Job): Promise<Job> {
  const { inputs, output, outputCommit } = job;
  if (job.finishedAt === null) return job;
  const [made = [], read] = await Promise.all([
    output && withKept(context, [{ ...output, commit: outputCommit }]),
    withKept(context, inputs),
  ]);
  const isGone = made.some(({ kept }) => kept === false);
  return {
    ...job,
    inputs: read,
    ...(output && { output: { ...output, ...(isGone && { kept: false as const }) } }),
  };
}

const NOTHING_KEPT: { readonly ok: false } & DatumSummary = {
  ...{ ok: false, steps: [], durations: null, slowest: [], failures: [], failed: [] },
  ...{ running: { count: 0, datums: [] }, lastGood: null },
};

/** `GET /jobs/{id}/summary`: 304 to who has it already. */
export async function summarizeJob(asked: ApiRequest): Promise<Response> {
  const { id, pipeline } = await jobInPath(asked);
  const [job, summary] = await Promise.all([pipeline.jobs.view(id), pipeline.jobs.summary(id)]);
  const shown = job ?? (await asked.context.catalogue.jobs.find(id));
  if (!shown) throw noSuchJob(id);
  // Of a job that the catalogue alone knows, nothing is known of its datums; an object of an earlier release tells less.
  const { ok: _, ...datums } = { ...NOTHING_KEPT, ...(summary.ok && summary) };
  const body: JobSummary = { job: await withGone(asked.context, shown), ...datums };
  return await conditionalJson(asked.request, { body, fleeting: {} });
}

/** `POST /jobs/{id}/stop`: the job as it then is. */
export async function stopJob(asked: ApiRequest): Promise<Response> {
  const { id, pipeline } = await jobInPath(asked);
  const stopped = await pipeline.jobs.stop(id);
  if (stopped.ok) return Response.json(stopped.job);
  if (stopped.reason === "no-such-job") throw noSuchJob(id);
  throw stopError(stopped.reason, id);
}

const RetryQuery = z.strictObject({
  /** What runs again: what failed, or every datum. */
  datums: z.enum(["failed", "all"], { error: "must be 'failed' or 'all'" }).default("failed"),
});

/** `POST /jobs/{id}/retry`: makes one job for what the inputs have now, and answers with it. */
export async function retryJob(asked: ApiRequest): Promise<Response> {
  const { datums } = readQuery(asked, RetryQuery);
  const { id, name, pipeline } = await jobInPath(asked);
  const retried = await pipeline.jobs.retry({ job: id, every: datums === "all", key: asked.caller.keyId });
  if (retried.ok) {
    const { job, newest } = retried;
    return Response.json({ job, newest } satisfies JobRetry, { status: 201 });
  }
  if (retried.reason === "no-such-job") throw noSuchJob(id);
  throw retryError(retried, name);
}

/** The repos that the pipeline of the job in the path reads now. */
export async function retryInputs(asked: ApiRequest): Promise<readonly string[]> {
  const { id, pipeline } = await jobInPath(asked);
  const found = await pipeline.lifecycle.inspect();
  if (!found.ok) throw noSuchJob(id);
  return found.pipeline.spec.inputs.map(({ repo }) => repo.name);
}

const MAX_DATUMS = 1000;

const DatumsQuery = z.strictObject({
  /** With the reasons why each was run, or was not. A page is then shorter. */
  why: z.enum(["true", "false"], { error: "must be true or false" }).default("false"),
  limit: z.coerce.number().int().min(1).max(MAX_DATUMS).default(100),
  after: z.string().optional(),
});

/** `GET /jobs/{id}/datums`: first the datums that it ran or will run, then those that it skipped. */
export async function listDatums(asked: ApiRequest): Promise<Response> {
  const { why, limit, after } = readQuery(asked, DatumsQuery);
  const { id, pipeline } = await jobInPath(asked);
  const more = { ...(after !== undefined && { after }), ...(why === "true" && { why: true as const }) };
  const page = await pipeline.datums.list({ job: id, limit, ...more });
  if (page.ok) {
    const datums = why === "true" ? await shownWhy(asked, page.datums) : page.datums;
    return Response.json({ datums, next: page.next } satisfies DatumPage);
  }
  if (page.reason === "no-such-job") throw noSuchJob(id);
  throw invalidField("after", "must be the 'next' of an earlier page");
}

/** What changed in the inputs of a job is shown only to keys that may read all of them. */
async function shownWhy(asked: ApiRequest, datums: readonly JobDatum[]): Promise<JobDatum[]> {
  const { scope } = asked.caller;
  if (scope.repos === null) return [...datums];
  const { id, pipeline } = await jobInPath(asked);
  const job = await pipeline.jobs.view(id);
  const readsAll = job?.inputs.every(({ repo }) => mayRead(asked, repo)) ?? false;
  if (readsAll) return [...datums];
  return datums.map((datum) => ({ ...datum, ...(datum.why && { why: datum.why.map(withoutChanges) }) }));
}

function withoutChanges(why: NonNullable<JobDatum["why"]>[number]): NonNullable<JobDatum["why"]>[number] {
  return why.reason === "changed" ? { reason: "changed", changes: [], more: true, hidden: true } : why;
}

/**
 * `GET /jobs/{job}/datums/{datum}`: what it takes to run a datum again. `datum` is the beginning of its id. It tells the
 * command with its variables, so it is for keys that may read what the job reads.
 */
export async function inspectDatum(asked: ApiRequest): Promise<Response> {
  const call = datumInPath(asked);
  const { pipeline } = await jobInPath(asked);
  const found = await pipeline.datums.view(call);
  if (!found.ok) throw datumRefused(found.reason, call);
  const { ok: _, ...detail } = found;
  return Response.json(detail satisfies DatumDetail);
}

const OutputsQuery = z.strictObject({
  after: z.string().optional(),
  limit: z.coerce.number().int().min(1).max(MAX_LIST_OUTPUTS).default(MAX_LIST_OUTPUTS),
});

/** `GET /jobs/{job}/datums/{datum}/outputs`: the files that the job has of the datum. */
export async function listDatumOutputs(asked: ApiRequest): Promise<Response> {
  const { after, limit } = readQuery(asked, OutputsQuery);
  const call = datumInPath(asked);
  const { pipeline } = await jobInPath(asked);
  const page = await pipeline.datums.outputs({ ...call, limit, ...(after !== undefined && { after }) });
  if (page.ok) return Response.json({ outputs: page.outputs, next: page.next } satisfies DatumOutputPage);
  if (page.reason === "no-such-place") throw invalidField("after", "must be the 'next' of an earlier page");
  throw datumRefused(page.reason, call);
}

interface CalledDatum {
  readonly job: string;
  readonly datum: string;
}

const DATUM_ID_START = /^[0-9a-f]{1,64}$/;

function datumInPath(asked: ApiRequest): CalledDatum {
  const { job = "", datum = "" } = asked.params;
  if (DATUM_ID_START.test(datum)) return { job, datum };
  throw apiError.InvalidRequest(
    `'${datum}' can't be a datum: take the id that 'sluice job datums' shows, 64 hex digits, or how it begins.`,
  );
}

function datumRefused(reason: DatumRefused["reason"], { job, datum }: CalledDatum): ApiError {
  switch (reason) {
    case "no-such-job":
      return noSuchJob(job);
    case "no-such-datum":
      return apiError.NotFound(
        `The job '${job}' has no datum '${datum}', or keeps it no more: 'sluice job datums ${job}' shows those there are.`,
      );
    case "several-datums":
      return apiError.InvalidRequest(
        `The ids of several datums of the job '${job}' begin with '${datum}': give more of it.`,
      );
    case "input-gone":
      return apiError.NotKept(
        `What the datum '${datum}' of the job '${job}' read is not known any more: an input had no commit then, or it was erased since.`,
      );
    case "input-not-kept":
      return apiError.NotKept(
        `The datum '${datum}' of the job '${job}' can't run again: a commit that it read is kept no more, as 'sluice branch keep' was told. 'sluice job inspect ${job}' shows which.`,
      );
  }
}

/** The job in the path, and its pipeline. */
export async function jobInPath({ params, context }: ApiRequest) {
  const { job: id = "" } = params;
  const name = await context.catalogue.jobs.pipelineOf(id);
  if (name === null) throw noSuchJob(id);
  return { id, name, pipeline: context.pipeline(name) };
}

export function noSuchJob(id: string): ApiError {
  return apiError.NoSuchJob(
    `There is no job '${id}', or it is kept no more: 'sluice job list' shows those there are.`,
  );
}
