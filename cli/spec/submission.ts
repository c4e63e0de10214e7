import { printNote } from "../output/output.ts";
import type { SpecFile } from "./spec-file.ts";

/** What is sent to submit a specification: with the text that it was read from, unless that is too long to be kept. */
export async function submissionOf({
  spec,
  text,
}: SpecFile): Promise<{ readonly json: unknown; readonly query: { readonly text?: true } }> {
  const { specTextFault } = await import("../../protocol/spec-text.ts");
  const fault = specTextFault(text);
  if (fault === undefined) return { json: { spec, text }, query: { text: true } };
  printNote(`the text of the spec is not kept: it ${fault}`);
  return { json: spec, query: {} };
}
