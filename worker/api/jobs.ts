import { z } from "zod";
import { Name } from "../../protocol/names.ts";
import { type Job, type JobPage, JobState } from "../../protocol/pipelines.ts";
import { type ApiRequest, readQuery } from "./api-request.ts";
import { ApiError } from "./errors.ts";

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
