import papa from "papaparse";
import { useMemo, useState } from "react";
import { counted, countText } from "../../../parts/words.tsx";

/** Most rows and columns that are shown, and characters of a cell. */
const MOST_ROWS = 500;
const MOST_COLUMNS = 60;
const MOST_IN_CELL = 300;

/** One side of a table: each row by the name of the column, as far as the column has one. */
interface Table {
  readonly columns: readonly string[];
  readonly rows: readonly ReadonlyMap<string, string>[];
}

type RowChange = {
  readonly key: string;
  readonly before: ReadonlyMap<string, string> | undefined;
  readonly after: ReadonlyMap<string, string> | undefined;
};

/** The columns that tell rows apart in both, in order. */
interface Keyed {
  readonly before: Table;
  readonly after: Table;
  readonly keys: readonly string[];
}

/** Both sides as tables. Undefined: no column that both have tells their rows apart, so that rows can't be told to be the same. */
export function keyed(before: string, after: string): Keyed | undefined {
  const [left, right] = [tableOf(before), tableOf(after)];
  const keys = left.columns.filter(
    (name) => right.columns.includes(name) && isKey(left, name) && isKey(right, name),
  );
  return keys.length === 0 ? undefined : { before: left, after: right, keys };
}

function tableOf(text: string): Table {
  const { data } = papa.parse<string[]>(text, { skipEmptyLines: true });
  const [columns = [], ...rows] = data;
  return {
    columns,
    rows: rows.map((row) => new Map(columns.map((name, index) => [name, row[index] ?? ""]))),
  };
}

function isKey({ rows }: Table, column: string): boolean {
  const values = new Set(rows.map((row) => row.get(column)));
  return values.size === rows.length && !values.has("");
}

/** What two tables have differently, by row: those of a key are the same row, wherever they stand. */
export function Rows({ before, after, keys }: Keyed) {
  const [key, setKey] = useState(keys[0] ?? "");
  const changes = useMemo(() => changesOf({ before, after }, key), [before, after, key]);
  const columns = [...after.columns, ...before.columns.filter((name) => !after.columns.includes(name))];
  const shown = changes.slice(0, MOST_ROWS);
  return (
    <>
      <p className="line">
        <label>
          Rows are the same by{" "}
          <select value={key} onChange={({ target }) => setKey(target.value)}>
            {keys.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <span className="quiet">{countsText(changes)}</span>
      </p>
      {shown.length > 0 && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keys.
        <section className="cells" aria-label="Rows that differ" tabIndex={0}>
          <table>
            <thead>
              <tr>
                <th scope="col">Change</th>
                {columns.slice(0, MOST_COLUMNS).map((name) => (
                  <th key={name} scope="col" className={columnMark(name, { before, after })}>
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {shown.map((change) => (
                <tr key={change.key}>
                  <td>{kindOf(change)}</td>
                  {columns.slice(0, MOST_COLUMNS).map((name) => (
                    <td key={name}>
                      <Cell was={change.before?.get(name)} is={change.after?.get(name)} />
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
      {changes.length > MOST_ROWS && (
        <p className="quiet">The first {counted(MOST_ROWS, "row")} that differ.</p>
      )}
    </>
  );
}

function Cell({ was, is }: { readonly was: string | undefined; readonly is: string | undefined }) {
  if (was === is) return shortened(is ?? "");
  return (
    <>
      {was !== undefined && <del>{shortened(was)}</del>}
      {was !== undefined && is !== undefined && " "}
      {is !== undefined && <ins>{shortened(is)}</ins>}
    </>
  );
}

function shortened(text: string): string {
  return text.length > MOST_IN_CELL ? `${text.slice(0, MOST_IN_CELL)}…` : text;
}

function kindOf({ before, after }: RowChange): "added" | "removed" | "changed" {
  return before ? (after ? "changed" : "removed") : "added";
}

function columnMark(name: string, { before, after }: Pick<Keyed, "before" | "after">): string | undefined {
  if (!before.columns.includes(name)) return "added";
  return after.columns.includes(name) ? undefined : "deleted";
}

function countsText(changes: readonly RowChange[]): string {
  const counts = Map.groupBy(changes, kindOf);
  const parts = [...counts].map(([kind, some]) => `${countText(some.length)} ${kind}`);
  return parts.join(", ") || "No row differs: their order, or how they are written, does.";
}

/** In the order of what is there now; what went comes last. */
function changesOf({ before, after }: Pick<Keyed, "before" | "after">, column: string): RowChange[] {
  const was = new Map(before.rows.map((row) => [row.get(column) ?? "", row]));
  const is = new Map(after.rows.map((row) => [row.get(column) ?? "", row]));
  return [...new Set([...is.keys(), ...was.keys()])]
    .map((key) => ({ key, before: was.get(key), after: is.get(key) }))
    .filter(({ before: left, after: right }) => !left || !right || differ(left, right));
}

function differ(one: ReadonlyMap<string, string>, other: ReadonlyMap<string, string>): boolean {
  return [...new Set([...one.keys(), ...other.keys()])].some((name) => one.get(name) !== other.get(name));
}
