import picomatch from "picomatch/posix.js";
import { describe, expect, it } from "vitest";
import { ancestors, type Glob, parseGlob } from "../../../worker/core/glob.ts";
import { modelPath, type Name, type Part } from "./naive-glob.ts";

/** A linear congruential generator: the same run every time. */
class Dice {
  #state: number;

  constructor(seed: number) {
    this.#state = seed;
  }

  below(limit: number): number {
    this.#state = (Math.imul(this.#state, 1664525) + 1013904223) >>> 0;
    return Math.floor((this.#state / 2 ** 32) * limit);
  }

  pick<T>(choices: readonly T[]): T {
    return choices[this.below(choices.length)] as T;
  }

  times<T>(least: number, most: number, make: () => T): T[] {
    return Array.from({ length: least + this.below(most - least + 1) }, make);
  }
}

const CHARACTERS = ["a", "b", "c", ".", "-", "é", "😀", "*", "[", "]", "{", "}", ",", "\\", "!", "(", " "];
const COMMON = ["a", "b", "c", "."];
const SPECIAL = "*?[]{},(\\";

function randomPart(dice: Dice): Part {
  switch (dice.below(6)) {
    case 0:
      return { kind: "any" };
    case 1:
    case 2:
      return { kind: "star" };
    case 3: {
      const ranges = dice.times(1, 2, () =>
        [dice.pick(COMMON), dice.pick([...COMMON, "é", "😀"])].toSorted(),
      );
      return { kind: "class", negated: dice.below(2) === 0, ranges: ranges as [string, string][] };
    }
    default:
      return { kind: "literal", character: dice.pick(dice.below(3) === 0 ? CHARACTERS : COMMON) };
  }
}

function randomNames(dice: Dice): Name[] {
  return dice.times(1, 3, () => (dice.below(5) === 0 ? "**" : dice.times(1, 3, () => randomPart(dice))));
}

function written(part: Part): string {
  switch (part.kind) {
    case "any":
      return "?";
    case "star":
      return "*";
    case "class":
      return `[${part.negated ? "!" : ""}${part.ranges.map(([low, high]) => `${low}-${high}`).join("")}]`;
    case "literal":
      return SPECIAL.includes(part.character) ? `\\${part.character}` : part.character;
  }
}

function writtenNames(names: readonly Name[]): string {
  return names.map((name) => (name === "**" ? name : name.map(written).join(""))).join("/");
}

/** Every file and directory of a random tree, the root too. */
function randomTree(dice: Dice): string[] {
  const name = (): string => {
    const text = dice.times(1, 3, () => dice.pick(dice.below(4) === 0 ? CHARACTERS : COMMON)).join("");
    return text === "." || text === ".." ? "dot" : text;
  };
  const files = dice.times(5, 25, () => dice.times(1, 4, name).join("/"));
  return [...new Set(files.flatMap((file) => [...ancestors(file), file]))];
}

function read(text: string): Glob {
  const parsed = parseGlob(text);
  if (!parsed.ok) throw new Error(`${text}: ${parsed.problem}`);
  return parsed.glob;
}

/** Parts that would be read as something else: as `**`, or as a name that no path has. */
function isMisread(names: readonly Name[]): boolean {
  return names.some((name) => name !== "**" && [".", "..", "**"].includes(name.map(written).join("")));
}

interface Case {
  readonly text: string;
  /** Whether the model matches a path. */
  readonly wants: (path: string) => boolean;
}

/** A glob of up to three alternatives. */
function randomCase(dice: Dice): Case {
  for (;;) {
    const choices = dice.times(1, 3, () => randomNames(dice));
    if (choices.some(isMisread)) continue;
    const texts = choices.map(writtenNames).join(",");
    return {
      text: choices.length === 1 ? `/${texts}` : `/{${texts}}`,
      wants: (path) => path !== "" && choices.some((names) => modelPath(names, path.split("/"))),
    };
  }
}

describe("globs on random trees", () => {
  it("match what a naive model says, file or directory", () => {
    const dice = new Dice(11);
    let hits = 0;
    for (let round = 0; round < 400; round++) {
      const tree = randomTree(dice);
      for (const { text, wants } of dice.times(15, 15, () => randomCase(dice))) {
        const glob = read(text);
        const expected = tree.filter(wants);
        expect(tree.filter(glob.matches), text).toEqual(expected);
        const early = expected.every((path) => path.startsWith(glob.prefix));
        expect(early, `${text} begins with ${glob.prefix}`).toBe(true);
        const above = expected.flatMap(ancestors).filter((directory) => !glob.mayMatchBelow(directory));
        expect(above, `${text} is looked for below its directories`).toEqual([]);
        hits += expected.length;
      }
    }
    expect(hits).toBeGreaterThan(5000);
  });

  it("say of most directories that nothing below can match", () => {
    expect(["", "a", "b", "a/x", "a/x/y"].filter(read("/a/*").mayMatchBelow)).toEqual(["", "a"]);
    expect(["", "a", "b"].filter(read("/").mayMatchBelow)).toEqual([]);
    expect(["", "a", "b", "b/c"].filter(read("/{a,b/**}").mayMatchBelow)).toEqual(["", "b", "b/c"]);
  });

  it("begin as far as they are literal", () => {
    const prefixes = ["/", "/*", "/foo*", "/a/b/*", "/a/b", "/a/**", "/{ab,ac}/x", "/\\*a?", "/[a]b"].map(
      (glob) => read(glob).prefix,
    );
    expect(prefixes).toEqual(["", "", "foo", "a/b/", "a/b", "a/", "a", "*a", ""]);
  });
});

describe("globs and a library of globs", () => {
  it("agree on names of ASCII", () => {
    const dice = new Dice(5);
    const options = { dot: true, literalBrackets: false, noextglob: true, posix: true } as const;
    for (let round = 0; round < 3000; round++) {
      const text = dice.times(1, 4, () => dice.pick(["a", "b", "*", "?", "[ab]", "[!a]", "."])).join("");
      if (/^\.*$|\*\*/.test(text)) continue;
      const name = dice.times(1, 4, () => dice.pick(["a", "b", "."])).join("");
      if (name === "." || name === "..") continue;
      const glob = parseGlob(`/${text}`);
      if (!glob.ok) continue;
      expect(glob.glob.matches(name), `${text} on ${name}`).toBe(
        picomatch.isMatch(name, text, options as object),
      );
    }
  });
});
