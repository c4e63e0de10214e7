import { readdirSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { parseSync, Visitor } from "oxc-parser";

/**
 * Holds the tree to the map of ARCHITECTURE.md. A folder is a room, and four things are asked:
 *
 * - What lies side by side in a folder, rooms and loose files, imports each other in no circle. An import from
 *   `worker/s3/auth/verify.ts` to `worker/s3/request/target.ts` says that `auth` needs `request`; then nothing in
 *   `request` may need `auth`, on whatever way. An import of types alone counts as any other.
 * - A room imports what the map's last column names, and imports all that it names: folders and files in backticks, and
 *   packages. A row that has packages, or "no packages", allows no others, nor the platform's. A row without a value has
 *   that of the room around it. "–" allows no room, "anything" all.
 * - What others may call of a branch is no part of its loops: `calls/` and `work/` import neither one the other.
 * - A file has 700 lines at most, and the two that put an object together have 150.
 */
export const CODE = ["cli", "console", "embedded", "protocol", "runner", "scripts", "worker"];
const MOST_LINES = 700;
const MOST_LINES_OF: Record<string, number> = {
  "worker/branch/branch.ts": 150,
  "worker/pipeline/pipeline.ts": 150,
};

/** Floors that import neither one the other. */
const APART = ["worker/branch/calls", "worker/branch/work"];

/** What does not hold yet. An entry that is no longer needed is a fault, so the lists only become shorter. */
interface Exceptions {
  /** Folders in which rooms still import each other in a circle. */
  tied: readonly string[];
  /** Files that are still too long. */
  long: readonly string[];
}

const NOT_YET: Exceptions = {
  tied: [],
  long: [],
};

interface Import {
  from: string;
  /** A path from the root, or the name of a package. */
  to: string;
  isPackage: boolean;
}

if (import.meta.main) {
  const faults = faultsOf(join(import.meta.dirname, ".."), NOT_YET);
  for (const fault of faults) console.log(fault);
  if (faults.length > 0) process.exitCode = 1;
}

/** What is wrong with the tree at `root`. */
export function faultsOf(root: string, { tied, long }: Exceptions): string[] {
  const texts = CODE.flatMap((folder) => sourcesBelow(root, folder));
  const imports = texts.flatMap(({ file, text }) => importsOf(file, text));
  return [
    ...butFor(tied, circlesOf(imports), "has no circle any more"),
    ...butFor(long, tooLongOf(texts), "is not too long any more"),
    ...betweenFloors(imports),
    ...againstMap(root, imports),
  ];
}

/** The faults of those that are not listed, and those that are listed without a fault. */
function butFor(listed: readonly string[], faults: ReadonlyMap<string, string>, needless: string): string[] {
  const left = [...faults].flatMap(([path, fault]) => (listed.includes(path) ? [] : [fault]));
  const over = listed.filter((path) => !faults.has(path));
  return [
    ...left,
    ...over.map((path) => `${path} ${needless}: take it off the list of scripts/check-rooms.ts`),
  ];
}

interface Source {
  file: string;
  text: string;
}

function sourcesBelow(root: string, folder: string): Source[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((path) => /(?<!\.d)\.tsx?$/.test(path))
    .map((path) => ({ file: `${folder}/${path}`, text: readFileSync(join(root, folder, path), "utf8") }));
}

function tooLongOf(sources: readonly Source[]): Map<string, string> {
  const faults = new Map<string, string>();
  for (const { file, text } of sources) {
    const lines = text.split("\n").length - 1;
    const most = MOST_LINES_OF[file] ?? MOST_LINES;
    if (lines > most) faults.set(file, `${file} has ${lines} lines, of at most ${most}`);
  }
  return faults;
}

function importsOf(file: string, text: string): Import[] {
  const found: Import[] = [];
  const add = ({ source }: { source: object | null }) => {
    if (source === null) return;
    const name = "value" in source ? source.value : undefined;
    if (typeof name !== "string")
      throw new Error(`${file} imports what only its run tells: write the path out`);
    const isPackage = !name.startsWith(".");
    found.push({ from: file, to: isPackage ? name : posix.join(posix.dirname(file), name), isPackage });
  };
  const { program, errors } = parseSync(file, text);
  if (errors[0]) throw new Error(`${file} can't be read: ${errors[0].message}`);
  new Visitor({
    ImportDeclaration: add,
    ExportNamedDeclaration: add,
    ExportAllDeclaration: add,
    ImportExpression: add,
    TSImportType: add,
  }).visit(program);
  return found;
}

/** Of a folder: who in it imports whom, by which imports. */
type Edges = Map<string, Map<string, Import[]>>;

/** The shortest circle of each folder that has one. */
function circlesOf(imports: readonly Import[]): Map<string, string> {
  const faults = new Map<string, string>();
  for (const [folder, edges] of foldersOf(imports)) {
    const circles = [...edges.keys()].flatMap((start) => circleFrom(edges, start) ?? []);
    const [shortest] = circles.sort((a, b) => a.length - b.length);
    if (shortest === undefined) continue;
    const ways = shortest.flatMap((edge) => edge.map(({ from, to }) => `  ${from} → ${to}`));
    faults.set(folder, `what lies in ${folder} imports each other in a circle:\n${ways.join("\n")}`);
  }
  return faults;
}

function foldersOf(imports: readonly Import[]): Map<string, Edges> {
  const folders = new Map<string, Edges>();
  for (const one of imports) {
    const from = one.from.split("/");
    const to = one.to.split("/");
    const depth = from.findIndex((name, index) => name !== to[index]);
    const [importer, imported] = [from[depth], to[depth]];
    if (one.isPackage || importer === undefined || imported === undefined) continue;
    const edges = madeIn(folders, from.slice(0, depth).join("/") || "the root", () => new Map());
    const ofImporter = madeIn(edges, importer, () => new Map<string, Import[]>());
    madeIn(ofImporter, imported, (): Import[] => []).push(one);
  }
  return folders;
}

function madeIn<Value>(map: Map<string, Value>, key: string, make: () => Value): Value {
  const value = map.get(key) ?? make();
  map.set(key, value);
  return value;
}

/** The edges from `start` back to it, if a way leads there: one of the shortest. */
function circleFrom(edges: Edges, start: string): [Import[][]] | undefined {
  const ways: { at: string; way: Import[][] }[] = [{ at: start, way: [] }];
  const seen = new Set<string>();
  for (const { at, way } of ways) {
    for (const [next, edge] of edges.get(at) ?? []) {
      if (next === start) return [[...way, edge]];
      if (!seen.has(next)) ways.push({ at: next, way: [...way, edge] });
      seen.add(next);
    }
  }
  return undefined;
}

/** What the map lets a folder import, and what of that it does import. */
interface Row {
  folder: string;
  paths: readonly string[];
  /** Undefined if it may import any. */
  packages: readonly string[] | undefined;
  anything: boolean;
  used: Set<string>;
}

function againstMap(root: string, imports: readonly Import[]): string[] {
  const rows = rowsOf(readFileSync(join(root, "ARCHITECTURE.md"), "utf8"));
  const faults = imports.flatMap(({ from, to, isPackage }) => {
    const row = rows.find(({ folder }) => isIn(from, folder));
    if (row === undefined) return [`the map of ARCHITECTURE.md says nothing of what ${from} may import`];
    if (row.anything || isIn(to, row.folder)) return [];
    const allowed = (isPackage ? row.packages : row.paths)?.filter((name) => isIn(to, name));
    if (allowed === undefined) return [];
    for (const name of allowed) row.used.add(name);
    return allowed.length > 0 ? [] : [`${from} imports ${to}, which the map does not allow ${row.folder}`];
  });
  const idle = rows.flatMap(({ folder, paths, packages, used }) =>
    [...paths, ...(packages ?? [])]
      .filter((name) => !used.has(name))
      .map(
        (name) => `the map lets ${folder} import ${name}, and it does not: take that out of ARCHITECTURE.md`,
      ),
  );
  return [...faults, ...idle];
}

function betweenFloors(imports: readonly Import[]): string[] {
  const floorOf = (path: string) => APART.find((floor) => isIn(path, floor));
  return imports.flatMap(({ from, to }) => {
    const [own, other] = [floorOf(from), floorOf(to)];
    const isFine = own === undefined || other === undefined || own === other;
    return isFine ? [] : [`${from} imports ${to}: what both need belongs into a room below`];
  });
}

/** Whether a path is a room, or in it. */
export function isIn(path: string, room: string): boolean {
  return path === room || path.startsWith(`${room}/`);
}

/** The rows that say something of their own, innermost first. */
function rowsOf(page: string): Row[] {
  const [, map = ""] = /^## The map\n(.*?)^## /ms.exec(page) ?? [];
  return map
    .split("\n")
    .filter((line) => line.startsWith("| `"))
    .flatMap((line) => {
      const [, folders = "", , column = ""] = line.split(/(?<!\\)\|/).map((cell) => cell.trim());
      if (column === "") return [];
      const paths = [...column.matchAll(/`([^`]+)`/g)].flatMap(([, path = ""]) => withoutBraces(path));
      const words = column
        .replace(/`[^`]*`/g, "")
        .split(",")
        .map((word) => word.trim());
      const packages = words.filter((word) => !["", "–", "anything", "no packages"].includes(word));
      return [...folders.matchAll(/`([^`]+)\/`/g)].map(([, folder = ""]) => ({
        folder,
        paths: paths.map((path) => path.replace(/\/$/, "")),
        packages: packages.length > 0 || words.includes("no packages") ? packages : undefined,
        anything: words.includes("anything"),
        used: new Set<string>(),
      }));
    })
    .sort((a, b) => b.folder.length - a.folder.length);
}

/** `a/{b,c}` is `a/b` and `a/c`. */
function withoutBraces(name: string): string[] {
  const [, before = "", inner, after = ""] = /^(.*)\{(.*)\}(.*)$/.exec(name) ?? [];
  return inner === undefined ? [name] : inner.split(",").map((one) => before + one + after);
}
