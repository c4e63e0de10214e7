/*
 * Where one is in the text of a specification that is being written: it is seldom whole, so this reads JSON as far as it
 * goes, and takes what is not JSON for something that is still to come.
 */

type Step = string | number;

/** What stands, or would stand, at a place of the text. */
export interface Place {
  /** From the root to the object whose name it is, or to the value itself. */
  readonly path: readonly Step[];
  readonly kind: "name" | "value";
  /** Where what is written there begins and ends; both are the place itself if nothing is. */
  readonly from: number;
  readonly to: number;
  /** Names that the object has already, but this one. */
  readonly names: readonly string[];
  /** Whether a colon follows: the name has a value. */
  readonly hasValue: boolean;
}

interface Token {
  readonly from: number;
  readonly to: number;
  /** `word` is whatever is neither a string nor punctuation. */
  readonly kind: "string" | "word" | "{" | "}" | "[" | "]" | ":" | ",";
}

/** A string may lack its end: it then ends with its line. */
const TOKEN = /"(?:[^"\\\n]|\\.)*"?|[{}[\]:,]|[^\s{}[\]:,"]+/g;

function tokensOf(text: string): Token[] {
  return [...text.matchAll(TOKEN)].map(({ 0: token, index: from }) => {
    const [first = ""] = token;
    const kind = first === '"' ? "string" : "{}[]:,".includes(first) ? (first as Token["kind"]) : "word";
    return { from, to: from + token.length, kind };
  });
}

interface Level {
  readonly isObject: boolean;
  /** In an object the name whose value comes or came last. */
  step: Step | undefined;
  awaits: "name" | "value";
  readonly names: { readonly name: string; readonly from: number }[];
}

/** Where the cursor is. Undefined: outside of any object. */
export function placeAt(text: string, position: number): Place | undefined {
  const tokens = tokensOf(text);
  // The cursor is in what is written, or at its end; or before what comes next.
  const found = tokens.findIndex((token) => (isWritten(token) ? token.to : token.from) >= position);
  const index = found < 0 ? tokens.length : found;
  const levels: Level[] = [];
  for (const token of tokens.slice(0, index)) step(levels, token, text);
  const level = levels.at(-1);
  if (!level) return undefined;
  const isName = level.isObject && level.awaits === "name";
  const path = stepsTo(isName ? levels.slice(0, -1) : levels);
  const next = tokens[index];
  const written = next && isWritten(next) && next.from <= position ? next : undefined;
  const { from, to } = written ?? { from: position, to: position };
  // The object has names behind it, too.
  for (const token of tokens.slice(index)) step(levels, token, text);
  const names = level.names.filter((name) => name.from !== from).map(({ name }) => name);
  const hasValue = written !== undefined && tokens[index + 1]?.kind === ":";
  return { path, kind: isName ? "name" : "value", from, to, names, hasValue };
}

function stepsTo(levels: readonly Level[]): Step[] {
  return levels.flatMap(({ step: at }) => at ?? []);
}

function isWritten({ kind }: Token): boolean {
  return kind === "string" || kind === "word";
}

function step(levels: Level[], { kind, from, to }: Token, text: string): void {
  const level = levels.at(-1);
  switch (kind) {
    case "{":
      levels.push({ isObject: true, step: undefined, awaits: "name", names: [] });
      return;
    case "[":
      levels.push({ isObject: false, step: 0, awaits: "value", names: [] });
      return;
    case "}":
    case "]":
      levels.pop();
      valueDone(levels.at(-1));
      return;
    case ":":
      if (level) level.awaits = "value";
      return;
    case ",":
      if (level?.isObject) level.awaits = "name";
      else if (level) level.step = Number(level.step) + 1;
      return;
    default:
      if (!level?.isObject) return;
      if (level.awaits === "value") valueDone(level);
      else {
        level.step = text.slice(from, to).replaceAll('"', "");
        level.names.push({ name: String(level.step), from });
      }
  }
}

/** Behind a value comes the next name, also if the comma between them is still to come. */
function valueDone(level: Level | undefined): void {
  if (level?.isObject) level.awaits = "name";
}

/** `inputs[0].repo.name` as its steps. */
export function stepsOf(path: string): Step[] {
  return [...path.matchAll(/\[(\d+)\]|[^.[\]]+/g)].map(([name, index]) =>
    index === undefined ? name : Number(index),
  );
}

/** A part of the text. */
export interface Range {
  readonly from: number;
  readonly to: number;
}

/**
 * What of the text a problem at a path is about: the value, or, if it is not there, the name of the innermost one around it
 * that is. Nothing of it there: the first character.
 */
export function rangeOf(text: string, path: string): Range {
  const wanted = stepsOf(path);
  let best: Spot = { from: 0, to: Math.min(1, text.length), path: [] };
  for (const spot of spotsOf(text)) {
    const leads = spot.path.length <= wanted.length && spot.path.every((at, index) => at === wanted[index]);
    // The value of a name comes behind it, and is at the same path.
    if (leads && spot.path.length >= best.path.length) best = spot;
  }
  return { from: best.from, to: best.to };
}

interface Spot extends Range {
  readonly path: readonly Step[];
}

/** Each name and each value with its path. An object or a list is marked at its name: all that is in it would be too much. */
function* spotsOf(text: string): Generator<Spot> {
  const levels: Level[] = [];
  const tokens = tokensOf(text);
  for (const [index, token] of tokens.entries()) {
    step(levels, token, text);
    const isOpened = token.kind === "{" || token.kind === "[";
    if (!isOpened && !isWritten(token)) continue;
    const around = isOpened ? levels.slice(0, -1) : levels;
    const isNamed = isOpened && tokens[index - 1]?.kind === ":";
    const { from, to } = (isNamed ? tokens[index - 2] : token) ?? token;
    yield { from, to, path: stepsTo(around) };
  }
}
