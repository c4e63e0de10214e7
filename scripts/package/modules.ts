import { readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { build, type Plugin, stop } from "esbuild";

/** What the oldest Node that runs the package understands; `bin/sluice.js` refuses older ones. */
const TARGET = "node22.19";

/** A module of the repository as the package has it. */
export interface Compiled {
  /** Below the root, such as `cli/main.js`. */
  readonly path: string;
  readonly code: string;
}

export interface CompileOptions {
  readonly root: string;
  /** Below the root, such as `cli/main.ts`. */
  readonly entries: readonly string[];
  /** What the package does without, though a module names it. */
  readonly without: readonly string[];
}

/**
 * The entries and every module that they reach, each as JavaScript of its own with the same place and name, so that
 * what a module finds beside itself is found there too. Packages stay imports.
 */
export async function compileModules({ root, entries, without }: CompileOptions): Promise<Compiled[]> {
  const known = new Set([...without, ...entries]);
  const pending = [...entries];
  const compiled: Compiled[] = [];
  for (const path of pending) {
    const { code, siblings } = await compileModule(path, root);
    compiled.push({ path: asJavaScript(path), code });
    for (const sibling of siblings) {
      if (known.has(sibling)) continue;
      known.add(sibling);
      pending.push(sibling);
    }
  }
  await stop();
  return compiled;
}

interface Module {
  readonly code: string;
  /** The modules of the repository that it names, below the root. */
  readonly siblings: ReadonlySet<string>;
}

async function compileModule(path: string, root: string): Promise<Module> {
  const siblings = new Set<string>();
  const folder = dirname(path);
  const source = withCompiledUrls(readFileSync(join(root, path), "utf8"), (name) => {
    siblings.add(join(folder, name));
  });
  const result = await build({
    absWorkingDir: root,
    stdin: { contents: source, sourcefile: join(root, path), resolveDir: join(root, folder), loader: "ts" },
    bundle: true,
    write: false,
    packages: "external",
    plugins: [siblingsStayApart((file) => siblings.add(relative(root, file)))],
    format: "esm",
    platform: "node",
    target: TARGET,
    tsconfigRaw: { compilerOptions: { verbatimModuleSyntax: true } },
    logLevel: "silent",
  });
  return { code: result.outputFiles[0]?.text ?? "", siblings };
}

/** Imports of other modules stay imports, of their compiled names. */
function siblingsStayApart(found: (file: string) => void): Plugin {
  return {
    name: "siblings-stay-apart",
    setup(builder) {
      builder.onResolve({ filter: /^\.\.?\// }, ({ path, resolveDir }) => {
        found(join(resolveDir, path));
        return { path: asJavaScript(path), external: true };
      });
    },
  };
}

/** A module that is started as a process is named by a URL, which no compiler takes for an import. */
function withCompiledUrls(source: string, found: (name: string) => void): string {
  return source.replace(/new URL\("([^"]+\.ts)", import\.meta\.url\)/g, (_, name: string) => {
    found(name);
    return `new URL("${asJavaScript(name)}", import.meta.url)`;
  });
}

function asJavaScript(path: string): string {
  return path.replace(/\.ts$/, ".js");
}
