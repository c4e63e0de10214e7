import { z } from "zod";

/** What a file holds: how many records, and of each field how many records fill it. */
export interface Profile {
  readonly records: number;
  readonly fields: ReadonlyMap<string, number>;
}

const Records = z.array(z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null()])));

/** Counts a file the straight way, in this process: what the pipelines must have come to. */
export function expectedProfile(name: string, text: string): Profile {
  return name.endsWith(".json") ? profileJson(text) : profileCsv(text);
}

function profileJson(text: string): Profile {
  const records = Records.parse(JSON.parse(text));
  const fields = new Map<string, number>();
  for (const record of records) {
    for (const [field, value] of Object.entries(record)) {
      fields.set(field, (fields.get(field) ?? 0) + (value === null ? 0 : 1));
    }
  }
  return { records: records.length, fields };
}

// The demo's CSV files have no quotes.
function profileCsv(text: string): Profile {
  const [heading = "", ...rows] = text.trimEnd().split("\n");
  const cells = rows.map((row) => row.split(","));
  const fields = heading
    .split(",")
    .map((field, column) => [field, cells.filter((row) => (row[column] ?? "") !== "").length] as const);
  return { records: rows.length, fields: new Map(fields) };
}

/** Reads what the `profile` pipeline wrote about one file. */
export function readProfile(text: string): Profile {
  let records = Number.NaN;
  const fields = new Map<string, number>();
  for (const line of text.trimEnd().split("\n")) {
    const [kind = "", first = "", second = ""] = line.split("\t");
    if (kind === "records") records = Number(first);
    else fields.set(first, Number(second));
  }
  return { records, fields };
}

/** What is wrong with a profile, in words; undefined if it is right. */
export function profileFault(actual: Profile, expected: Profile): string | undefined {
  if (actual.records !== expected.records) return `${actual.records} records instead of ${expected.records}`;
  if (actual.fields.size !== expected.fields.size) {
    return `${actual.fields.size} fields instead of ${expected.fields.size}`;
  }
  for (const [field, filled] of expected.fields) {
    const found = actual.fields.get(field);
    if (found !== filled) return `field ${field} is filled ${found} times instead of ${filled}`;
  }
  return undefined;
}

/** What is wrong with a report over these files, in words; undefined if it is right. */
export function reportFault(report: string, expected: ReadonlyMap<string, Profile>): string | undefined {
  const rows = report.trimEnd().split("\n").slice(1);
  const last = rows.pop() ?? "";
  if (rows.length !== expected.size) return `the report has ${rows.length} files instead of ${expected.size}`;
  for (const row of rows) {
    const [name = "", records, fields] = row.split(/ +/);
    const profile = expected.get(name);
    if (!profile) return `the report has a file ${name} that was never put`;
    if (Number(records) !== profile.records)
      return `${name}: ${records} records instead of ${profile.records}`;
    if (Number(fields) !== profile.fields.size)
      return `${name}: ${fields} fields instead of ${profile.fields.size}`;
  }
  const total = [...expected.values()].reduce((sum, { records }) => sum + records, 0);
  const wanted = `${expected.size} files ${total}`;
  return last.replace(/ +/g, " ").trim() === wanted
    ? undefined
    : `the last line is '${last}', not '${wanted}'`;
}
