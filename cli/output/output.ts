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

/** One JSON document on one line. Times are text by RFC 3339, in UTC, whoever told them: S3 has them so, the control API as numbers. */
export function printJson(value: unknown): void {
  process.stdout.write(`${visibleJson(value, { replacer: timeAsText })}\n`);
}

/** Fields with a time: on the wire milliseconds since 1970. What people may write freely holds no numbers. */
const TIME_FIELD = /^at$|At$/;

function timeAsText(name: string, value: unknown): unknown {
  return TIME_FIELD.test(name) && typeof value === "number" ? new Date(value).toISOString() : value;
}

/**
 * Columns padded to their widest cell; the first row is the heading. On a terminal, lines end where it does, and states have
 * their colours. Into a pipe or a file everything goes, as it is.
 */
export function printTable(cells: readonly (readonly string[])[]): void {
  const { isTTY, columns } = process.stdout;
  const lines = tableLines(cells);
  // A terminal that does not know its size says 0.
  const shown = isTTY ? lines.map((line) => coloured(cut(line, columns || 80))) : lines;
  process.stdout.write(shown.map((line) => `${line}\n`).join(""));
}

function cut(line: string, columns: number): string {
  return line.length > columns ? `${line.slice(0, columns - 1)}…` : line;
}

/** Red, green and yellow, by their numbers (ECMA-48, SGR). */
const [RED, GREEN, YELLOW] = [31, 32, 33];
const COLOURS: Readonly<Record<string, number>> = {
  ...{ failure: RED, failed: RED, killed: YELLOW, stopped: YELLOW, dead: RED },
  ...{ success: GREEN, active: GREEN, running: GREEN, live: GREEN },
};
/** A cell that is a state stands between two spaces, or at the end. */
const STATES = new RegExp(`(?<=  )(${Object.keys(COLOURS).join("|")})(?=  |$)`, "g");

/** `NO_COLOR`: see https://no-color.org. */
function coloured(line: string): string {
  if (process.env.NO_COLOR || process.env.TERM === "dumb") return line;
  return line.replace(STATES, (state) => `\u001b[${COLOURS[state]}m${state}\u001b[0m`);
}

/** The lines of a table. */
export function tableLines(cells: readonly (readonly string[])[]): string[] {
  // Before they are measured: what is shown is longer.
  const rows = cells.map((row) => row.map(visibleLine));
  const widths: number[] = [];
  for (const row of rows) {
    for (const [column, cell] of row.entries()) widths[column] = Math.max(widths[column] ?? 0, cell.length);
  }
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd(),
  );
}

/** Characters of an id that are shown at least: its time and some of its random ones, or what tells digests apart. */
const SHORT_CHARACTERS = 13;

/**
 * Shortens ids for a table on a terminal, so far that each still begins like no other of the table: what is typed then is
 * found again. What a program reads has them whole.
 */
export function shortener(ids: readonly string[]): (id: string) => string {
  if (!process.stdout.isTTY) return (id) => id;
  const sorted = [...new Set(ids)].sort();
  const shorts = new Map<string, string>();
  for (const [index, id] of sorted.entries()) {
    const alike = Math.max(sharedBy(id, sorted[index - 1]), sharedBy(id, sorted[index + 1]));
    shorts.set(id, id.slice(0, Math.max(SHORT_CHARACTERS, alike + 1)));
  }
  return (id) => shorts.get(id) ?? id;
}

/** How many characters two texts begin with alike. */
function sharedBy(one: string, other = ""): number {
  const end = [...one].findIndex((character, index) => character !== other[index]);
  return end < 0 ? one.length : end;
}

/** Milliseconds since 1970 as `2026-01-31 12:00:00 +01:00`, in the zone of this machine (`TZ`). */
export function showTime(millis: number | null): string {
  if (millis === null) return "-";
  const ahead = -new Date(millis).getTimezoneOffset();
  const local = new Date(millis + ahead * 60_000).toISOString().slice(0, 19).replace("T", " ");
  const digits = (number: number) => String(Math.floor(number)).padStart(2, "0");
  const [hours, minutes] = [Math.abs(ahead) / 60, Math.abs(ahead) % 60];
  return `${local} ${ahead < 0 ? "-" : "+"}${digits(hours)}:${digits(minutes)}`;
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

/** `1 file`, `2 files`; `plural` if it is not the noun with an s. */
export function count(number: number, noun: string, plural = `${noun}s`): string {
  return `${number} ${number === 1 ? noun : plural}`;
}

/** The repos that a key is for, on one line. */
export function showRepos(repos: readonly string[] | null): string {
  return repos === null ? "all repos" : repos.join(" ");
}

/** As a shell would take it. */
export function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
