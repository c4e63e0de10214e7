import { z } from "zod";
import { Name } from "../../protocol/names.ts";
import { type DatumPage, type Job, type JobPage, JobState, type LogLine } from "../../protocol/pipelines.ts";
import type { PipelineApi } from "../pipeline/contract.ts";
import { type ApiRequest, noQuery, readQuery } from "./api-request.ts";
import { ApiError } from "./errors.ts";
import { stopFailure } from "./failures.ts";

const MAX_JOBS = 1000;
/** Longest time that a job is waited for in one request. */
const MAX_WAIT_SECONDS = 20;

const ListQuery = z.strictObject({
  pipeline: Name.optional(),
  state: JobState.optional(),
  limit: z.coerce.number().int().min(1).max(MAX_JOBS).default(100),
  after: z.string().optional(),
});

/** The repo of the pipeline whose jobs are asked for; null: those of all pipelines. */
export function jobsRepo(asked: ApiRequest): readonly (string | null)[] {
  return [readQuery(asked, ListQuery).pipeline ?? null];
}

/**
 * `GET /jobs`: newest first, of those pipelines whose repo the key may read. Of one pipeline: from its object, and so
 * up to the moment; else from the catalogue.
 */
export async function listJobs(asked: ApiRequest): Promise<Response> {
  const { pipeline, state, limit, after } = readQuery(asked, ListQuery);
  const before = after === undefined ? {} : { after };
  if (pipeline !== undefined && state === undefined) {
    return Response.json(
      (await asked.context.pipeline(pipeline).jobs({ limit, ...before })) satisfies JobPage,
    );
  }
  const { repos } = asked.caller.scope;
  const query = {
    ...(repos !== null && { pipelines: repos }),
    ...(pipeline !== undefined && { pipeline }),
    ...(state !== undefined && { state }),
    ...before,
  };
  const jobs = await asked.context.catalogue.jobs.list({ ...query, limit: limit + 1 });
  const page = jobs.slice(0, limit);
  return Response.json({
    jobs: page,
    next: jobs.length > limit ? (page.at(-1)?.id ?? null) : null,
  } satisfies JobPage);
}

const InspectQuery = z.strictObject({
  /** Seconds to wait for the end of the job. */
  wait: z.coerce.number().min(0).max(MAX_WAIT_SECONDS).default(0),
});

/** The repo of the pipeline of the job in the path. */
export async function jobRepo(asked: ApiRequest): Promise<readonly string[]> {
  return [await pipelineOf(asked)];
}

/** `GET /jobs/{id}` */
export async function inspectJob(asked: ApiRequest): Promise<Response> {
  const { wait } = readQuery(asked, InspectQuery);
  const id = jobParam(asked);
  const pipeline = asked.context.pipeline(await pipelineOf(asked));
  const job: Job | null = await pipeline.waitJob({ id, waitMs: wait * 1000 });
  if (!job) throw noSuchJob(id);
  return Response.json(job);
}

/** `POST /jobs/{id}/stop`: the job as it then is. */
export async function stopJob(asked: ApiRequest): Promise<Response> {
  noQuery(asked);
  const id = jobParam(asked);
  const stopped = await asked.context.pipeline(await pipelineOf(asked)).stopJob(id);
  if (stopped.ok) return Response.json(stopped.job);
  if (stopped.reason === "no-such-job") throw noSuchJob(id);
  throw stopFailure(stopped.reason, id);
}

const MAX_DATUMS = 1000;

const DatumsQuery = z.strictObject({
  limit: z.coerce.number().int().min(1).max(MAX_DATUMS).default(100),
  after: z.string().optional(),
});

/** `GET /jobs/{id}/datums`: first those that it ran or is to run, then those that it skipped. */
export async function listDatums(asked: ApiRequest): Promise<Response> {
  const { limit, after } = readQuery(asked, DatumsQuery);
  const id = jobParam(asked);
  const pipeline = asked.context.pipeline(await pipelineOf(asked));
  const page = await pipeline.datums({ job: id, limit, ...(after !== undefined && { after }) });
  if (page.ok) return Response.json({ datums: page.datums, next: page.next } satisfies DatumPage);
  if (page.reason === "no-such-job") throw noSuchJob(id);
  const message = "must be the 'next' of an earlier page";
  throw new ApiError("InvalidRequest", "The request has a problem.", {
    issues: [{ path: "after", message }],
  });
}

const LogsQuery = z.strictObject({ datum: z.string().optional() });

/** `GET /jobs/{id}/logs?datum=`: a line of JSON for each line that a failed datum wrote last, or the datum that is named. */
export async function readLogs(asked: ApiRequest): Promise<Response> {
  const { datum } = readQuery(asked, LogsQuery);
  const id = jobParam(asked);
  const pipeline = asked.context.pipeline(await pipelineOf(asked));
  const pages = logPages(pipeline, { id, ...(datum !== undefined && { datum }) });
  // What is wrong with the request is found with the first page, before the answer begins.
  const first = await pages.next();
  return new Response(streamOf(first, pages), { headers: { "content-type": "application/x-ndjson" } });
}

type LogText = AsyncGenerator<string, undefined>;

/** Failed datums whose logs are asked for in one call. */
const LOGS_PER_PAGE = 100;

async function* logPages(pipeline: PipelineApi, { id, datum }: { id: string; datum?: string }): LogText {
  const which = datum === undefined ? { job: id } : { job: id, datum };
  let after: string | null = null;
  do {
    const page: Awaited<ReturnType<PipelineApi["logs"]>> = await pipeline.logs({
      ...which,
      after,
      limit: LOGS_PER_PAGE,
    });
    if (!page.ok && page.reason === "no-such-job") throw noSuchJob(id);
    if (!page.ok) throw new ApiError("NotFound", `The job '${id}' has no datum '${datum}'.`);
    yield page.logs.flatMap(linesOf).join("");
    after = page.next;
  } while (after !== null);
}

function streamOf(first: IteratorResult<string, undefined>, rest: LogText): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let page: Promise<typeof first> = Promise.resolve(first);
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await page;
      if (done) return controller.close();
      controller.enqueue(encoder.encode(value));
      page = rest.next();
    },
  });
}

function linesOf({ datum, log }: { datum: string; log: string }): string[] {
  const lines = log.endsWith("\n") ? log.slice(0, -1) : log;
  if (lines === "") return [];
  return lines.split("\n").map((line) => `${JSON.stringify({ datum, line } satisfies LogLine)}\n`);
}

async function pipelineOf(asked: ApiRequest): Promise<string> {
  const id = jobParam(asked);
  const pipeline = await asked.context.catalogue.jobs.pipelineOf(id);
  if (pipeline === null) throw noSuchJob(id);
  return pipeline;
}

function jobParam({ params }: ApiRequest): string {
  return params.job ?? "";
}

function noSuchJob(id: string): ApiError {
  return new ApiError("NoSuchJob", `There is no job '${id}': 'sluice job list' shows those there are.`);
}
