import type { Rows } from "./table.tsx";
import { MOST_ROWS } from "./table.tsx";

/** The rows of text with separators. Undefined: it is none. `isCut`: the last line may not be whole. */
export async function rowsOfText(text: string, isCut: boolean): Promise<Rows | undefined> {
  const { default: papa } = await import("papaparse");
  const { data } = papa.parse<string[]>(text, { preview: MOST_ROWS + 2, skipEmptyLines: true });
  const [head, ...rows] = isCut && data.length < MOST_ROWS + 2 ? data.slice(0, -1) : data;
  return head && { head, rows };
}

/** The rows of lines of JSON. Undefined: a line is no JSON. */
export function rowsOfLines(text: string, isCut: boolean): Rows | undefined {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  const whole = isCut ? lines.slice(0, -1) : lines;
  try {
    return rowsOf(whole.slice(0, MOST_ROWS + 1).map((line) => JSON.parse(line)));
  } catch {
    return undefined;
  }
}

/** A list, or an object by its names, as rows. Undefined: it is neither, or is cut. */
export function rowsOfJson(text: string): Rows | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (Array.isArray(value)) return value.length === 0 ? undefined : rowsOf(value);
  if (!isRecord(value)) return undefined;
  return { head: ["name", "value"], rows: Object.entries(value).map(([name, one]) => [name, cellOf(one)]) };
}

function rowsOf(values: readonly unknown[]): Rows | undefined {
  const some = values.slice(0, MOST_ROWS + 1);
  if (some.length === 0) return undefined;
  if (!some.every(isRecord)) return { head: ["value"], rows: some.map((value) => [cellOf(value)]) };
  const head = [...new Set(some.flatMap((value) => Object.keys(value)))];
  return {
    head,
    rows: some.map((value) => head.map((name) => (Object.hasOwn(value, name) ? cellOf(value[name]) : ""))),
  };
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function cellOf(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "");
}
