import { z } from "zod";
import { PipelineSpec } from "../../../protocol/spec.ts";
import { readSpecText, specTextFault } from "../../../protocol/spec-text.ts";
import { sortedJson } from "../../core/spec.ts";
import { type ApiRequest, readQuery } from "../request/api-request.ts";
import { checked, invalidField } from "../request/issues.ts";

const Flag = z.enum(["true", "false"]).default("false");

/** How a specification is submitted. */
export const SubmitQuery = z
  .strictObject({
    dryRun: Flag,
    update: Flag,
    reprocess: Flag,
    /** The body has the specification as `spec`, and as `text` what it was read from. */
    text: Flag,
  })
  .refine(({ update, reprocess }) => update === "true" || reprocess === "false", {
    path: ["reprocess"],
    error: "is for an update: send update=true with it",
  });

const WithText = z.strictObject({ spec: z.unknown(), text: z.string() });

/** What a submission brings: the specification, which nobody looked at yet, and the text that it was read from. */
export async function submittedBody(asked: ApiRequest): Promise<{ spec: unknown; text?: string }> {
  const body = await asked.json();
  return readQuery(asked, SubmitQuery).text === "true" ? checked(WithText, body) : { spec: body };
}

/**
 * Throws InvalidRequest unless a text comes to a specification that was checked: who reads it later must not take something
 * else for what ran. It is read by the code that the command line reads it by.
 */
export function checkText(text: string, spec: PipelineSpec): void {
  const fault = specTextFault(text);
  if (fault !== undefined) throw invalidField("text", `${fault}: send the specification without it`);
  const read = readSpecText(text);
  if (!read.ok) {
    const why = read.fault === "not-yaml" ? read.why : `another document begins at line ${read.line}`;
    throw invalidField(
      "text",
      `is neither JSON nor YAML (${why}): send the text that the specification was read from`,
    );
  }
  const parsed = PipelineSpec.safeParse(read.value);
  if (parsed.success && sortedJson(parsed.data) === sortedJson(spec)) return;
  throw invalidField(
    "text",
    "comes to another specification than 'spec': send the text that it was read from",
  );
}
