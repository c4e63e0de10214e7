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

/** `GET /jobs`: newest first. Of one pipeline: from its object, and so up to the moment; else from the catalogue. */
export async function listJobs(asked: ApiRequest): Promise<Response> {
  const { pipeline, state, limit, after } = readQuery(asked, ListQuery);
  const before = after === undefined ? {} : { after };
  if (pipeline !== undefined && state === undefined) {
    return Response.json(
      (await asked.context.pipeline(pipeline).jobs({ limit, ...before })) satisfies JobPage,
    );
  }
  const query = {
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

/** `GET /jobs/{id}` */
export async function inspectJob(asked: ApiRequest): Promise<Response> {
  const { wait } = readQuery(asked, InspectQuery);
  const id = asked.params.job ?? "";
  const pipeline = await asked.context.catalogue.jobs.pipelineOf(id);
  const job: Job | null =
    pipeline === null ? null : await asked.context.pipeline(pipeline).waitJob({ id, waitMs: wait * 1000 });
  if (!job)
    throw new ApiError("NoSuchJob", `There is no job '${id}': 'sluice job list' shows those there are.`);
  return Response.json(job);
}
