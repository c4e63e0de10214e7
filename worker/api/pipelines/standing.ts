import { bucketName } from "../../../protocol/names.ts";
import {
  type Job,
  MAX_RUNS,
  type PipelineGraph,
  type PipelineSummary,
  type Run,
  type UnderWay,
} from "../../../protocol/pipelines.ts";
import type { Context } from "../../app.ts";
import type { PipelineRow } from "../../catalogue/pipelines.ts";
import { outputsOf } from "../../core/circles.ts";
import { conditionalJson } from "../answer/conditional.ts";
import { unfinishedJobs } from "../jobs.ts";
import { type ApiRequest, mayRead, nameParam } from "../request/api-request.ts";
import { noSuchPipeline, shownTo } from "./shown.ts";

/** How a pipeline does: its last jobs, newest first, and what it is at. */
interface Standing {
  readonly runs: readonly Run[];
  readonly underWay?: UnderWay;
}

/**
 * How pipelines do, in two queries whatever their number is, and a call to each of those that are at work, at most 50. A
 * pipeline beyond those is under way without a reason.
 */
export async function standingsOf(
  context: Pick<Context, "catalogue" | "pipeline">,
  { pipelines, limit }: { readonly pipelines: readonly string[]; readonly limit: number },
): Promise<ReadonlyMap<string, Standing>> {
  const { jobs } = context.catalogue;
  const [rows, open] = await Promise.all([jobs.newest(pipelines, { limit }), jobs.underWay()]);
  const wanted = new Map<string, Run[]>(pipelines.map((name) => [name, []]));
  for (const { pipeline, ...run } of rows) wanted.get(pipeline)?.push(run);
  const oldest = open
    .filter(({ pipeline }) => wanted.has(pipeline))
    .map((job) => ({ ...job, finishedAt: null }));
  const live = await unfinishedJobs(context, oldest);
  const underWay = new Map(
    oldest.map(({ pipeline, id, state, jobs: count }) => {
      const now: Pick<Job, "state" | "reason" | "waitsFor"> = live.get(id) ?? { state, reason: null };
      const waits = now.waitsFor && { waitsFor: now.waitsFor };
      return [pipeline, { id, state: now.state, reason: now.reason, ...waits, jobs: count }];
    }),
  );
  return new Map(
    [...wanted].map(([name, runs]) => {
      const at = underWay.get(name);
      return [name, { runs, ...(at && { underWay: at }) }];
    }),
  );
}

/**
 * `GET /graph`: which pipelines there are, what each reads and writes, and how it stands: three queries of the catalogue,
 * which read a row of each pipeline and of its newest job. With the ETag of the last answer it is 304 until something is new.
 */
export async function showGraph(asked: ApiRequest): Promise<Response> {
  const { request, context } = asked;
  const rows = (await context.catalogue.pipelines.list()).filter(({ name }) => mayRead(asked, name));
  const standings = await standingsOf(context, { pipelines: rows.map(({ name }) => name), limit: 1 });
  const pipelines = rows.map((row) => {
    const { name, state, inputs } = row;
    const { runs: [job] = [], underWay } = standings.get(name) ?? {};
    return {
      ...{ name, state, inputs: inputs.map(bucketName), outputs: outputsOf(row).map(bucketName) },
      ...(job && { job }),
      ...(underWay && { underWay }),
    };
  });
  return await conditionalJson(request, { body: { pipelines } satisfies PipelineGraph, fleeting: {} });
}

/** `GET /pipelines/{name}/summary`: 304 to who has it already. */
export async function summarizePipeline(asked: ApiRequest): Promise<Response> {
  const { request, context, caller } = asked;
  const name = nameParam(asked, "pipeline");
  const pipeline = context.pipeline(name);
  const [found, page, rows] = await Promise.all([
    pipeline.lifecycle.inspect(),
    pipeline.jobs.list({ limit: MAX_RUNS }),
    context.catalogue.pipelines.list(),
  ]);
  if (!found.ok) throw noSuchPipeline(name);
  const seen = rows.filter((row) => mayRead(asked, row.name));
  const body: PipelineSummary = {
    pipeline: shownTo(caller, found.pipeline),
    jobs: page.jobs,
    more: page.next !== null,
    ...neighboursOf(found.pipeline, seen),
  };
  return await conditionalJson(request, { body, fleeting: {} });
}

type Placed = Parameters<typeof shownTo>[1];

function neighboursOf(
  { name, spec, outputRepo, outputBranch, errorsBranch }: Placed,
  rows: readonly PipelineRow[],
): Pick<PipelineSummary, "makers" | "readers"> {
  const reads = new Set(spec.inputs.map(({ repo, branch }) => bucketName({ repo: repo.name, branch })));
  const output = { repo: outputRepo, branch: outputBranch };
  const makes = new Set(outputsOf({ name, output, errors: errorsBranch !== undefined }).map(bucketName));
  const shared = (theirs: readonly string[], ours: ReadonlySet<string>, pipeline: string) =>
    [...new Set(theirs)].filter((bucket) => ours.has(bucket)).map((bucket) => ({ bucket, pipeline }));
  return {
    makers: rows.flatMap((row) => shared(outputsOf(row).map(bucketName), reads, row.name)),
    readers: rows.flatMap((row) => shared(row.inputs.map(bucketName), makes, row.name)),
  };
}
