import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { coverageOf, shownCoverage } from "./coverage.ts";

test("a branch is taken if one process took it; files that no process had are missed whole", () => {
  const root = mkdtempSync(join(tmpdir(), "sluice-coverage-"));
  const written = join(root, "written");
  mkdirSync(join(root, "code"));
  mkdirSync(written);
  const source = "export const f = (a: number) => (a > 1 ? 'more' : a || 'none');\n";
  const file = join(root, "code/f.ts");
  writeFileSync(file, source);
  writeFileSync(join(root, "code/unused.ts"), "if (Date.now()) throw 1;\n");
  const place = (text: string, count: number) => {
    const startOffset = source.indexOf(text);
    return { startOffset, endOffset: startOffset + text.length, count };
  };
  const whole = place(source, 1);
  const runs = [
    [whole, place("'more'", 0), place("'none'", 0)],
    [whole, place("a || 'none'", 0)],
  ];
  for (const [process, ranges] of runs.entries()) {
    // One of them had it with small limits.
    const url = `${pathToFileURL(file).href}${process === 1 ? "?small" : ""}`;
    const result = [{ url, functions: [{ ranges }] }];
    writeFileSync(join(written, `${process}.json`), JSON.stringify({ result }));
  }
  const files = coverageOf(written, { root, folders: ["code"] });
  rmSync(root, { recursive: true });
  expect(files).toEqual([
    { file: "code/f.ts", branches: 3, missed: [{ line: 1, text: "'none'" }] },
    { file: "code/unused.ts", branches: 1, missed: [{ line: 1, text: "throw 1;" }] },
  ]);
  expect(shownCoverage(files, ["code"])).toEqual([
    "code/f.ts:1: 'none'",
    "code/unused.ts:1: throw 1;",
    "code: 50.0 % of 4 branches",
  ]);
});
