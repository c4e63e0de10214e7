import type { Edit } from "./inputs.ts";
import type { NaiveInput, NaiveSpec, NaiveUpdate } from "./naive-pipeline.ts";
import type { NaiveGlob, Tree } from "./naive-tree.ts";

const FILES = ["a", "b", "c", "d/a", "d/b", "d/e/a", "f/a", "x", "x/a"];
const DIRECTORIES = ["d/g/", "f/"];
const GOOD_TEXTS = ["1", "2", "3", "4"];

const star = { kind: "star" } as const;
const any = { kind: "any" } as const;
const literal = (character: string) => ({ kind: "literal", character }) as const;
const GLOBS: readonly NaiveGlob[] = [
  { text: "/", names: "root" },
  { text: "/*", names: [[star]] },
  { text: "/*", names: [[star]] },
  { text: "/*/*", names: [[star], [star]] },
  { text: "/**", names: ["**"] },
  { text: "/d*", names: [[literal("d"), star]] },
  { text: "/?/a", names: [[any], [literal("a")]] },
  { text: "/**/a", names: ["**", [literal("a")]] },
];
/** Which of two repos the inputs read, in order of their names. */
const SHAPES = [[0], [0], [1], [0, 1], [1, 0], [0, 0], [0, 1, 0]];
const NAMES = ["in", "left", "right"];

/** What a run does next, and to what: the same for the same numbers. */
export class Chance {
  readonly random: () => number;
  readonly #repos: readonly string[];

  constructor(random: () => number, repos: readonly string[]) {
    this.random = random;
    this.#repos = repos;
  }

  below(limit: number): number {
    return Math.floor(this.random() * limit);
  }

  in(percent: number): boolean {
    return this.random() * 100 < percent;
  }

  pick<T>(choices: readonly T[]): T {
    return choices[this.below(choices.length)] as T;
  }

  /** One of them, each as likely as its weight. */
  weigh<T extends string>(weights: Readonly<Record<T, number>>): T {
    const entries = Object.entries(weights) as [T, number][];
    let left = this.random() * entries.reduce((sum, [, weight]) => sum + weight, 0);
    for (const [choice, weight] of entries) {
      left -= weight;
      if (left < 0) return choice;
    }
    return this.pick(entries)[0];
  }

  /** A commit that the tree can take: what stands in the way of a file goes with it. */
  edit(tree: Tree): Edit {
    const gone = Object.fromEntries([...tree.keys()].map((path) => [path, null]));
    if (this.in(4)) return gone;
    const edit: Record<string, string | null> = {};
    for (let count = 1 + this.below(this.in(20) ? 5 : 2); count > 0; count--) {
      const path = this.in(12) ? this.pick(DIRECTORIES) : this.pick(FILES);
      if (tree.has(path) && this.in(45)) edit[path] = null;
      else this.#put(edit, { tree, path });
    }
    return edit;
  }

  /** Writes what is there already. */
  rewrite(tree: Tree): Edit {
    return Object.fromEntries([...tree].filter(() => this.in(50)));
  }

  inputs(): NaiveInput[] {
    return this.pick(SHAPES).map((repo, index) => ({
      name: NAMES[index] ?? "",
      repo: this.#repos[repo] ?? "",
      glob: this.pick(GLOBS),
    }));
  }

  /** Where results are pushed to, somewhere new each time, or nowhere. */
  store(number: number): string | null {
    return this.in(50) ? `s3://outside/${number}` : null;
  }

  repo(): string {
    return this.pick(this.#repos);
  }

  /** Another one that differs in what the kind of update says. */
  spec(before: NaiveSpec, kind: NaiveUpdate): NaiveSpec {
    if (kind === "settings") {
      const settings = { ...before, workers: before.workers + 1 };
      if (this.in(30)) return { ...settings, skips: !before.skips };
      return this.in(50) ? settings : { ...settings, store: this.store(settings.workers) };
    }
    if (kind === "transform") return { ...before, cmd: `${before.cmd}+` };
    if (kind !== "inputs") return before;
    const inputs = this.inputs();
    return JSON.stringify(inputs) === JSON.stringify(before.inputs)
      ? this.spec(before, kind)
      : { ...before, inputs };
  }

  #put(edit: Record<string, string | null>, { tree, path }: { tree: Tree; path: string }): void {
    for (const other of [...tree.keys(), ...Object.keys(edit)]) {
      if (!other.startsWith(`${path}/`) && !path.startsWith(`${other}/`)) continue;
      if (tree.has(other)) edit[other] = null;
      else delete edit[other];
    }
    edit[path] = path.endsWith("/") ? "" : this.#text();
  }

  #text(): string {
    if (this.in(4)) return this.pick(["file", "directory"]);
    if (this.in(7)) return "bad";
    return this.in(7) ? "flaky" : this.pick(GOOD_TEXTS);
  }
}
