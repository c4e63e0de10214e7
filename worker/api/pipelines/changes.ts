import type { PipelineSpec } from "../../../protocol/spec.ts";
import type { Refused } from "../../branch/contract.ts";
import type { Found } from "../../pipeline/contract.ts";
import { ApiError } from "../answer/errors.ts";
import { type ApiRequest, nameParam, noQuery } from "../request/api-request.ts";
import { badSpec, COMMIT_GONE, OTHER_OUTPUT } from "./submission.ts";

/** `POST /pipelines/{name}/stop`: its jobs end, and no commit makes one until it is started. */
export async function stopPipeline(asked: ApiRequest): Promise<Response> {
  noQuery(asked);
  const name = nameParam(asked, "pipeline");
  return answer(await asked.context.pipeline(name).stop(), { name, change: "stop" });
}

/** `POST /pipelines/{name}/start`: makes one job for the present HEADs of its inputs, if they moved. */
export async function startPipeline(asked: ApiRequest): Promise<Response> {
  noQuery(asked);
  const name = nameParam(asked, "pipeline");
  return answer(await asked.context.pipeline(name).start(), { name, change: "start" });
}

/** `POST /pipelines?update=true`: a new version of a pipeline, from a checked specification. */
export async function updatePipeline(
  { context }: Pick<ApiRequest, "context">,
  { spec, reprocess }: { spec: PipelineSpec; reprocess: boolean },
): Promise<Response> {
  const { name } = spec.pipeline;
  const updated = await context.pipeline(name).update({ spec, reprocess });
  return answer(updated, { name, change: "update" });
}

type Changed = Found | Refused<"no-such-pipeline" | "unavailable" | "other-output" | "no-such-commit">;

function answer(changed: Changed, { name, change }: { name: string; change: string }): Response {
  if (changed.ok) return Response.json(changed.pipeline);
  switch (changed.reason) {
    case "no-such-pipeline":
      throw new ApiError(
        "NoSuchPipeline",
        `There is no pipeline '${name}' to ${change}: 'sluice pipeline list' shows those there are.`,
      );
    case "unavailable":
      throw new ApiError(
        "Unavailable",
        `The ${change} of the pipeline '${name}' is not done yet; it goes on by itself: ask again in a while.`,
      );
    case "no-such-commit":
      throw badSpec([COMMIT_GONE]);
    case "other-output":
      throw badSpec([OTHER_OUTPUT]);
  }
}
