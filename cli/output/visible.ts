/**
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
