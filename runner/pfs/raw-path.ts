import { chmod } from "node:fs/promises";
import { errorCode } from "../lib/fault.ts";

/**
 * Paths as the bytes that Linux sees. A command may give its files names that are not UTF-8; as strings they would
 * name other files, or none. Folders are therefore read with the encoding "latin1", which keeps each byte as one
 * character, and opened by Buffer.
 */
export type RawPath = string | Buffer;

/** The path of an entry of a folder; `name` as read with the encoding "latin1". */
export function childPath(folder: RawPath, name: string): Buffer {
  return Buffer.concat([Buffer.from(folder as string), SLASH, Buffer.from(name, "latin1")]);
}

const SLASH = Buffer.from("/");
// Fatal, and a byte order mark is part of the name.
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The name as text, or undefined if it is not UTF-8. */
export function nameText(name: string): string | undefined {
  try {
    return utf8.decode(Buffer.from(name, "latin1"));
  } catch {
    return undefined;
  }
}

/** A name for people, whatever its bytes are: everything but plain ASCII is escaped. */
export function printable(name: string): string {
  return shortened(
    name.replace(/[^\x20-\x7e]/g, (char) => `\\x${char.charCodeAt(0).toString(16).padStart(2, "0")}`),
  );
}

/** A path that is text, in quotes, for people. Characters that would change the line around it are escaped. */
export function quotedPath(path: string): string {
  const plain = JSON.stringify(path).replace(
    UNSEEN,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  return `"${shortened(plain.slice(1, -1))}"`;
}

// Control characters that JSON leaves as they are, line separators, and what turns the direction of the text.
const UNSEEN = /[\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

const MAX_SHOWN = 300;
const SHOWN_END = 100;

/** Bounds a long name, so that the reason around it keeps room for what it says. */
function shortened(name: string): string {
  if (name.length <= MAX_SHOWN) return name;
  return `${name.slice(0, MAX_SHOWN - SHOWN_END)}…${name.slice(-SHOWN_END)}`.toWellFormed();
}

/**
 * Does `work`. If permission is denied, gives `path` the mode and does it once more. A command may take its own
 * files' permissions away (`umask 777`, an unpacked archive); the agent, of the same user, gives them back. `path`
 * must be known to be no link, because chmod follows links.
 */
export async function permitted<T>(
  { path, mode }: { path: RawPath; mode: number },
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (errorCode(error) !== "EACCES") throw error;
    await chmod(path, mode);
    return work();
  }
}
