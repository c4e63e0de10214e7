import type { Pipeline, WholePipelineVersion } from "../../../protocol/pipelines.ts";
import type { Caller } from "../../app.ts";
import { permits } from "../../core/permissions.ts";
import type { WholeVersion } from "../../pipeline/contract.ts";
import { type ApiError, apiError } from "../answer/errors.ts";

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

/**
 * A version of a specification as a key may see it, by the same rule: what an old version has is as telling as what the present
 * one has, and somebody who may not read its inputs may never have been meant to see it. So all of `reads` must be readable: the
 * repos that the version reads, and those that the present one does.
 */
export function versionShownTo(
  { scope }: Pick<Caller, "scope">,
  { spec, text, reads }: Pick<WholeVersion, "spec" | "text" | "reads">,
): Pick<WholePipelineVersion, "spec" | "text" | "hidden"> {
  const { env, ...transform } = spec.transform;
  const readsAll = reads.every((repo) => permits(scope, { permission: "read", repo }));
  if (readsAll) return { spec, ...(text !== null && { text }) };
  const hidden = [...(env === undefined ? [] : ["transform.env"]), ...(text === null ? [] : ["text"])];
  return { spec: { ...spec, transform }, ...(hidden.length > 0 && { hidden }) };
}

/** The error for a name that no pipeline has. */
export function noSuchPipeline(name: string): ApiError {
  return apiError.NoSuchPipeline(
    `There is no pipeline '${name}': 'sluice pipeline list' shows those there are.`,
  );
}
