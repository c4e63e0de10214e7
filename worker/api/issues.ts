import type { z } from "zod";
import type { Issue } from "../../protocol/errors.ts";
import { ApiError } from "./errors.ts";

/** Fields of the pipeline specification (spec §2) that this version refuses rather than ignores. */
const NOT_YET = new Set([
  "egress",
  "secrets",
  "imagePullSecrets",
  "lazy",
  "from",
  "datumTries",
  "datumTimeout",
  "jobTimeout",
]);

/** Every problem that zod found, each at its JSON path. */
export function issuesOf(error: z.ZodError): Issue[] {
  return error.issues.flatMap((issue) => flattened(issue, []));
}

function flattened(issue: z.core.$ZodIssue, above: readonly PropertyKey[]): Issue[] {
  const path = [...above, ...issue.path];
  if (issue.code === "unrecognized_keys") return issue.keys.map((key) => unknownField([...path, key]));
  if (issue.code === "invalid_union") {
    // Of several shapes, the one that fits best tells what is wrong.
    const [closest] = issue.errors.toSorted((a, b) => problemCount(a) - problemCount(b));
    if (closest) return closest.flatMap((inner) => flattened(inner, path));
    if ("options" in issue)
      return [{ path: jsonPath(path), message: `must be one of ${issue.options?.join(", ")}` }];
  }
  const message = isMissing(issue) ? `is required: a ${issue.expected}` : issue.message;
  return [{ path: jsonPath(path), message }];
}

function problemCount(issues: readonly z.core.$ZodIssue[]): number {
  return issues.reduce((sum, issue) => sum + (issue.code === "unrecognized_keys" ? issue.keys.length : 1), 0);
}

/** Holds a value to its schema, or says every problem at once. */
export function checked<Schema extends z.ZodType>(schema: Schema, value: unknown): z.infer<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const issues = issuesOf(parsed.error);
  throw new ApiError("InvalidRequest", `The request has ${problems(issues)}.`, { issues });
}

/** How many problems there are; each is in the answer's `issues`. */
export function problems(issues: readonly Issue[]): string {
  return issues.length === 1 ? "a problem" : `${issues.length} problems`;
}

type MissingField = z.core.$ZodIssueInvalidType & { readonly code: "invalid_type" };

/** zod says no more of a field that is not there than that it is not of the right type. */
function isMissing(issue: z.core.$ZodIssue): issue is MissingField {
  return issue.code === "invalid_type" && issue.message.endsWith("received undefined");
}

function unknownField(path: readonly PropertyKey[]): Issue {
  const name = String(path.at(-1));
  const message = NOT_YET.has(name)
    ? `'${name}' is not yet supported: leave it out`
    : `there is no field '${name}': check its spelling or leave it out`;
  return { path: jsonPath(path), message };
}

/** Such as `inputs[0].glob`. */
function jsonPath(path: readonly PropertyKey[]): string {
  return path.reduce<string>((text, step) => {
    if (typeof step === "number") return `${text}[${step}]`;
    return text === "" ? String(step) : `${text}.${String(step)}`;
  }, "");
}
