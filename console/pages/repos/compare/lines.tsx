import { type StructuredPatch, structuredPatch } from "diff";
import { counted } from "../../../parts/words.tsx";

/** Lines around a change that are shown. */
const CONTEXT = 3;
/** Lines that may be added and removed before the search for the shortest way ends: it takes time with their square. */
const MAX_EDITS = 1000;
const MAX_MS = 500;
/** A browser takes seconds to lay out more. */
const MOST_ROWS = 2000;

interface Line {
  readonly number: number;
  readonly text: string;
}

/** What stands beside each other. Undefined: the side has nothing there. */
interface LineRow {
  readonly before: Line | undefined;
  readonly after: Line | undefined;
}

interface LinesProps {
  readonly before: string;
  readonly after: string;
}

/** Two texts side by side, by line: what differs, with some lines around it. */
export function Lines({ before, after }: LinesProps) {
  const options = { context: CONTEXT, maxEditLength: MAX_EDITS, timeout: MAX_MS };
  const patch = structuredPatch("", "", before, after, "", "", options);
  if (!patch) {
    return (
      <p className="quiet">So many lines differ that they are not set side by side: look at each version.</p>
    );
  }
  const hunks = patch.hunks.map(rowsOf);
  const count = hunks.reduce((sum, rows) => sum + rows.length, 0);
  let left = MOST_ROWS;
  const shown = hunks.map((rows) => {
    const some = rows.slice(0, Math.max(0, left));
    left -= some.length;
    return some;
  });
  return (
    <>
      <table className="lines">
        <caption className="hidden">Before and after, by line</caption>
        <colgroup>
          <col />
          <col />
          <col />
          <col />
        </colgroup>
        <thead className="hidden">
          <tr>
            <th scope="col">Line before</th>
            <th scope="col">Before</th>
            <th scope="col">Line after</th>
            <th scope="col">After</th>
          </tr>
        </thead>
        {shown.map((rows, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: hunks have no other name.
          <tbody key={index}>
            {rows.map(({ before, after }) => (
              <tr
                key={`${before?.number} ${after?.number}`}
                className={before?.text === after?.text ? "same" : undefined}
              >
                <Side line={before} side="before" />
                <Side line={after} side="after" />
              </tr>
            ))}
          </tbody>
        ))}
      </table>
      {count > MOST_ROWS && <p className="quiet">The first {counted(MOST_ROWS, "line")} of what differs.</p>}
    </>
  );
}

function Side({ line, side }: { readonly line: Line | undefined; readonly side: "before" | "after" }) {
  const names = line ? side : `${side} none`;
  return (
    <>
      <td className={`${names} number`}>{line?.number}</td>
      <td className={names}>{line?.text}</td>
    </>
  );
}

/** The lines of a hunk: those that went stand beside those that came in their place. */
function rowsOf({ oldStart, newStart, lines }: StructuredPatch["hunks"][number]): LineRow[] {
  const rows: LineRow[] = [];
  let [gone, came]: [Line[], Line[]] = [[], []];
  let [before, after] = [oldStart, newStart];
  const flush = (): void => {
    for (let n = 0; n < Math.max(gone.length, came.length); n++)
      rows.push({ before: gone[n], after: came[n] });
    [gone, came] = [[], []];
  };
  for (const line of lines) {
    const text = line.slice(1);
    if (line.startsWith("-")) gone.push({ number: before++, text });
    else if (line.startsWith("+")) came.push({ number: after++, text });
    else if (line.startsWith(" ")) {
      flush();
      rows.push({ before: { number: before++, text }, after: { number: after++, text } });
    }
  }
  flush();
  return rows;
}
