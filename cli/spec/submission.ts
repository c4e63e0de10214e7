import { Pipeline } from "../../protocol/pipelines.ts";
import { type Client, GatewayError } from "../gateway/client.ts";
import { printNote } from "../output/output.ts";
import type { SpecFile } from "./spec-file.ts";

/** How a pipeline is updated; nothing: it is created. */
interface Update {
  readonly update?: true;
  readonly reprocess?: true | undefined;
}

/**
 * Submits a specification with the text that it was read from. It goes without the text if that is too long to be kept, or if
 * the gateway is of a release that keeps none; a note on stderr then says so.
 */
export async function submit(
  client: Client,
  { spec, text }: SpecFile,
  update: Update = {},
): Promise<Pipeline> {
  const ask = { method: "POST", path: "/pipelines" } as const;
  const bare = () => client.call(Pipeline, { ...ask, query: { ...update }, json: spec });
  const { specTextFault } = await import("../../protocol/spec-text.ts");
  const fault = specTextFault(text);
  if (fault !== undefined) {
    printNote(`the text of the spec is not kept: it ${fault}`);
    return await bare();
  }
  try {
    return await client.call(Pipeline, { ...ask, query: { ...update, text: true }, json: { spec, text } });
  } catch (error) {
    if (!isWithoutTexts(error)) throw error;
    const pipeline = await bare();
    printNote("the text of the spec is not kept: the gateway is of a release that keeps none");
    return pipeline;
  }
}

/** Whether a gateway refused a submission since it knows no query parameter `text`. It has then made nothing. */
function isWithoutTexts(error: unknown): boolean {
  if (!(error instanceof GatewayError && error.status === 400 && error.code === "InvalidRequest"))
    return false;
  const words = [error.message, ...error.issues.map(({ message }) => message)];
  return words.some((said) => /there is no (field|query parameter) 'text'/i.test(said));
}
