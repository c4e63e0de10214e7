import papa from "papaparse";
import type { PathChange } from "../../protocol/commits.ts";
import type { Issue } from "../../protocol/errors.ts";
import type { Client } from "../gateway/client.ts";
import { CliError, UsageError } from "../output/failure.ts";
import { count, printNote } from "../output/output.ts";
import { type ChangedFile, changedFile, type Sides } from "./changed-file.ts";
import { type CsvOptions, printCsvDiff } from "./csv.ts";
import { printTextDiff } from "./text.ts";

/** Some of what differs, by path. */
export interface DiffedPage {
  readonly sides: Sides;
  readonly changes: readonly PathChange[];
}

export interface ContentDiffOptions {
  readonly text?: true;
  /** Key columns with commas between; `true`: no key. */
  readonly csv?: string | true;
  readonly stat?: true;
  readonly json?: true;
  /** A file, or a folder. */
  readonly path?: string;
}

/**
 * Prints how files differ, one after the other, by line or by row. A file that can't be compared keeps no other from it: at the end a
 * CliError names all such files.
 */
export async function printContentDiff(
  client: Client,
  pages: AsyncIterable<DiffedPage>,
  options: ContentDiffOptions,
): Promise<void> {
  const csv = csvOptions(options);
  let skipped = 0;
  let compared = 0;
  const issues: Issue[] = [];
  for await (const file of filesOf(client, pages, options.path)) {
    if (csv && !isTable(file.path) && file.path !== options.path) {
      skipped++;
      continue;
    }
    compared++;
    try {
      await (csv ? printCsvDiff(file, csv) : printTextDiff(file));
    } catch (error) {
      // What is no fault of the file would be none of the next one either.
      if (!(error instanceof CliError) || !FAULTS_OF_FILES.has(error.code)) throw error;
      issues.push({ path: file.path, message: error.message });
    }
  }
  if (skipped > 0)
    printNote(
      `${count(skipped, "file")} left out: no .csv or .tsv. --path takes one by its name, --text all`,
    );
  if (compared + skipped === 0 && options.path !== undefined) {
    printNote(`no bytes differ at '${options.path}'`);
  }
  if (issues.length === 0) return;
  const which = compared === 1 ? "the file" : `${issues.length} of ${compared} files`;
  throw new CliError(`${which} can't be compared by rows`, { code: "NotCompared", issues });
}

const FAULTS_OF_FILES: ReadonlySet<string> = new Set(["BadCsv", "NoSuchColumn", "TooLarge"]);

function csvOptions({ csv, stat, json }: ContentDiffOptions): CsvOptions | undefined {
  if (csv === undefined) return undefined;
  // A name with a comma stands between quotes, as in the file.
  const [keys = []] = csv === true ? [] : papa.parse<string[]>(csv, { delimiter: "," }).data;
  if (csv !== true && (keys.length === 0 || keys.includes(""))) {
    throw new UsageError(`--csv is '${csv}': name columns with commas between, as in --csv id,day`);
  }
  return { keys, stat: stat === true, json: json === true };
}

function isTable(path: string): boolean {
  return /\.(csv|tsv|tab)$/i.test(path);
}

/** Those at a path or below it. */
async function* filesOf(
  client: Client,
  pages: AsyncIterable<DiffedPage>,
  path: string | undefined,
): AsyncGenerator<ChangedFile> {
  for await (const { sides, changes } of pages) {
    for (const change of changes) {
      if (path !== undefined && !isWithin(change.path, path)) continue;
      const file = changedFile(client, sides, change);
      if (file) yield file;
    }
  }
}

function isWithin(path: string, place: string): boolean {
  if (place === "" || path === place) return true;
  return path.startsWith(place.endsWith("/") ? place : `${place}/`);
}
