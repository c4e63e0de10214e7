import { counted, countText } from "../../../parts/numbers.ts";

/** Cells of the first rows of a file. */
export interface Rows {
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

/** Most rows and columns that are shown of a table. */
export const MOST_ROWS = 500;
const MOST_COLUMNS = 60;
/** Characters of a cell. */
const MOST_IN_CELL = 300;

/** A table as text, each cell. `isCut`: the file has more than was read. */
export function Table({ head, rows, isCut }: Rows & { readonly isCut: boolean }) {
  const shown = rows.slice(0, MOST_ROWS);
  const columns = Math.min(Math.max(head.length, ...shown.map((row) => row.length)), MOST_COLUMNS);
  const places = Array.from({ length: columns }, (_, index) => index);
  const isAll = !isCut && rows.length <= MOST_ROWS && head.length <= MOST_COLUMNS;
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keys. */}
      <section className="cells" aria-label="Table" tabIndex={0}>
        <table>
          <thead>
            <tr>
              {places.map((place) => (
                <th key={place} scope="col">
                  {head[place] ?? ""}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map((row, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: rows of a file have no other name.
              <tr key={index}>
                {places.map((place) => (
                  <td key={place}>{cellText(row[place] ?? "")}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      <p className="quiet">
        {isAll ? "" : "The first "}
        {counted(shown.length, "row")}
        {head.length > MOST_COLUMNS && `, ${countText(MOST_COLUMNS)} of ${countText(head.length)} columns`}.
      </p>
    </>
  );
}

function cellText(text: string): string {
  return text.length > MOST_IN_CELL ? `${text.slice(0, MOST_IN_CELL)}…` : text;
}
