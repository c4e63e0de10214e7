import type { PipelineSpec } from "../../../protocol/spec.ts";
import type { Caller } from "../../app.ts";
import type { Refused } from "../../branch/contract/answers.ts";
import type { CatalogueFault } from "../../core/catalogue-fault.ts";
import type { Found, Submitter } from "../../pipeline/contract.ts";
import { apiError, catalogueError } from "../answer/errors.ts";
import { type ApiRequest, nameParam } from "../request/api-request.ts";
import { circleIssue } from "./graph.ts";
import { shownTo } from "./shown.ts";
import { badSpec, COMMIT_GONE, errorsTaken, OTHER_OUTPUT, obstructed } from "./submission.ts";

/** `POST /pipelines/{name}/stop`: its jobs end, and no commit makes one until it is started. */
export async function stopPipeline(asked: ApiRequest): Promise<Response> {
  const name = nameParam(asked, "pipeline");
  return answer(await asked.context.pipeline(name).lifecycle.stop(), {
    name,
    change: "stop",
    caller: asked.caller,
  });
}

/** `POST /pipelines/{name}/start`: makes one job for the present HEADs of its inputs, if they moved. */
export async function startPipeline(asked: ApiRequest): Promise<Response> {
  const name = nameParam(asked, "pipeline");
  return answer(await asked.context.pipeline(name).lifecycle.start(), {
    name,
    change: "start",
    caller: asked.caller,
  });
}

/** `POST /pipelines?update=true`: a new version of a pipeline, from a checked specification. */
export async function updatePipeline(
  { context, caller }: Pick<ApiRequest, "context" | "caller">,
  { spec, reprocess, by }: { spec: PipelineSpec; reprocess: boolean; by: Submitter },
): Promise<Response> {
  const { name } = spec.pipeline;
  const updated = await context.pipeline(name).specification.update({ spec, reprocess, ...by });
  if (!updated.ok && updated.reason === "circle") {
    throw badSpec([circleIssue(spec, updated.circle, caller.scope)]);
  }
  return answer(updated, { name, change: "update", caller });
}

type Changed =
  | Found
  | Refused<"no-such-pipeline" | "unavailable" | "other-output" | "no-such-commit" | "errors-exist">
  | Refused<CatalogueFault>;

function answer(
  changed: Changed,
  { name, change, caller }: { name: string; change: string; caller: Caller },
): Response {
  if (changed.ok) return Response.json(shownTo(caller, changed.pipeline));
  switch (changed.reason) {
    case "no-such-pipeline":
      throw apiError.NoSuchPipeline(
        `There is no pipeline '${name}' to ${change}: 'sluice pipeline list' shows those there are.`,
      );
    case "unavailable":
      throw apiError.Unavailable(
        `The ${change} of the pipeline '${name}' is not done yet; it goes on by itself: ask again in a while.`,
      );
    case "catalogue-unavailable":
    case "catalogue-outdated":
    case "other-family":
      throw catalogueError(changed.reason);
    case "no-such-commit":
      throw badSpec([COMMIT_GONE]);
    case "errors-exist":
      throw obstructed({ code: "AlreadyExists", issue: errorsTaken(name) });
    case "other-output":
      throw badSpec([OTHER_OUTPUT]);
  }
}
