import { visibleJson, visibleLine, visibleText } from "./visible.ts";

/** What commands print, on stdout. */
export function printLine(line: string): void {
  process.stdout.write(`${visibleLine(line)}\n`);
}

/** Several lines. */
export function printText(text: string): void {
  process.stdout.write(`${visibleText(text)}\n`);
}

/** What is said beside the answer, on stderr. */
export function printNote(line: string): void {
  process.stderr.write(`${visibleLine(line)}\n`);
}

/** A line that somebody's command printed: as it is for a program that reads on, to be looked at on a terminal. */
export function printOutput(
  start: string,
  line: string,
  { to = process.stdout }: { to?: NodeJS.WriteStream } = {},
): void {
  const shown = to.isTTY ? visibleLine(line) : line;
  to.write(`${visibleLine(start)}${shown}\n`);
}

/** One JSON document on one line. */
export function printJson(value: unknown): void {
  process.stdout.write(`${visibleJson(value)}\n`);
}

/** Columns padded to their widest cell; the first row is the heading. */
export function printTable(cells: readonly (readonly string[])[]): void {
  // Before they are measured: what is shown is longer.
  const rows = cells.map((row) => row.map(visibleLine));
  const widths: number[] = [];
  for (const row of rows) {
    for (const [column, cell] of row.entries()) widths[column] = Math.max(widths[column] ?? 0, cell.length);
  }
  for (const row of rows) {
    printLine(
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd(),
    );
  }
}

/** Milliseconds since 1970 as `2026-01-31 12:00:00` in UTC. */
export function showTime(millis: number | null): string {
  return millis === null ? "-" : new Date(millis).toISOString().slice(0, 19).replace("T", " ");
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

/** Bytes for people. */
export function showSize(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${UNITS[unit]}`;
}

/** `1 file`, `2 files`. */
export function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

/** The repos that a key is for, on one line. */
export function showRepos(repos: readonly string[] | null): string {
  return repos === null ? "all repos" : repos.join(" ");
}
