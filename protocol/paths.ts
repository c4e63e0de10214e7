/**
 * What a file may be called in the tree. Shared by the gateway, which refuses other names, and by the runner,
 * which refuses an output file before it is sent.
 */

/** S3's bound on a key, in bytes of UTF-8 (S3 User Guide, "Creating object key names"). */
export const MAX_PATH_BYTES = 1024;

export type PathFault =
  | "empty"
  | "too-long"
  | "empty-segment"
  | "dot-segment"
  | "control-character"
  | "not-unicode"
  /** Never of the path alone: bytes were put to a path that ends in "/". */
  | "directory-with-bytes";

const CONTROL = /[\u0000-\u001f\u007f]/;

/** Why `path` can't be stored, if it can't. No leading slash; a trailing one marks an empty directory ("a/b/"). */
export function pathFault(path: string): PathFault | undefined {
  if (path === "") return "empty";
  if (!path.isWellFormed()) return "not-unicode";
  if (utf8Length(path) > MAX_PATH_BYTES) return "too-long";
  if (CONTROL.test(path)) return "control-character";
  const segments = (path.endsWith("/") ? path.slice(0, -1) : path).split("/");
  if (segments.includes("")) return "empty-segment";
  if (segments.includes(".") || segments.includes("..")) return "dot-segment";
  return undefined;
}

/** One sentence a fault, for people. */
export const PATH_FAULT_TEXT: Record<PathFault, string> = {
  empty: "a path must not be empty",
  "too-long": `a path must be at most ${MAX_PATH_BYTES} bytes of UTF-8`,
  "empty-segment": "a path must not start with '/' or hold '//'",
  "dot-segment": "a path must not hold the segments '.' or '..'",
  "control-character": "a path must not hold control characters",
  "not-unicode": "a path must be valid Unicode",
  "directory-with-bytes": "a path that ends in '/' is an empty directory and must have no bytes",
};

/** Bytes of a text in UTF-8. */
export function utf8Length(text: string): number {
  let bytes = 0;
  for (const character of text) {
    const point = character.codePointAt(0) as number;
    bytes += point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
  }
  return bytes;
}
