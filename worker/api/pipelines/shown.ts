import type { Pipeline } from "../../../protocol/pipelines.ts";
import type { Caller } from "../../app.ts";
import { permits } from "../../core/permissions.ts";
import { ApiError } from "../answer/errors.ts";

/**
 * A pipeline as a key may see it. The variables of its command often say where the data comes from, and with what it is
 * opened, so they are shown only to keys that may read all of its inputs.
 */
export function shownTo({ scope }: Pick<Caller, "scope">, pipeline: Pipeline): Pipeline {
  const { spec } = pipeline;
  const { env, ...transform } = spec.transform;
  const readsAll = spec.inputs.every(({ repo }) => permits(scope, { permission: "read", repo: repo.name }));
  if (env === undefined || readsAll) return pipeline;
  return { ...pipeline, spec: { ...spec, transform }, hidden: ["transform.env"] };
}

/** The error for a name that no pipeline has. */
export function noSuchPipeline(name: string): ApiError {
  return new ApiError(
    "NoSuchPipeline",
    `There is no pipeline '${name}': 'sluice pipeline list' shows those there are.`,
  );
}
