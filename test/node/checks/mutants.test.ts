import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { countsOf, faultsOf } from "../../mutants/faults.ts";
import type { Invariant, Mutant } from "../../mutants/mutant.ts";
import { tryMutants } from "../../mutants/try-mutants.ts";
import { ROOT } from "../../support/dev-server.ts";
import { scratchFolder } from "../../support/scratch.ts";

const CODE = "code/sum.ts";
const TEST = "test/node/sum.test.ts";
const FILES: Readonly<Record<string, string>> = {
  [CODE]:
    "export function sum(a: number, b: number): number {\n  return a + b;\n}\nexport function half(a: number): number {\n  return a / 2;\n}\n",
  [TEST]:
    'import { expect, test } from "vitest";\nimport { half, sum } from "../../code/sum.ts";\ntest("adds", () => expect(sum(2, 3)).toBe(5));\ntest("halves", () => expect(typeof half(4)).toBe("number"));\n',
  "test/node/fails.test.ts":
    'import { expect, test } from "vitest";\ntest("never holds", () => expect(1).toBe(2));\n',
  "vitest.config.ts":
    'export default { test: { projects: [{ test: { name: "node", include: ["test/node/**/*.test.ts"] } }] } };\n',
  "package.json": '{ "type": "module" }\n',
  ".gitignore": "node_modules\n.wrangler\n",
};

function tree(): string {
  const root = scratchFolder();
  for (const [path, text] of Object.entries(FILES)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  mkdirSync(join(root, "node_modules"));
  symlinkSync(join(ROOT, "node_modules/vitest"), join(root, "node_modules/vitest"));
  spawnSync("git", ["init", "--quiet"], { cwd: root });
  return root;
}

function mutant(text: string, replacement: string, file = TEST): Mutant {
  return {
    name: `${text} becomes ${replacement}`,
    file: CODE,
    text,
    replacement,
    tests: [{ project: "node", file }],
  };
}

const ADDS = mutant("a + b", "a - b");
const HALVES = mutant("a / 2", "a / 3");

describe("a list of mutants", () => {
  const root = tree();
  const invariants = (...mutants: Mutant[]): Invariant[] => [{ id: "1", mutants }];
  const pageOf = (of: readonly Invariant[]) => `| 1 | it holds | tests |\n\n${countsOf(of)}\n`;
  const faults = (...mutants: Mutant[]) =>
    faultsOf(root, pageOf(invariants(...mutants)), invariants(...mutants));
  const THIRD = mutant("number): number {\n  return a + b", "number): number {\n  return 5");

  test("has no fault if each text is there once, and an invariant has three", () => {
    expect(faults(ADDS, HALVES, THIRD)).toEqual([]);
  });

  test.each([
    ["a text is not there", mutant("a * b", "a"), "its text is in code/sum.ts 0 times"],
    ["a text is there twice", mutant("return a", "return 1"), "its text is in code/sum.ts 2 times"],
    ["nothing changes", mutant("a + b", "a + b"), "its replacement is its text"],
    [
      "a test is not there",
      mutant("a + b", "b", "test/node/none.test.ts"),
      "there is no test test/node/none",
    ],
    ["a file is not there", { ...ADDS, file: "code/none.ts" }, "there is no file code/none.ts"],
    ["no test is named", { ...ADDS, name: "none", tests: [] }, "it names no test"],
  ])("is at fault if %s", (_, wrong, fault) => {
    expect(faults(ADDS, HALVES, THIRD, { ...wrong, name: "wrong" })).toEqual([
      expect.stringContaining(`invariant 1, "wrong": ${fault}`),
    ]);
  });

  test("is at fault if an invariant has too few, or the page says something else", () => {
    expect(faults(ADDS, HALVES)).toEqual(["invariant 1 has 2 mutants, and needs 3"]);
    expect(faultsOf(root, "| 1 | it holds | tests |", invariants(ADDS, HALVES, THIRD))).toEqual([
      "the page must say: There are 3 mutants: 3 of 1.",
    ]);
    const three = invariants(ADDS, HALVES, THIRD);
    expect(faultsOf(root, countsOf(three), three)).toEqual([
      "there are mutants of invariant 1, which the page does not have",
    ]);
  });
});

describe("mutants that are tried", () => {
  const tried = async (root: string, mutants: Mutant[], withinMs = 60_000) => {
    const lines: string[] = [];
    const say = (line: string) => void lines.push(line);
    const invariants = [{ id: "1", mutants }];
    const isProof = await tryMutants({ root, invariants, trees: 1, withinMs, say });
    return { isProof, said: lines.map((line) => line.replace(/^ *[\d.]+ s {2}/, "")) };
  };

  test("are caught, survive, or prove nothing, each in a copy of the tree, of which nothing is left", async () => {
    const root = tree();
    const { isProof, said } = await tried(root, [
      ADDS,
      HALVES,
      mutant("a + b;", "a + b + c;"),
      mutant("export function sum", "export function summ"),
      { ...mutant("a / 2;", "a / 4;", "test/node/fails.test.ts") },
      {
        name: "nobody sees it",
        file: CODE,
        text: "a + b",
        replacement: "b + a",
        equivalent: "a sum has no order",
      },
    ]);
    expect(said.sort()).toEqual([
      "",
      expect.stringMatching(/^1 {4}PROVES NOTHING: a \+ b; becomes .*ReferenceError: c is not defined/),
      expect.stringMatching(/^1 {4}PROVES NOTHING: a \/ 2; becomes .*fails.test.ts does not pass without it/),
      expect.stringMatching(/^1 {4}PROVES NOTHING: export function sum becomes/),
      "1    SURVIVED: a / 2 becomes a / 3 (test/node/sum.test.ts)",
      "1    caught: a + b becomes a - b (adds)",
      "1    equivalent: nobody sees it (a sum has no order)",
      "6 mutants: 1 caught, 1 equivalent, 1 survived, 3 proves nothing",
      "invariant 1    1 caught, 1 equivalent, 1 survived, 3 proves nothing",
    ]);
    expect(isProof).toBe(false);
    expect(readFileSync(join(root, CODE), "utf8")).toBe(FILES[CODE]);
    expect(readdirSync(join(root, ".wrangler/mutants"))).toEqual([]);
  });

  test("are left out if no time is left", async () => {
    const { isProof, said } = await tried(tree(), [ADDS], 0);
    expect(said).toContain("1 mutants: 1 left out");
    expect(isProof).toBe(true);
  });
});
