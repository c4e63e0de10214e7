import type { z } from "zod";

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

/** What is wrong with a value, for whoever wrote it. A schema's own words are kept. */
export function problemWords(issue: z.core.$ZodIssue): string {
  if (!isOfZod(issue.message)) return issue.message;
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

/** zod's messages begin so; those of our schemas never do. */
function isOfZod(message: string): boolean {
  return /^(Invalid|Too (small|big)|Unrecognized|Expected)/.test(message);
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
