import { Pipeline } from "../../protocol/pipelines.ts";
import type { Client } from "../gateway/client.ts";
import { printNote } from "../output/output.ts";
import type { SpecFile } from "./spec-file.ts";

/** How a pipeline is updated; nothing: it is created. */
interface Update {
  readonly update?: true;
  readonly reprocess?: true | undefined;
}

/**
 * Submits a specification with the text that it was read from. It goes without the text if that is too long to be kept; a note
 * on stderr then says so.
 */
export async function submit(
  client: Client,
  { spec, text }: SpecFile,
  update: Update = {},
): Promise<Pipeline> {
  const ask = { method: "POST", path: "/pipelines" } as const;
  const { specTextFault } = await import("../../protocol/spec-text.ts");
  const fault = specTextFault(text);
  if (fault !== undefined) {
    printNote(`the text of the spec is not kept: it ${fault}`);
    return await client.call(Pipeline, { ...ask, query: { ...update }, json: spec });
  }
  return await client.call(Pipeline, { ...ask, query: { ...update, text: true }, json: { spec, text } });
}
