import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ROOT } from "../../support/dev-server.ts";

const COMMENT = /\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm;
/** A file of source, with as much of its path as the comment gives. */
const NAMED = /(?<![\w./*-])(?:[\w-]+\/)*[\w.-]+\.tsx?\b/g;

test("a comment that names a file of source names one that there is", () => {
  const files = execFileSync("git", ["ls-files"], { cwd: ROOT, encoding: "utf8" }).trim().split("\n");
  const endings = new Set(files.flatMap(endingsOf));
  const named = files
    .filter((path) => /\.tsx?$/.test(path))
    .flatMap((path) => namedIn(path).map((name) => ({ path, name })));
  expect(named.length).toBeGreaterThan(100);
  expect(named.filter(({ name }) => !endings.has(name))).toEqual([]);
});

function namedIn(path: string): string[] {
  const comments = readFileSync(join(ROOT, path), "utf8").match(COMMENT) ?? [];
  return comments.flatMap((comment) => comment.match(NAMED) ?? []);
}

/** The path, and what is left of it without the first folders: a comment need not name these. */
function endingsOf(path: string): string[] {
  const parts = path.split("/");
  return parts.map((_, at) => parts.slice(at).join("/"));
}
