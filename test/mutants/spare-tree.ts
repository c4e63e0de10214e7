import {
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { git } from "./git.ts";
import type { Mutant, TestRun } from "./mutant.ts";
import { type Outcome, TestRunner } from "./run-tests.ts";

/** What tools write into node_modules of their own: a link would let one tree write into another. */
const CACHES = new Set([".cache", ".mf", ".vite", ".vite-temp", ".vitest"]);

/**
 * A copy of the repository in which code may be broken. It lies in a folder of the repository that git ignores, so that
 * node_modules can be linked, file by file, instead of copied.
 */
export class SpareTree {
  readonly root: string;
  readonly #runner: TestRunner;
  /** What was changed since tests last ran. */
  readonly #changed = new Set<string>();

  constructor(of: string) {
    const folder = join(of, ".wrangler", "mutants");
    mkdirSync(folder, { recursive: true });
    this.root = mkdtempSync(join(folder, "tree-"));
    for (const path of filesOf(of)) {
      mkdirSync(dirname(join(this.root, path)), { recursive: true });
      copyFileSync(join(of, path), join(this.root, path));
    }
    link(join(of, "node_modules"), join(this.root, "node_modules"));
    this.#runner = new TestRunner(this.root);
  }

  /** Runs tests while the code has a mistake in it. */
  async runBroken({ file, text, replacement }: Mutant, test: TestRun, limitMs: number): Promise<Outcome> {
    const path = join(this.root, file);
    const code = readFileSync(path, "utf8");
    // A function, since a replacement may have what `replace` takes for a pattern.
    writeFileSync(
      path,
      code.replace(text, () => replacement),
    );
    this.#changed.add(file);
    try {
      return await this.run(test, limitMs);
    } finally {
      writeFileSync(path, code);
      this.#changed.add(file);
    }
  }

  /** Runs tests on the code as it is. */
  async run(test: TestRun, limitMs: number): Promise<Outcome> {
    const changed = [...this.#changed];
    this.#changed.clear();
    return await this.#runner.run(test, { changed, limitMs });
  }

  remove(): void {
    this.#runner.close();
    rmSync(this.root, { recursive: true, force: true });
  }
}

/** What git has, and what it would be given: a test that was written just now is there. */
function filesOf(root: string): string[] {
  const listed = git(root, ["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
  if (listed === undefined) throw new Error(`git can't list the files of ${root}`);
  return listed.split("\0").filter((path) => path !== "" && existsSync(join(root, path)));
}

function link(from: string, to: string): void {
  mkdirSync(to, { recursive: true });
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    if (CACHES.has(entry.name)) continue;
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (entry.isDirectory()) link(source, target);
    else if (entry.isSymbolicLink()) symlinkSync(readlinkSync(source), target);
    else linkSync(source, target);
  }
}
