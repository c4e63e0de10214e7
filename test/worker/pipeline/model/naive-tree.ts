import { modelPath, type Name } from "../../core/naive-glob.ts";

/** A branch at a moment: paths to texts. A path that ends in `/` is an empty directory. */
export type Tree = ReadonlyMap<string, string>;

/** A glob as written, and as what it is made of; the root is no name at all. */
export interface NaiveGlob {
  readonly text: string;
  readonly names: "root" | readonly Name[];
}

/** A file or directory that a glob matches, with everything in it. */
export interface NaiveElement {
  readonly path: string;
  readonly kind: "file" | "dir";
  /** Whole paths and texts, in order. */
  readonly entries: readonly (readonly [path: string, text: string])[];
}

/** Looks at every path there is. */
export function elementsOf(tree: Tree, glob: NaiveGlob): NaiveElement[] {
  const files = [...tree.keys()].filter((path) => !path.endsWith("/"));
  const directories = new Set([...tree.keys()].flatMap(directoriesAbove));
  return [
    ...files.map((path): NaiveElement => ({ path, kind: "file", entries: [[path, tree.get(path) ?? ""]] })),
    ...[...directories].map(
      (path): NaiveElement => ({ path, kind: "dir", entries: entriesBelow(tree, path) }),
    ),
  ]
    .filter(({ path }) => isMatched(glob, path))
    .sort(byPath);
}

/** Everything below a directory, in order; "" is the root. */
function entriesBelow(tree: Tree, directory: string): [string, string][] {
  const prefix = directory === "" ? "" : `${directory}/`;
  return [...tree].filter(([path]) => path.startsWith(prefix)).sort(([a], [b]) => (a < b ? -1 : 1));
}

export function holdsFile(tree: Tree): boolean {
  return [...tree.keys()].some((path) => !path.endsWith("/"));
}

/** "a/b/c" and "a/b/" are both in "" and "a", and in "a/b". */
function directoriesAbove(path: string): string[] {
  const names = path.split("/");
  return ["", ...names.slice(1).map((_, index) => names.slice(0, index + 1).join("/"))];
}

function isMatched({ names }: NaiveGlob, path: string): boolean {
  if (names === "root") return path === "";
  return path !== "" && modelPath(names, path.split("/"));
}

function byPath(a: NaiveElement, b: NaiveElement): number {
  return a.path < b.path ? -1 : 1;
}
