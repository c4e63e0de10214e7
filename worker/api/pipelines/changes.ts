import type { PipelineSpec } from "../../../protocol/spec.ts";
import type { Refused } from "../../branch/contract/answers.ts";
import type { CatalogueFault } from "../../core/catalogue-fault.ts";
import type { Circle, Found, Submitter } from "../../pipeline/contract.ts";
import { apiError, catalogueError } from "../answer/errors.ts";
import { type ApiRequest, nameParam } from "../request/api-request.ts";
import { circleIssue } from "./graph.ts";
import { shownTo } from "./shown.ts";
import {
  badSpec,
  COMMIT_GONE,
  errorsTaken,
  nameTaken,
  OTHER_OUTPUT,
  obstructed,
  outputTaken,
} from "./submission.ts";

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

interface Submitted {
  /** Checked. */
  readonly spec: PipelineSpec;
  readonly by: Submitter;
}

/** `POST /pipelines`: a pipeline. */
export async function makePipeline(asked: ApiRequest, { spec, by }: Submitted): Promise<Response> {
  const { name } = spec.pipeline;
  const created = await asked.context.pipeline(name).lifecycle.create(spec, by);
  return answer(asked, created, { name, change: "create", spec });
}

/** `POST /pipelines?update=true`: a new version of a pipeline. */
export async function updatePipeline(
  asked: ApiRequest,
  { spec, by, reprocess }: Submitted & { readonly reprocess: boolean },
): Promise<Response> {
  const { name } = spec.pipeline;
  const updated = await asked.context.pipeline(name).specification.update({ spec, reprocess, ...by });
  return answer(asked, updated, { name, change: "update", spec });
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
