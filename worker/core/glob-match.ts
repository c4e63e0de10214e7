import type { CharacterTest } from "./glob-class.ts";
import type { Piece } from "./glob-segments.ts";

/**
 * Matches a name against a segment by following all ways through it at once (K. Thompson, "Regular Expression Search
 * Algorithm", 1968): the cost is at most length of name × length of segment. A backtracking engine takes minutes for
 * `*a*a*a*a*b` on a name of a few hundred letters.
 */
export function segmentMatcher(pieces: readonly Piece[]): (name: string) => boolean {
  if (pieces.every(({ kind }) => kind === "star")) return () => true;
  const literal = literalStart(pieces);
  if (literal.whole) return (name) => name === literal.text;
  const start = build(pieces, ACCEPT);
  return (name) => name.startsWith(literal.text) && follow(start, [...name]);
}

/** The characters that every match begins with. `whole`: a match has no others. */
export function literalStart(pieces: readonly Piece[]): { readonly text: string; readonly whole: boolean } {
  let text = "";
  for (const piece of pieces) {
    if (piece.kind !== "one" || piece.literal === undefined) return { text, whole: false };
    text += piece.literal;
  }
  return { text, whole: true };
}

type Node =
  | { readonly kind: "accept" }
  | { readonly kind: "one"; readonly test: CharacterTest; readonly next: Node }
  | { readonly kind: "fork"; readonly to: Node[] }
  /** Matches if `start` does not match the rest of the name. */
  | { readonly kind: "except"; readonly start: Node };

const ACCEPT: Node = { kind: "accept" };

function build(pieces: readonly Piece[], next: Node): Node {
  return pieces.reduceRight<Node>((after, piece) => nodeOf(piece, after), next);
}

function nodeOf(piece: Piece, next: Node): Node {
  switch (piece.kind) {
    case "one":
      return { kind: "one", test: piece.test, next };
    case "star": {
      const loop: Node = { kind: "fork", to: [next] };
      loop.to.push({ kind: "one", test: () => true, next: loop });
      return loop;
    }
    case "except":
      return { kind: "except", start: forkOf(piece.choices, ACCEPT) };
    case "group": {
      if (piece.mark === "@") return forkOf(piece.choices, next);
      if (piece.mark === "?") return { kind: "fork", to: [next, forkOf(piece.choices, next)] };
      const loop: Node = { kind: "fork", to: [next] };
      const once = forkOf(piece.choices, loop);
      loop.to.push(once);
      return piece.mark === "*" ? loop : once;
    }
  }
}

function forkOf(choices: readonly (readonly Piece[])[], next: Node): Node {
  return { kind: "fork", to: choices.map((choice) => build(choice, next)) };
}

function follow(start: Node, characters: readonly string[]): boolean {
  let here = closure([start]);
  for (const [index, character] of characters.entries()) {
    if (isExcepted(here, characters.slice(index))) return true;
    const next: Node[] = [];
    for (const node of here) if (node.kind === "one" && node.test(character)) next.push(node.next);
    if (next.length === 0) return false;
    here = closure(next);
  }
  return here.has(ACCEPT) || isExcepted(here, []);
}

/** All nodes that these reach without a character. */
function closure(nodes: readonly Node[]): Set<Node> {
  const reached = new Set(nodes);
  for (const node of reached) {
    if (node.kind === "fork") for (const to of node.to) reached.add(to);
  }
  return reached;
}

function isExcepted(here: ReadonlySet<Node>, rest: readonly string[]): boolean {
  for (const node of here) if (node.kind === "except" && !follow(node.start, rest)) return true;
  return false;
}
