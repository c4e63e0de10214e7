import { counted, countText } from "../../../parts/words.tsx";

/** Cells of the first rows of a file. */
interface Rows {
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

/** Most rows and columns that are shown of a table. */
const MOST_ROWS = 500;
const MOST_COLUMNS = 60;
/** Characters of a cell. */
const MOST_IN_CELL = 300;

/** A table as text, each cell. `isCut`: the file has more than was read. */
export function Table({
  label = "Table",
  of = "row",
  head,
  rows,
  isCut,
}: Rows & { readonly label?: string; readonly of?: string; readonly isCut: boolean }) {
  const shown = rows.slice(0, MOST_ROWS);
  const width = Math.min(Math.max(head.length, ...shown.map((row) => row.length)), MOST_COLUMNS);
  const columns = Array.from({ length: width }, (_, index) => index);
  const isAll = !isCut && rows.length <= MOST_ROWS && head.length <= MOST_COLUMNS;
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keys. */}
      <section className="cells" aria-label={label} tabIndex={0}>
        <table>
          <thead>
            <tr>
              {columns.map((column) => (
                <th key={column} scope="col">
                  {head[column] ?? ""}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map((row, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: rows of a file have no other name.
              <tr key={index}>
                {columns.map((column) => (
                  <td key={column}>{cellText(row[column] ?? "")}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      <p className="quiet">
        {isAll ? "" : "The first "}
        {counted(shown.length, of)}
        {head.length > MOST_COLUMNS && `, ${countText(MOST_COLUMNS)} of ${countText(head.length)} columns`}.
      </p>
    </>
  );
}

function cellText(text: string): string {
  return text.length > MOST_IN_CELL ? `${text.slice(0, MOST_IN_CELL)}…` : text;
}

export type TableKind = "table" | "json" | "json-lines";

/** The rows of a text; JSON must be a flat list. Undefined: it has none. `isCut`: the file has more than was read. */
export async function rowsOf(kind: TableKind, text: string, isCut: boolean): Promise<Rows | undefined> {
  if (kind === "json") return rowsOfValues(JSON.parse(text));
  return kind === "table" ? await rowsOfText(text, isCut) : rowsOfLines(text, isCut);
}

/** The rows of text with separators. Undefined: it is none. `isCut`: the last line may not be whole. */
async function rowsOfText(text: string, isCut: boolean): Promise<Rows | undefined> {
  const { default: papa } = await import("papaparse");
  const { data } = papa.parse<string[]>(text, { preview: MOST_ROWS + 2, skipEmptyLines: true });
  const [head, ...rows] = isCut && data.length < MOST_ROWS + 2 ? data.slice(0, -1) : data;
  return head && { head, rows };
}

/** The rows of lines of JSON. Undefined: a line is no JSON. */
function rowsOfLines(text: string, isCut: boolean): Rows | undefined {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  const whole = isCut ? lines.slice(0, -1) : lines;
  try {
    return rowsOfValues(whole.slice(0, MOST_ROWS + 1).map((line) => JSON.parse(line)));
  } catch {
    return undefined;
  }
}

/** Whether a value is a list of objects that hold no others: such is a table. */
export function isFlatList(value: unknown): boolean {
  const isFlat = (one: unknown) =>
    isRecord(one) && Object.values(one).every((inner) => typeof inner !== "object" || inner === null);
  return Array.isArray(value) && value.length > 0 && value.every(isFlat);
}

function rowsOfValues(values: readonly unknown[]): Rows | undefined {
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
