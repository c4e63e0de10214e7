import type { FileSpans } from "../../branch/contract/erasures.ts";
import { datumPaths } from "../../core/datums.ts";
import type { ComputedOutput, OutputsCall, OutputsPage } from "../contract.ts";
import { candidates } from "../inputs/candidates.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Definition } from "../lifecycle/definition.ts";
import type { MadePlace } from "../output/published-store.ts";

/** Rows of the history of outputs that one call looks at: what takes some tens of milliseconds. */
const ROWS = 2000;

/**
 * The files of outputs whose datums read files of an input, as the branch had them in some commits: by the history of
 * outputs, which is kept as long as those. There is no index for that question, since only people ask it, about what they
 * erase.
 */
export function computedFrom(ledger: Ledger, { repo, branch, files, after }: OutputsCall): OutputsPage {
  if (!ledger.exists || !ledger.pipeline.definition()) return { outputs: [], next: null };
  const place: MadePlace = after === undefined ? { path: "", born: 0, key: "" } : JSON.parse(after);
  const rows = ledger.makers.page(place, ROWS);
  const outputs: ComputedOutput[] = [];
  const readers = new Map<number, readonly Reader[]>();
  for (const row of rows) {
    const job = ledger.jobs.get(row.born);
    const definition = job && ledger.pipeline.definitionAt(job.revision);
    if (!job || !definition) continue;
    const reading = readers.get(job.revision) ?? readersOf(definition, { repo, branch, files });
    readers.set(job.revision, reading);
    const paths = datumPaths(row.key);
    const reads = reading.some(({ input, source, elements }) => {
      const at = job.positions[source];
      return elements
        .get(paths[input] ?? "")
        ?.some(
          ({ generation, spans }) =>
            at?.generation === generation && spans.some(({ born, died }) => at.seq >= born && at.seq < died),
        );
    });
    if (!reads) continue;
    outputs.push({ ...definition.output, path: row.path, job: job.id, commit: job.outputCommit });
  }
  const last = rows.at(-1);
  const next = last && rows.length === ROWS ? { path: last.path, born: last.born, key: last.key } : null;
  return { outputs, next: next && JSON.stringify(next) };
}

/** An input that reads the branch. */
interface Reader {
  /** Which of the inputs it is. */
  readonly input: number;
  readonly source: number;
  /** The elements that hold some of the files, and when they did. */
  readonly elements: ReadonlyMap<string, readonly FileSpans[]>;
}

function readersOf({ inputs }: Definition, { repo, branch, files }: Omit<OutputsCall, "after">): Reader[] {
  return inputs.flatMap((input, index) => {
    if (input.repo !== repo || input.branch !== branch) return [];
    const elements = new Map<string, FileSpans[]>();
    for (const file of files) {
      for (const { path } of candidates([{ path: file.path, now: null }], new Map([[index, input]]))) {
        const there = elements.get(path) ?? [];
        elements.set(path, there);
        there.push(file);
      }
    }
    return [{ input: index, source: input.source, elements }];
  });
}
