import { globSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { parseSync } from "oxc-parser";
import { SMALL } from "./limits/limits.ts";

/*
 * Which branches of the code histories take, by what V8 counted in each process (NODE_V8_COVERAGE). Node takes types out of a file
 * without moving anything, so the places that V8 tells are those of the source.
 */

/** What V8 says of a file: ranges, an outer one before those in it. */
interface ScriptCoverage {
  readonly url: string;
  readonly functions: readonly { readonly ranges: readonly CountedRange[] }[];
}

interface CountedRange {
  readonly startOffset: number;
  readonly endOffset: number;
  readonly count: number;
}

/** Code that runs or does not by a condition: a side of `if`, of `?:`, of a `case`; the right of `&&`, `||`, `??`; a default. */
interface CodeBranch {
  readonly start: number;
  readonly end: number;
}

export interface FileCoverage {
  readonly file: string;
  readonly branches: number;
  /** Those that no process took, by their lines. */
  readonly missed: readonly { readonly line: number; readonly text: string }[];
}

/** The coverage of all files of some folders of a repository, by what processes wrote into a folder. */
export function coverageOf(
  written: string,
  { root, folders }: { readonly root: string; readonly folders: readonly string[] },
): FileCoverage[] {
  const scripts = readdirSync(written).flatMap(
    (file): ScriptCoverage[] => JSON.parse(readFileSync(join(written, file), "utf8")).result,
  );
  // The same file may be there with small limits, too (limits.ts).
  const byUrl = Map.groupBy(scripts, ({ url }) => url.replace(SMALL, ""));
  const files = folders.flatMap((folder) => globSync(`${folder}/**/*.ts`, { cwd: root })).sort();
  return files.map((file) => {
    const path = join(root, file);
    const source = readFileSync(path, "utf8");
    const runs = (byUrl.get(pathToFileURL(path).href) ?? []).map((script) => ranOf(script, source.length));
    const branches = branchesOf(file, source);
    const missed = branches.filter(({ start }) => !runs.some((ran) => ran[start] === 1));
    return {
      file,
      branches: branches.length,
      missed: missed.map(({ start, end }) => ({
        line: source.slice(0, start).split("\n").length,
        text: source.slice(start, end).replace(/\s+/g, " ").slice(0, 80),
      })),
    };
  });
}

/** Of each place of a source, 1 if one process ran it. */
function ranOf({ functions }: ScriptCoverage, length: number): Uint8Array {
  const ran = new Uint8Array(length);
  const ranges = functions.flatMap((one) => one.ranges);
  // What is in another one is said later.
  ranges.sort((one, other) => one.startOffset - other.startOffset || other.endOffset - one.endOffset);
  for (const { startOffset, endOffset, count } of ranges) ran.fill(count > 0 ? 1 : 0, startOffset, endOffset);
  return ran;
}

/** Of a kind of nodes, the parts that are branches. */
const PARTS: Readonly<Record<string, readonly string[]>> = {
  IfStatement: ["consequent", "alternate"],
  ConditionalExpression: ["consequent", "alternate"],
  LogicalExpression: ["right"],
  AssignmentPattern: ["right"],
};

function branchesOf(file: string, source: string): CodeBranch[] {
  const found: CodeBranch[] = [];
  const walk = (node: unknown): void => {
    if (Array.isArray(node)) node.forEach(walk);
    else if (isNode(node)) {
      found.push(...partsOf(node));
      Object.values(node).forEach(walk);
    }
  };
  walk(parseSync(file, source).program);
  return found;
}

interface Node {
  readonly type: string;
  readonly [field: string]: unknown;
}

function isNode(value: unknown): value is Node {
  return typeof value === "object" && value !== null && "type" in value;
}

function partsOf(node: Node): CodeBranch[] {
  const parts: unknown[] = (PARTS[node.type] ?? []).map((part) => node[part]);
  if (node.type === "SwitchCase" && Array.isArray(node.consequent)) parts.push(node.consequent[0]);
  return parts.filter((part) => part !== null && part !== undefined) as CodeBranch[];
}

/** The coverage of each folder, and what is missed in it, for people. */
export function shownCoverage(files: readonly FileCoverage[], folders: readonly string[]): string[] {
  const total = (some: readonly FileCoverage[]) => {
    const branches = some.reduce((sum, one) => sum + one.branches, 0);
    const missed = some.reduce((sum, one) => sum + one.missed.length, 0);
    return `${(100 * (1 - missed / Math.max(1, branches))).toFixed(1)} % of ${branches} branches`;
  };
  return [
    ...files.flatMap(({ file, missed }) => missed.map(({ line, text }) => `${file}:${line}: ${text}`)),
    ...folders.map(
      (folder) => `${folder}: ${total(files.filter(({ file }) => file.startsWith(`${folder}/`)))}`,
    ),
  ];
}
