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

/** The names and numbers of all that is around a value. */
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

/** What is offered as JSON, as YAML has it: in the quotes that are there, or in those that it needs. */
export function inYaml(offer: Offer, written: string): Offer {
  if (!offer.label.startsWith('"')) return offer;
  const value: string = JSON.parse(offer.label);
  const [quote = ""] = /^["']/.exec(written) ?? [];
  const label = quote ? `${quote}${value}${quote}` : stringify(value).trimEnd();
  return { ...offer, label, text: `${label}^` };
}
