import papa from "papaparse";
import { CliError } from "../output/failure.ts";
import { showSize } from "../output/output.ts";

/** Characters of one row, at most: a quote that is never closed makes one row of all that follows. */
const MAX_ROW_CHARACTERS = 4 * 1024 * 1024;

/**
 * The rows of a CSV file (RFC 4180) in batches, the header first, as it is read. UTF-8, with or without its mark; CRLF and LF are the
 * same, also in a quoted field; empty lines are passed over. Throws a CliError with the row's number for what is none: every row has as
 * many fields as the header.
 */
export async function* rowsOf(
  bytes: AsyncIterable<Buffer>,
  { separator }: { readonly separator: string },
): AsyncGenerator<string[][]> {
  let known = 0;
  let fields: number | undefined;
  for await (const text of wholeRows(textOf(bytes), () => known)) {
    const options = { delimiter: separator, newline: "\n", skipEmptyLines: true } as const;
    const { data, errors } = papa.parse<string[]>(text, options);
    const [fault] = errors;
    if (fault) throw badRow(known + (fault.row ?? 0) + 1, fault.message);
    for (const [index, row] of data.entries()) {
      fields ??= row.length;
      if (row.length === fields) continue;
      throw badRow(known + index + 1, `it has ${row.length} fields, and the header ${fields}`);
    }
    known += data.length;
    if (data.length > 0) yield data;
  }
}

/**
 * The text in pieces that end where a row does: the parser takes its input whole. Quotes come in pairs, so a line end behind an even
 * number of them is no part of a field. `known`: how many rows there were before.
 */
async function* wholeRows(pieces: AsyncIterable<string>, known: () => number): AsyncGenerator<string> {
  let rest = "";
  let isOdd = false;
  for await (const piece of pieces) {
    isOdd = isOdd !== hasOddQuotes(piece);
    const text = rest + piece;
    const end = lastRowEnd(text, isOdd, piece.length);
    if (end > 0) yield text.slice(0, end);
    rest = text.slice(end);
    if (rest.length <= MAX_ROW_CHARACTERS) continue;
    const most = showSize(MAX_ROW_CHARACTERS);
    throw badRow(known() + 1, `it is longer than ${most}, or a quote in it is never closed`);
  }
  if (rest !== "") yield rest;
}

/** Where the last whole row ends; 0 if none does. `isOdd`: the text has an odd number of quotes. Only the last `fresh` characters are looked at. */
function lastRowEnd(text: string, isOdd: boolean, fresh: number): number {
  let isWithin = isOdd;
  let behind = text.length;
  for (let at = text.lastIndexOf("\n"); at >= text.length - fresh; at = text.lastIndexOf("\n", at - 1)) {
    isWithin = isWithin !== hasOddQuotes(text.slice(at, behind));
    if (!isWithin) return at + 1;
    if (at === 0) break;
    behind = at;
  }
  return 0;
}

function hasOddQuotes(text: string): boolean {
  let isOdd = false;
  for (let at = text.indexOf('"'); at >= 0; at = text.indexOf('"', at + 1)) isOdd = !isOdd;
  return isOdd;
}

/** `row`: from 1 on, which is the header; lines of a quoted field and empty lines do not count. */
function badRow(row: number, what: string): CliError {
  return new CliError(`row ${row} is no CSV: ${what}`, { code: "BadCsv" });
}

/** UTF-8 as text, without a byte order mark, its line ends as "\n". Throws a CliError for other bytes. */
async function* textOf(bytes: AsyncIterable<Buffer>): AsyncGenerator<string> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let held = "";
  const decoded = (piece?: Buffer): string => {
    try {
      return piece ? decoder.decode(piece, { stream: true }) : decoder.decode();
    } catch {
      throw new CliError("it is not UTF-8", { code: "BadCsv" });
    }
  };
  for await (const piece of bytes) {
    let text = held + decoded(piece);
    // What is behind it may be the other half of a line end.
    held = text.endsWith("\r") ? "\r" : "";
    if (held) text = text.slice(0, -1);
    text = text.replaceAll("\r\n", "\n");
    if (text !== "") yield text;
  }
  const last = held + decoded();
  if (last !== "") yield last.replace(/\r$/, "\n");
}
