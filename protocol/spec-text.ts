import { type Document, LineCounter, parseDocument, visit } from "yaml";
import { utf8Length } from "./paths.ts";

/*
 * Reads a text that a specification is written in. The command line and the gateway read it by this same code, so that what the
 * gateway keeps beside a specification comes to it.
 */

/** The text of a specification that is kept beside it has no more bytes, in UTF-8. */
const MAX_SPEC_TEXT_BYTES = 1_000_000;
/**
 * Nor more characters that may begin a value of YAML, or a fault. The gateway reads a text in one go, and the time that it takes
 * grows with these, not with the bytes.
 */
const MAX_SPEC_TEXT_MARKS = 20_000;

/**
 * Aliases that one text may follow: a few lines of them could stand for more than any memory holds. For each that it follows the
 * library walks the document once.
 */
const MAX_ALIASES = 100;
/**
 * Characters that a value in YAML comes to in JSON, about: what one anchor names counts at each reference to it. More than two
 * specifications of the largest size.
 */
const MAX_CHARACTERS = 2_000_000;
/** Pairs of names that are compared at most, since each of an object is compared with all before it. */
const MAX_COMPARED = 1_000_000;

/** Frames of a stack that an error remembers; of V8, so that no type knows it. */
const STACK_LIMIT = "stackTraceLimit";

/** What a text in YAML 1.2 holds, or its first fault. */
export type YamlRead =
  | { readonly ok: true; readonly value: unknown }
  /** Another document begins at a line, from 1. */
  | { readonly ok: false; readonly fault: "several-documents"; readonly line: number }
  | { readonly ok: false; readonly fault: "not-yaml"; readonly why: string };

/** The value of a text in YAML 1.2. Never throws. */
export function readYaml(content: string): YamlRead {
  const lineCounter = new LineCounter();
  const stackTraceLimit: unknown = Reflect.get(Error, STACK_LIMIT);
  try {
    // The library goes on after a fault and makes an error of each. The stack of one weighs 1 KB, and nobody reads it.
    Reflect.set(Error, STACK_LIMIT, 0);
    // What the library would warn of it tells Node, which says it on stderr, in words about JavaScript.
    const options = { lineCounter, prettyErrors: false, logLevel: "error", uniqueKeys: comparer() } as const;
    const document = parseDocument(content, options);
    const [fault] = document.errors;
    if (fault) {
      const { line, col } = lineCounter.linePos(fault.pos[0]);
      if (fault.code === "MULTIPLE_DOCS") return { ok: false, fault: "several-documents", line };
      return notYaml(`line ${line}, column ${col}: ${fault.message}`);
    }
    if (document.contents === null) return notYaml("it is empty");
    if (hasManyAliases(document)) return notYaml(`it has more than ${MAX_ALIASES} aliases (*)`);
    const value: unknown = document.toJS({ maxAliasCount: MAX_ALIASES });
    const problem = jsonProblem(value);
    return problem === undefined ? { ok: true, value } : notYaml(problem);
  } catch (error) {
    return notYaml(error instanceof Error ? error.message : String(error));
  } finally {
    Reflect.set(Error, STACK_LIMIT, stackTraceLimit);
  }
}

/** The value of a text that is JSON, or else YAML. Never throws. */
export function readSpecText(content: string): YamlRead {
  try {
    return { ok: true, value: JSON.parse(content) };
  } catch {
    return readYaml(content);
  }
}

/** Why a text is not kept, however good it is; undefined if it is. */
export function specTextFault(content: string): string | undefined {
  const bytes = utf8Length(content);
  if (bytes > MAX_SPEC_TEXT_BYTES) return `has ${bytes} bytes, and may have ${MAX_SPEC_TEXT_BYTES}`;
  let marks = 0;
  for (const _ of content.matchAll(/[\n,[\]{}?:&*!"']|- /g)) {
    if (++marks > MAX_SPEC_TEXT_MARKS)
      return `has more than ${MAX_SPEC_TEXT_MARKS} lines, commas, colons, brackets, quotes and &, * and !`;
  }
  return undefined;
}

/** Says whether two names of an object are the same, as the library does by itself, for so long as that is no endless work. */
function comparer(): (one: unknown, other: unknown) => boolean {
  let compared = 0;
  return (one, other) => {
    if (++compared > MAX_COMPARED) throw new Error("an object has too many fields");
    if (one === other) return true;
    const [left, right] = [one, other].map((name) => (name as { readonly value?: unknown } | null)?.value);
    return left !== undefined && left === right;
  };
}

function notYaml(why: string): YamlRead {
  return { ok: false, fault: "not-yaml", why };
}

function hasManyAliases(document: Document): boolean {
  let aliases = 0;
  visit(document, { Alias: () => (++aliases > MAX_ALIASES ? visit.BREAK : undefined) });
  return aliases > MAX_ALIASES;
}

/**
 * Why a value is none that JSON may hold; undefined if it is. Characters are counted before any text is made of them: a value
 * that aliases stand for is small, and its JSON may be a hundred times the text.
 */
function jsonProblem(value: unknown): string | undefined {
  let characters = 0;
  let isLong = false;
  try {
    JSON.stringify(value, (name, part: unknown) => {
      characters += name.length + charactersOf(part);
      isLong = characters > MAX_CHARACTERS;
      if (isLong) throw new Error("it is too long");
      return part;
    });
    return undefined;
  } catch {
    return isLong
      ? `with what its aliases (*) stand for it has more than ${MAX_CHARACTERS} characters`
      : "an alias (*) stands inside of what it names";
  }
}

/** Of a value by itself, in JSON: what it holds counts when it is reached. */
function charactersOf(part: unknown): number {
  if (typeof part === "string") return part.length;
  // Of `!!binary`. JSON has a field for each byte, such as `"1000":255,`.
  return ArrayBuffer.isView(part) ? part.byteLength * 8 : 4;
}
