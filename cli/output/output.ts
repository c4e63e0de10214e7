/** What commands print, on stdout. */
export function printLine(line: string): void {
  process.stdout.write(`${visibleLine(line)}\n`);
}

/** Several lines. */
export function printText(text: string): void {
  process.stdout.write(`${visibleText(text)}\n`);
}

/** A text that somebody wrote, to the byte for a program that reads it, to be looked at on a terminal. */
export function printOwnText(text: string): void {
  const { isTTY } = process.stdout;
  const shown = isTTY ? visibleText(text) : text;
  process.stdout.write(isTTY && !shown.endsWith("\n") ? `${shown}\n` : shown);
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

interface TableOptions {
  /** So many of the last columns stand below each row on a terminal, each on lines of its own: what one came for is not cut. */
  readonly below?: number;
}

/**
 * Columns padded to their widest cell; the first row is the heading. On a terminal, lines end where it does, and states have
 * their colours. Into a pipe or a file everything goes, as it is, a line each.
 */
export function printTable(cells: readonly (readonly string[])[], options: TableOptions = {}): void {
  const lines = process.stdout.isTTY ? terminalLines(cells, options) : tableLines(cells);
  process.stdout.write(lines.map((line) => `${line}\n`).join(""));
}

/** How far what stands below a row is moved to the right. */
const INDENT = 4;

/** The lines of a table as a terminal shows them. */
export function terminalLines(
  cells: readonly (readonly string[])[],
  { below = 0, colours = true }: TableOptions & { readonly colours?: boolean } = {},
): string[] {
  const columns = terminalColumns();
  const beside = cells.map((row) => row.slice(0, row.length - below));
  return tableLines(beside).flatMap((line, index) => {
    const row = cut(line, columns);
    // The heading of what stands below says nothing that is not seen.
    const texts = index === 0 || below === 0 ? [] : (cells[index]?.slice(-below) ?? []);
    const lines = texts.flatMap((text) => wrapped(visibleLine(text), columns - 1 - INDENT));
    return [colours ? coloured(row) : row, ...lines.map((each) => `${" ".repeat(INDENT)}${each}`)];
  });
}

function terminalColumns(): number {
  // A terminal that does not know its size says 0.
  return process.stdout.columns || 80;
}

/** A line of text in as many lines as a terminal needs for all of it. */
export function terminalText(text: string): string[] {
  return wrapped(visibleLine(text), terminalColumns() - 1);
}

/** Text in lines of at most so many characters, which end between words unless a word is longer. */
function wrapped(text: string, width: number): string[] {
  const least = Math.max(1, width);
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ").filter((each) => each !== "")) {
    const longer = line === "" ? word : `${line} ${word}`;
    if (longer.length <= least) line = longer;
    else {
      if (line !== "") lines.push(line);
      line = word;
    }
    for (; line.length > least; line = line.slice(least)) lines.push(line.slice(0, least));
  }
  return line === "" ? lines : [...lines, line];
}

function cut(line: string, columns: number): string {
  return line.length > columns ? `${line.slice(0, columns - 1)}…` : line;
}

/** Red, green and yellow, by their numbers (ECMA-48, SGR). */
const [RED, GREEN, YELLOW] = [31, 32, 33];
const COLOURS: Readonly<Record<string, number>> = {
  ...{ failure: RED, failed: RED, killed: YELLOW, stopped: YELLOW, waiting: YELLOW, dead: RED },
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

const DAY_CHARACTERS = 10;

/** A time in few characters, for a table on a terminal: of today `12:00:00`, of this year `01-31 12:00`, else the day. */
export function showShortTime(millis: number | null, { now = Date.now() }: { now?: number } = {}): string {
  const text = showTime(millis);
  if (millis === null) return text;
  const today = showTime(now);
  const time = text.slice(DAY_CHARACTERS + 1);
  if (text.slice(0, DAY_CHARACTERS) === today.slice(0, DAY_CHARACTERS))
    return time.slice(0, "12:00:00".length);
  if (text.slice(0, "2026".length) !== today.slice(0, "2026".length)) return text.slice(0, DAY_CHARACTERS);
  return `${text.slice("2026-".length, DAY_CHARACTERS)} ${time.slice(0, "12:00".length)}`;
}

/** A time in a list: short on a terminal, and whole for a program that reads it. */
export function showListTime(millis: number | null): string {
  return process.stdout.isTTY ? showShortTime(millis) : showTime(millis);
}

const SPANS = [
  ["d", 24 * 60 * 60 * 1000],
  ["h", 60 * 60 * 1000],
  ["min", 60 * 1000],
  ["s", 1000],
] as const;

/** A span of time in at most two units, such as `2 h 5 min`. */
export function showSpan(ms: number): string {
  const first = SPANS.findIndex(([, unit]) => ms >= unit);
  if (first < 0) return "0 s";
  let rest = ms;
  const parts = SPANS.slice(first, first + 2).map(([name, unit]) => {
    const times = Math.floor(rest / unit);
    rest -= times * unit;
    return times > 0 ? [`${times} ${name}`] : [];
  });
  return parts.flat().join(" ");
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

/*
 * What others wrote (names, reasons, output of commands) must not steer the terminal of the person who reads it: escape
 * sequences could hide a line, forge one or reach the clipboard, and marks of direction make text read as another.
 * Such characters are shown as JSON writes them, such as `\u001b`.
 */

/** The controls of ASCII and Latin-1 but tab and newline, what ends a line in Unicode, and the marks of direction. */
const STEERING = /[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** Text of several lines, to be looked at. */
export function visibleText(text: string): string {
  return text.replace(STEERING, escaped);
}

/** Text that is to stay on one line. */
export function visibleLine(text: string): string {
  return visibleText(text).replaceAll("\n", "\\n");
}

/** A value as JSON on one line, which steers no terminal either: JSON itself escapes fewer characters. */
export function visibleJson(
  value: unknown,
  { indent, replacer }: { indent?: number; replacer?: (name: string, value: unknown) => unknown } = {},
): string {
  return visibleText(JSON.stringify(value, replacer, indent));
}

function escaped(character: string): string {
  if (character === "\r") return "\\r";
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
