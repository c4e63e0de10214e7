import { yamlLanguage } from "@codemirror/lang-yaml";
import { stringify } from "yaml";
import type { Place } from "./place.ts";
import type { Offer } from "./schema.ts";

/*
 * Where one is in a specification that is being written in YAML. The editor's own parser reads a text that is not whole, too.
 */

type SyntaxNode = ReturnType<ReturnType<typeof yamlLanguage.parser.parse>["resolveInner"]>;

/** Where a value is written, or is still to come behind its colon. Undefined: another place. */
export function valuePlaceAt(text: string, position: number): Place | undefined {
  const before = text.slice(0, position);
  const written = before.trimEnd();
  // On the next line a name may begin, and what touches its colon is no value in YAML.
  if (before.slice(written.length).includes("\n") || before.endsWith(":")) return undefined;
  const { name, parent: pair } = yamlLanguage.parser.parse(text).resolveInner(written.length, -1);
  const value = pair?.lastChild;
  if (pair?.name !== "Pair" || !value || (name !== ":" && !SCALARS.has(name))) return undefined;
  const isThere = SCALARS.has(value.name) && value.from <= position;
  if (isThere && value.to < position) return undefined;
  if (!isThere && name !== ":") return undefined;
  const { from, to } = isThere ? value : { from: position, to: position };
  return { path: pathTo(pair, text), kind: "value", from, to, names: [], hasValue: false };
}

const SCALARS: ReadonlySet<string> = new Set(["Literal", "QuotedLiteral"]);

/**
 * Where a name is written, or may be. Undefined: another place. A name that is still to come has no colon, and what has none
 * is a value to the parser, if it is anything: so it is asked what the text would be with a name and a colon there.
 */
export function namePlaceAt(text: string, position: number): Place | undefined {
  const [left = ""] = /[\w$]*$/.exec(text.slice(0, position)) ?? [];
  const [right = ""] = /^[\w$]*/.exec(text.slice(position)) ?? [];
  const [from, to] = [position - left.length, position + right.length];
  const [before, written, behind] = [text.slice(0, from), text.slice(from, to), text.slice(to)];
  if (/^[^\s:,}]/.test(behind)) return undefined;
  const hasValue = /^ *:(?!\S)/.test(behind);
  const whole = hasValue ? text : `${before}${written || "x"}: ${behind}`;
  const key = yamlLanguage.parser.parse(whole).resolveInner(from, 1).parent;
  const pair = key?.parent;
  const mapping = pair?.parent;
  if (key?.name !== "Key" || !pair || !mapping) return undefined;
  // A list may have a pair without braces, and what stands too far to the left is taken for the beginning of another name.
  const isIn =
    mapping.name === "FlowMapping"
      ? IN_BRACES.test(before) && whole[mapping.from] === "{"
      : AT_BEGIN.test(before) && mapping.parent?.name !== "Key";
  if (!isIn) return undefined;
  const others = mapping.getChildren("Pair").filter((other) => other.from !== pair.from);
  const names = others.map((other) => nameOf(other, whole));
  return { path: pathTo(pair, whole).slice(0, -1), kind: "name", from, to, names, hasValue };
}

/** Before a name in braces. */
const IN_BRACES = /[{,]\s*$/;
/** Before a name that begins its line, or an object of a list. */
const AT_BEGIN = /(?:^|\n) *(?:- +)*$/;

/** The names and numbers of all that is around a value, or a name. */
function pathTo(pair: SyntaxNode, text: string): (string | number)[] {
  const path: (string | number)[] = [];
  let node: SyntaxNode | null = pair;
  while (node) {
    const parent: SyntaxNode | null = node.parent;
    if (node.name === "Item" && parent) path.unshift(placeAmong(parent.getChildren("Item"), node));
    if (node.name === "Pair") path.unshift(nameOf(node, text));
    // The parser takes what is in brackets that have no end for the name of something: it is none.
    node = parent?.name === "Key" ? (parent.parent?.parent ?? null) : parent;
  }
  return path;
}

/** The library makes a node anew each time that one asks for it. */
function placeAmong(items: readonly SyntaxNode[], { from }: SyntaxNode): number {
  return items.findIndex((item) => item.from === from);
}

function nameOf(pair: SyntaxNode, text: string): string {
  const key = pair.getChild("Key");
  return key ? text.slice(key.from, key.to).replace(/^(["'])(.*)\1$/, "$2") : "";
}

interface Around {
  /** The text before what is written. */
  readonly before: string;
  readonly written: string;
}

/** What is offered as JSON, as YAML has it: a name without quotes, a value in those that are there, or in those that it needs. */
export function inYaml(offer: Offer, { before, written }: Around): Offer {
  const { label: name, text, blank } = offer;
  if (blank !== undefined) return { ...offer, text: `${name}:${behindName(blank, before)}` };
  if (text === `"${name}"^`) return { ...offer, text: `${name}^` };
  if (!name.startsWith('"')) return offer;
  const [quote = ""] = /^["']/.exec(written) ?? [];
  const label = quote ? `${quote}${JSON.parse(name)}${quote}` : unquoted(name);
  return { ...offer, label, text: `${label}^` };
}

/** What is inside of an object or of a list stands in lines of its own, unless the name is in braces. */
function behindName(blank: string, before: string): string {
  if (blank.startsWith('"')) return ` ${blank === '"^"' ? "^" : `${unquoted(blank.slice(0, -1))}^`}`;
  const isOpened = blank.startsWith("{") || blank.startsWith("[");
  if (!isOpened || IN_BRACES.test(before)) return ` ${blank}`;
  const column = before.length - before.lastIndexOf("\n") - 1;
  return `\n${" ".repeat(column + 2)}${blank.startsWith("[") ? "- " : ""}^`;
}

function unquoted(json: string): string {
  return stringify(JSON.parse(json)).trimEnd();
}
