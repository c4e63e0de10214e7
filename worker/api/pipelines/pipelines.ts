import { z } from "zod";
import { bucketName, Name } from "../../../protocol/names.ts";
import type { PipelineCheck } from "../../../protocol/pipeline-check.ts";
import { MAX_LIST_WITH_RUNS, MAX_RUNS, type PipelineList } from "../../../protocol/pipelines.ts";
import { type PipelineSpec, skipsBadDatums } from "../../../protocol/spec.ts";
import type { Refused } from "../../branch/contract/answers.ts";
import type { PipelineRow } from "../../catalogue/pipelines.ts";
import type { CatalogueFault } from "../../core/catalogue-fault.ts";
import { outputsOf } from "../../core/circles.ts";
import { isLimited } from "../../core/permissions.ts";
import type { Place } from "../../core/places.ts";
import type { Circle, Found } from "../../pipeline/contract.ts";
import { conditionalJson } from "../answer/conditional.ts";
import { apiError, catalogueError } from "../answer/errors.ts";
import { type ApiRequest, mayRead, nameParam, readQuery } from "../request/api-request.ts";
import { previewPipeline } from "./plan.ts";
import { noSuchPipeline, shownTo } from "./shown.ts";
import { standingsOf } from "./standing.ts";
import {
  badSpec,
  COMMIT_GONE,
  checkText,
  circleIssue,
  errorsTaken,
  nameTaken,
  OTHER_OUTPUT,
  obstacleTo,
  obstructed,
  outputTaken,
  type Purpose,
  readSubmission,
  SubmitQuery,
  submittedBody,
  submittedSpec,
} from "./submission.ts";

/** A name has no more characters. */
const MAX_SEARCH = 63;

const Flag = z.enum(["true", "false"]).default("false");

/**
 * `POST /pipelines`: submits a spec. 201, or 400 with every problem found. With `?update=true` the spec is the next
 * version of an existing pipeline (200). With `?dryRun=true` nothing is made. With `?text=true` the body is `{ spec, text }`.
 */
export async function createPipeline(asked: ApiRequest): Promise<Response> {
  const { dryRun, update, reprocess } = readQuery(asked, SubmitQuery);
  const purpose = update === "true" ? "update" : "create";
  const { text } = await submittedBody(asked);
  const spec = await submittedSpec(asked, purpose);
  if (text !== undefined) checkText(text, spec);
  if (dryRun === "true") return await tryPipeline(asked, { spec, purpose, reprocess: reprocess === "true" });
  const { keyId: key, scope } = asked.caller;
  const by = { limited: isLimited(scope), key, ...(text !== undefined && { text }) };
  const { name } = spec.pipeline;
  const pipeline = asked.context.pipeline(
    name,
    purpose === "create" ? await placeOfInput(asked, spec) : null,
  );
  const done = await (purpose === "update"
    ? pipeline.specification.update({ spec, reprocess: reprocess === "true", ...by })
    : pipeline.lifecycle.create(spec, by));
  return answer(asked, done, { name, change: purpose, spec });
}

/** A pipeline lives where the first branch that it reads does. */
async function placeOfInput(
  { context }: ApiRequest,
  { inputs: [first] }: PipelineSpec,
): Promise<Place | null> {
  if (!first) return null;
  return await context.catalogue.branches.placeOf({ repo: first.repo.name, branch: first.branch });
}

async function tryPipeline(
  asked: ApiRequest,
  { spec, purpose, reprocess }: { spec: PipelineSpec; purpose: Purpose; reprocess: boolean },
): Promise<Response> {
  const outline = {
    pipeline: spec.pipeline.name,
    outputBranch: spec.outputBranch,
    skips: skipsBadDatums(spec),
  };
  const obstacle = await obstacleTo(purpose, { asked, outline });
  if (obstacle) throw obstructed(obstacle);
  const update = purpose === "update" ? { update: { reprocess } } : {};
  return Response.json((await previewPipeline(asked.context, { spec, ...update })) satisfies PipelineCheck);
}

const ListQuery = z.strictObject({
  /** So many of the last jobs of each. */
  runs: z.coerce.number().int().min(1).max(MAX_RUNS).optional(),
  /** What their names hold, in upper or lower case. */
  search: z.string().max(MAX_SEARCH).optional(),
  limit: z.coerce.number().int().min(1).max(MAX_LIST_WITH_RUNS).optional(),
  after: Name.optional(),
});

/**
 * `GET /pipelines`: those whose repo the key may read, by name. With `runs` it costs as many rows of jobs as it shows, so it
 * then comes in pages.
 */
export async function listPipelines(asked: ApiRequest): Promise<Response> {
  const { runs, search = "", limit, after = "" } = readQuery(asked, ListQuery);
  const rows = await asked.context.catalogue.pipelines.list();
  const wanted = search.toLowerCase();
  const seen = rows.filter(({ name }) => mayRead(asked, name) && name.toLowerCase().includes(wanted));
  const rest = seen.filter(({ name }) => name > after);
  const most = limit ?? (runs === undefined ? undefined : MAX_LIST_WITH_RUNS);
  const page = rest.slice(0, most);
  const body: PipelineList = {
    pipelines: runs === undefined ? page.map(listed) : await withRuns(asked.context, { page, runs }),
    ...(most !== undefined && {
      next: rest.length > most ? (page.at(-1)?.name ?? null) : null,
      total: seen.length,
    }),
  };
  return await conditionalJson(asked.request, { body, fleeting: {} });
}

async function withRuns(
  context: ApiRequest["context"],
  { page, runs: limit }: { page: readonly PipelineRow[]; runs: number },
): Promise<PipelineList["pipelines"]> {
  const standings = await standingsOf(context, { pipelines: page.map(({ name }) => name), limit });
  return page.map((row) => {
    const { runs = [], underWay } = standings.get(row.name) ?? {};
    return { ...listed(row), runs: [...runs], ...(underWay && { underWay }) };
  });
}

/** `GET /pipelines/{name}` */
export async function inspectPipeline(asked: ApiRequest): Promise<Response> {
  const name = nameParam(asked, "pipeline");
  const found = await asked.context.pipeline(name).lifecycle.inspect();
  if (!found.ok) throw noSuchPipeline(name);
  return Response.json(shownTo(asked.caller, found.pipeline));
}

const DeleteQuery = z.strictObject({ keepOutput: Flag, force: Flag });

/**
 * `DELETE /pipelines/{name}?keepOutput=true`: deletes the output branch, too, unless it is kept. Refused if another
 * pipeline reads that branch. `force=true` deletes it all the same, and the other pipeline's input is then empty.
 */
export async function deletePipeline(asked: ApiRequest): Promise<Response> {
  const { keepOutput, force } = readQuery(asked, DeleteQuery);
  const name = nameParam(asked, "pipeline");
  const rows = await asked.context.catalogue.pipelines.list();
  const reader = keepOutput === "true" || force === "true" ? undefined : readerOf(rows, name);
  if (reader !== undefined) {
    const which = mayRead(asked, reader) ? `The pipeline '${reader}'` : "Another pipeline";
    const message = `${which} reads the output of '${name}': delete it first, keep the output (keepOutput=true) or force the deletion (force=true).`;
    throw apiError.InUse(message);
  }
  const destroyed = await asked.context
    .pipeline(name)
    .lifecycle.destroy({ keepOutput: keepOutput === "true" });
  if (destroyed.ok) return new Response(null, { status: 204 });
  if (destroyed.reason === "no-such-pipeline") throw noSuchPipeline(name);
  throw apiError.Unavailable(`The pipeline '${name}' is not gone yet; its deletion goes on by itself.`);
}

/** The repo that the pipeline of a spec writes to: it has the pipeline's name. */
export async function newPipelineRepo(asked: ApiRequest): Promise<readonly string[]> {
  const { outline, issues } = readSubmission((await submittedBody(asked)).spec);
  if (outline.pipeline === undefined) throw badSpec(issues);
  return [outline.pipeline];
}

/** The repos that the pipeline of a spec reads. */
export async function newPipelineInputs(asked: ApiRequest): Promise<readonly string[]> {
  const { outline, issues } = readSubmission((await submittedBody(asked)).spec);
  return outline.inputs.map(({ repo }) => {
    if (repo === undefined) throw badSpec(issues);
    return repo;
  });
}

/** The repos that the pipeline of the path reads now. */
export async function pipelineInputs(asked: ApiRequest): Promise<readonly string[]> {
  const name = nameParam(asked, "pipeline");
  const found = await asked.context.pipeline(name).lifecycle.inspect();
  if (!found.ok) throw noSuchPipeline(name);
  return found.pipeline.spec.inputs.map(({ repo }) => repo.name);
}

function readerOf(rows: readonly PipelineRow[], name: string): string | undefined {
  const made = rows.find((row) => row.name === name);
  if (!made) return undefined;
  const outputs = new Set(outputsOf(made).map(bucketName));
  return rows.find(({ inputs }) => inputs.some((input) => outputs.has(bucketName(input))))?.name;
}

function listed({
  name,
  state,
  createdAt,
  inputs,
  output,
  description,
}: PipelineRow): PipelineList["pipelines"][number] {
  const inputNames = inputs.map(({ repo, branch }) => `${branch}.${repo}`);
  return {
    ...{ name, state, createdAt, inputs: inputNames, output: `${output.branch}.${output.repo}` },
    ...(description !== undefined && { description }),
  };
}

/** `GET /pipelines/{name}/loops`: how its object's work stands. Errors may name what the key could not see elsewhere, so it takes `admin`. */
export async function showLoops(asked: ApiRequest): Promise<Response> {
  const name = nameParam(asked, "pipeline");
  const standing = await asked.context.pipeline(name).admin.loops();
  if (!standing) throw noSuchPipeline(name);
  return Response.json(standing);
}

/** `POST /pipelines/{name}/stop`: its jobs end, and no commit makes one until it is started. */
export async function stopPipeline(asked: ApiRequest): Promise<Response> {
  const name = nameParam(asked, "pipeline");
  return answer(asked, await asked.context.pipeline(name).lifecycle.stop(), { name, change: "stop" });
}

/** `POST /pipelines/{name}/start`: makes one job for the present HEADs of its inputs, if they moved. */
export async function startPipeline(asked: ApiRequest): Promise<Response> {
  const name = nameParam(asked, "pipeline");
  return answer(asked, await asked.context.pipeline(name).lifecycle.start(), { name, change: "start" });
}

type Changed =
  | Found
  | Refused<"no-such-pipeline" | "unavailable" | "already-exists" | CatalogueFault>
  | RefusedSpec;

/** What only a specification is refused for. */
type RefusedSpec =
  | Refused<"other-output" | "output-exists" | "no-such-commit" | "errors-exist">
  | (Refused<"circle"> & { readonly circle: Circle });

interface Change {
  readonly name: string;
  readonly change: "create" | "update" | "stop" | "start";
  /** Of what was submitted. */
  readonly spec?: PipelineSpec;
}

function answer(asked: ApiRequest, changed: Changed, { name, change, spec }: Change): Response {
  if (changed.ok) {
    return Response.json(shownTo(asked.caller, changed.pipeline), {
      status: change === "create" ? 201 : 200,
    });
  }
  switch (changed.reason) {
    case "no-such-pipeline":
      throw apiError.NoSuchPipeline(
        `There is no pipeline '${name}' to ${change}: 'sluice pipeline list' shows those there are.`,
      );
    case "unavailable":
      throw apiError.Unavailable(
        change === "create"
          ? `The pipeline '${name}' could not be made yet; it goes on by itself: ask for it again in a while.`
          : `The ${change} of the pipeline '${name}' is not done yet; it goes on by itself: ask again in a while.`,
      );
    case "catalogue-unavailable":
    case "catalogue-outdated":
    case "other-family":
      throw catalogueError(changed.reason);
    case "already-exists":
      throw obstructed({ code: "AlreadyExists", issue: nameTaken(name) });
    default:
      throw spec
        ? refusedSpec(changed, { spec, asked })
        : new Error(`${name} refused to ${change}: ${changed.reason}`);
  }
}

function refusedSpec(refused: RefusedSpec, { spec, asked }: { spec: PipelineSpec; asked: ApiRequest }) {
  const { name } = spec.pipeline;
  switch (refused.reason) {
    case "output-exists":
      return obstructed({
        code: "AlreadyExists",
        issue: outputTaken({ repo: name, branch: spec.outputBranch }),
      });
    case "errors-exist":
      return obstructed({ code: "AlreadyExists", issue: errorsTaken(name) });
    case "no-such-commit":
      return badSpec([COMMIT_GONE]);
    case "other-output":
      return badSpec([OTHER_OUTPUT]);
    case "circle":
      return badSpec([circleIssue(spec, refused.circle, asked.caller.scope)]);
  }
}
