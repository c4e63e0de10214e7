import { WholePipelineVersion } from "../../../protocol/pipelines.ts";
import { encodePath } from "../../../protocol/requests.ts";
import type { Client } from "../../gateway/client.ts";
import { wholeNumber } from "../../options.ts";

/** A parser of numbers of versions. */
export const versionNumber = wholeNumber({ min: 1, max: 999_999_999 });

/** One version of a pipeline's specification, by its number or as `latest`. */
export function versionOf(
  client: Client,
  { pipeline, version }: { readonly pipeline: string; readonly version: number | "latest" },
): Promise<WholePipelineVersion> {
  const path = `/pipelines/${encodePath(pipeline)}/versions/${version}`;
  return client.call(WholePipelineVersion, { method: "GET", path });
}

/** What a key may not see of a version, and the reason. */
export function hiddenText(what: string): string {
  return `${what}: this key may not read all inputs of this version and of the present one`;
}
