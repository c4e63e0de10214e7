import { z } from "zod";
import type { Issue } from "../../protocol/errors.ts";
import type { PipelineList } from "../../protocol/pipelines.ts";
import { PipelineSpec } from "../../protocol/spec.ts";
import type { PipelineRow } from "../catalogue/pipelines.ts";
import { permits } from "../core/permissions.ts";
import { checkSpec } from "../core/spec.ts";
import { type ApiRequest, nameParam, noQuery, readQuery } from "./api-request.ts";
import { ApiError } from "./errors.ts";
import { issuesOf, problems } from "./issues.ts";
import { cycleIssue, missingRepoIssues } from "./pipeline-graph.ts";

/** Ways to submit that are not there yet: refused, never ignored. */
const NOT_YET = ["update", "reprocess", "dryRun"];

/** `POST /pipelines`: submits a spec. 201, or 400 with every problem found. */
export async function createPipeline(asked: ApiRequest): Promise<Response> {
  const later = NOT_YET.find((name) => asked.query.has(name));
  if (later !== undefined)
    throw new ApiError("NotImplementedYet", `'?${later}' is not yet supported: leave it out.`);
  noQuery(asked);
  const spec = await checkedSpec(asked);
  const { name } = spec.pipeline;
  const created = await asked.context.pipeline(name).create(spec);
  if (created.ok) return Response.json(created.pipeline, { status: 201 });
  switch (created.reason) {
    case "already-exists":
      throw new ApiError(
        "AlreadyExists",
        `pipeline.name: there is a pipeline '${name}' already: delete it first, or choose another name.`,
      );
    case "output-exists":
      throw new ApiError(
        "AlreadyExists",
        `outputBranch: the branch '${spec.outputBranch}' of repo '${name}' exists and is not this pipeline's: choose another outputBranch or pipeline.name.`,
      );
    case "unavailable":
      throw new ApiError(
        "Unavailable",
        `The pipeline '${name}' could not be made yet; it goes on by itself: ask for it again in a while.`,
      );
  }
}

/** `GET /pipelines`: those whose repo the key may read. */
export async function listPipelines(asked: ApiRequest): Promise<Response> {
  noQuery(asked);
  const rows = await asked.context.catalogue.pipelines.list();
  return Response.json({
    pipelines: rows.filter(({ name }) => mayRead(asked, name)).map(listed),
  } satisfies PipelineList);
}

/** `GET /pipelines/{name}` */
export async function inspectPipeline(asked: ApiRequest): Promise<Response> {
  noQuery(asked);
  const name = nameParam(asked, "pipeline");
  const found = await asked.context.pipeline(name).inspect();
  if (!found.ok) throw noSuchPipeline(name);
  return Response.json(found.pipeline);
}

const DeleteQuery = z.strictObject({ keepOutput: z.enum(["true", "false"]).default("false") });

/** `DELETE /pipelines/{name}?keepOutput=true`: the output branch goes too, unless it is kept. */
export async function deletePipeline(asked: ApiRequest): Promise<Response> {
  const { keepOutput } = readQuery(asked, DeleteQuery);
  const name = nameParam(asked, "pipeline");
  const rows = await asked.context.catalogue.pipelines.list();
  const reader = keepOutput === "true" ? undefined : readerOf(rows, name);
  if (reader !== undefined) {
    const which = mayRead(asked, reader) ? `The pipeline '${reader}'` : "Another pipeline";
    const message = `${which} reads the output of '${name}': delete it first, or keep the output.`;
    throw new ApiError("InUse", message);
  }
  const destroyed = await asked.context.pipeline(name).destroy({ keepOutput: keepOutput === "true" });
  if (destroyed.ok) return new Response(null, { status: 204 });
  if (destroyed.reason === "no-such-pipeline") throw noSuchPipeline(name);
  throw new ApiError(
    "Unavailable",
    `The pipeline '${name}' is not gone yet; its deletion goes on by itself.`,
  );
}

/** The repo that the pipeline of a spec writes to: it has the pipeline's name. */
export async function newPipelineRepo(asked: ApiRequest): Promise<readonly string[]> {
  return [(await readSpec(asked)).pipeline.name];
}

/** The repos that the pipeline of a spec reads. */
export async function newPipelineInputs(asked: ApiRequest): Promise<readonly string[]> {
  return (await readSpec(asked)).inputs.map(({ repo }) => repo.name);
}

async function readSpec(asked: ApiRequest): Promise<PipelineSpec> {
  const parsed = PipelineSpec.safeParse(await asked.json());
  if (parsed.success) return parsed.data;
  throw badSpec(issuesOf(parsed.error));
}

/** Everything that can be said of a spec before the pipeline is made; throws all of it at once. */
async function checkedSpec(asked: ApiRequest): Promise<PipelineSpec> {
  const spec = await readSpec(asked);
  const rules = checkSpec(spec);
  const { catalogue } = asked.context;
  const graph = await Promise.all([missingRepoIssues(catalogue, spec), cycleIssue(catalogue, spec)]);
  const issues = [...(rules.ok ? [] : rules.issues), ...graph.flat()];
  if (issues.length > 0) throw badSpec(issues);
  return spec;
}

function mayRead({ caller }: ApiRequest, pipeline: string): boolean {
  return permits(caller.scope, { permission: "read", repo: pipeline });
}

function badSpec(issues: readonly Issue[]): ApiError {
  return new ApiError("InvalidSpec", `The pipeline specification has ${problems(issues)}.`, {
    issues,
  });
}

function noSuchPipeline(name: string): ApiError {
  return new ApiError(
    "NoSuchPipeline",
    `There is no pipeline '${name}': 'sluice pipeline list' shows those there are.`,
  );
}

function readerOf(rows: readonly PipelineRow[], name: string): string | undefined {
  const output = rows.find((row) => row.name === name)?.output;
  if (!output) return undefined;
  return rows.find(({ inputs }) =>
    inputs.some(({ repo, branch }) => repo === output.repo && branch === output.branch),
  )?.name;
}

function listed({ name, state, createdAt, inputs, output }: PipelineRow): PipelineList["pipelines"][number] {
  const inputNames = inputs.map(({ repo, branch }) => `${branch}.${repo}`);
  return { name, state, createdAt, inputs: inputNames, output: `${output.branch}.${output.repo}` };
}
