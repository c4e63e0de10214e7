import { z } from "zod";
import { type Issue, MAX_PROBLEMS } from "../../../protocol/errors.ts";
import { nearest } from "../../core/nearest.ts";
import { type ApiError, apiError } from "../answer/errors.ts";

/** A name that a request uses is repeated in the answer up to so many characters. */
const MAX_SHOWN_CHARACTERS = 100;

type Path = readonly PropertyKey[];

/** What the writer of a value is told to write instead. Each answers undefined if it does not know better than the schema. */
export interface Advice {
  /** The whole value, as it was submitted. */
  readonly submitted: unknown;
  /** In place of a field that there is not, which holds this. */
  readonly field: (path: Path, held: unknown) => string | undefined;
  /** In place of what a field holds that the schema refuses; undefined if the field is missing. */
  readonly value: (path: Path, held: unknown) => string | undefined;
}

/** The problems that zod found with a value of this schema, each at its JSON path: at most MAX_PROBLEMS, and that there may be more. */
export function issuesOf(error: z.ZodError, schema: z.ZodType, advice?: Advice): Issue[] {
  const issues: Issue[] = [];
  for (const issue of error.issues) {
    for (const problem of flattened(issue, [])) {
      if (issues.length === MAX_PROBLEMS) return [...issues, MORE];
      issues.push(issueOf(problem, { schema, advice }));
    }
  }
  return issues.length < MAX_PROBLEMS ? issues : [...issues, MORE];
}

const MORE: Issue = {
  path: "",
  message: `there may be more problems: no more than ${MAX_PROBLEMS} are looked for`,
};

/** Reads a value by its schema, or throws every problem at once. */
export function checked<Schema extends z.ZodType>(schema: Schema, value: unknown): z.infer<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const issues = issuesOf(parsed.error, schema);
  throw apiError.InvalidRequest(`The request has ${problems(issues)}.`, { issues });
}

/** The error for a request with one problem. */
export function invalidField(path: string, message: string): ApiError {
  return apiError.InvalidRequest("The request has a problem.", { issues: [{ path, message }] });
}

/** How many problems there are; each is in the answer's `issues`. */
export function problems(issues: readonly Issue[]): string {
  return issues.length === 1 ? "a problem" : `${issues.length} problems`;
}

type Problem =
  | { readonly kind: "unknown"; readonly path: Path }
  | { readonly kind: "wrong" | "wrong-name"; readonly path: Path; readonly issue: z.core.$ZodIssue };

function* flattened(issue: z.core.$ZodIssue, above: Path): Generator<Problem> {
  const path = [...above, ...issue.path];
  if (issue.code === "unrecognized_keys") {
    for (const key of issue.keys) yield { kind: "unknown", path: [...path, key] };
  } else if (issue.code === "invalid_key") {
    // The key of an entry is wrong; the path names the key.
    for (const inner of issue.issues) yield { kind: "wrong-name", path, issue: inner };
  } else if (issue.code === "invalid_union" && issue.errors.length > 0) {
    // The problems are those of the shape that fits best.
    const [closest = []] = issue.errors.toSorted((a, b) => problemCount(a) - problemCount(b));
    for (const inner of closest) yield* flattened(inner, path);
  } else yield { kind: "wrong", path, issue };
}

function problemCount(issues: readonly z.core.$ZodIssue[]): number {
  return issues.reduce((sum, issue) => sum + (issue.code === "unrecognized_keys" ? issue.keys.length : 1), 0);
}

interface Known {
  readonly schema: z.ZodType;
  readonly advice: Advice | undefined;
}

function issueOf(problem: Problem, known: Known): Issue {
  const path = jsonPath(problem.path);
  if (problem.kind === "unknown") return { path, message: unknownField(problem.path, known) };
  if (problem.kind === "wrong-name") return { path, message: problemWords(problem.issue) };
  return { path, message: wrongValue(problem, known) };
}

function wrongValue({ path, issue }: { path: Path; issue: z.core.$ZodIssue }, { advice }: Known): string {
  const words = problemWords(issue);
  if (!advice) return words;
  const held = heldAt(advice.submitted, path);
  const instead = advice.value(path, held);
  if (instead !== undefined) return `${words}: ${instead}`;
  const isOutOfBounds = typeof held === "number" && !words.includes(", not ");
  return isOutOfBounds ? `${words}, not ${held}` : words;
}

function unknownField(path: Path, { schema, advice }: Known): string {
  const name = String(path.at(-1));
  const other = advice?.field(path, heldAt(advice.submitted, path));
  if (other !== undefined) return `there is no field '${shown(name)}' here: ${other}`;
  const known = fieldsAt(schema, path.slice(0, -1));
  const near = nearest(name, known);
  const remedy =
    near === undefined ? `leave it out; there are ${known.join(", ")}` : `did you mean '${near}'?`;
  return `there is no field '${shown(name)}': ${remedy}`;
}

/** What stands at a path of a value; undefined if nothing does. */
function heldAt(value: unknown, path: Path): unknown {
  return path.reduce<unknown>((held, step) => {
    if (typeof held !== "object" || held === null || !Object.hasOwn(held, step)) return undefined;
    return Reflect.get(held, step);
  }, value);
}

/** The fields that an object may have at a path of a schema. */
function fieldsAt(schema: z.ZodType, path: Path): string[] {
  const [step, ...rest] = path;
  const shapes = shapesOf(schema);
  if (step === undefined) {
    return [
      ...new Set(shapes.flatMap((shape) => (shape instanceof z.ZodObject ? Object.keys(shape.shape) : []))),
    ];
  }
  const inner = shapes.map((shape) => {
    if (shape instanceof z.ZodObject) return shape.shape[String(step)];
    return shape instanceof z.ZodArray ? shape.element : undefined;
  });
  return [...new Set(inner.flatMap((one) => (one ? fieldsAt(one as z.ZodType, rest) : [])))];
}

/** What a schema is under its wrappers; of a union, each of its options. */
function shapesOf(schema: z.ZodType): z.ZodType[] {
  const isWrapper =
    schema instanceof z.ZodOptional || schema instanceof z.ZodNullable || schema instanceof z.ZodDefault;
  if (isWrapper) {
    return shapesOf(schema.unwrap() as z.ZodType);
  }
  if (schema instanceof z.ZodPipe) return shapesOf(schema.in as z.ZodType);
  if (schema instanceof z.ZodUnion) return schema.options.flatMap((option) => shapesOf(option as z.ZodType));
  return [schema];
}

/** Such as `inputs[0].glob`. */
function jsonPath(path: Path): string {
  return path.reduce<string>((text, step) => {
    if (typeof step === "number" || step === "") return `${text}[${String(step)}]`;
    return text === "" ? shown(String(step)) : `${text}.${shown(String(step))}`;
  }, "");
}

function shown(name: string): string {
  return name.length > MAX_SHOWN_CHARACTERS ? `${name.slice(0, MAX_SHOWN_CHARACTERS)}…` : name;
}

const KINDS: Readonly<Record<string, string>> = {
  string: "a string",
  number: "a number",
  int: "a whole number",
  boolean: "true or false",
  array: "a list",
  object: "an object",
  record: "an object",
  null: "null",
};

/** A problem in words for the writer of the value. A schema's own words are kept. */
function problemWords(issue: z.core.$ZodIssue): string {
  // zod's messages begin like this; those of our schemas never do.
  if (!/^(Invalid|Too (small|big)|Unrecognized|Expected)/.test(issue.message)) return issue.message;
  switch (issue.code) {
    case "invalid_type":
      return typeWords(issue);
    case "too_small":
      return boundWords(issue.origin, issue.inclusive === false ? "more than" : "at least", issue.minimum);
    case "too_big":
      return boundWords(issue.origin, issue.inclusive === false ? "less than" : "at most", issue.maximum);
    case "invalid_value":
      return `must be ${oneOf(issue.values)}`;
    case "invalid_union":
      return "options" in issue ? `must be ${oneOf(issue.options ?? [])}` : issue.message;
    default:
      return issue.message;
  }
}

function typeWords({ expected, message }: z.core.$ZodIssueInvalidType): string {
  const wanted = KINDS[expected] ?? `a ${expected}`;
  const [, received = ""] = /received (.+)$/.exec(message) ?? [];
  if (received === "undefined") return `is required: ${wanted}`;
  if (expected === "int") return `must be ${wanted}`;
  return `must be ${wanted}, not ${KINDS[received] ?? received}`;
}

function boundWords(origin: string, relation: string, bound: number | bigint): string {
  if (origin === "array")
    return `must hold ${relation} ${bound} ${Number(bound) === 1 ? "entry" : "entries"}`;
  if (origin === "string") return `must have ${relation} ${bound} characters`;
  return `must be ${relation} ${bound}`;
}

function oneOf(values: readonly unknown[]): string {
  return values.length === 1 ? String(values[0]) : `one of ${values.join(", ")}`;
}
