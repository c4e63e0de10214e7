import { readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { KeptFiles, keptFiles } from "./bundle.ts";
import { type Build, CACHE, keptBuild, runEsbuild, sha256 } from "./kept.ts";

const ROOT = join(import.meta.dirname, "../..");
/** The console's own sources. */
const CONSOLE = join(ROOT, "console");
/** From the root, as the bundler names it. */
const ENTRY = "console/main.tsx";
/** What decides how it is made, besides the files that it is made of. */
const MADE_BY = [
  "embedded/bundle/console.ts",
  "console/index.html",
  "console/icon.svg",
  "console/tsconfig.json",
].map((path) => join(ROOT, path));

/** The files of the console by their names: `index.html`, and what it loads, whose names change with their content. */
export type ConsoleFiles = ReadonlyMap<string, Uint8Array>;

export interface ConsoleBuild extends Build<ConsoleFiles> {
  /** Those files that the browser loads before it shows anything. */
  readonly first: readonly string[];
}

/** Builds the console. What a page alone needs is a file that its first visit loads. */
export async function buildConsole(): Promise<ConsoleBuild> {
  const result = await runEsbuild({
    entryPoints: [ENTRY],
    absWorkingDir: ROOT,
    tsconfig: join(CONSOLE, "tsconfig.json"),
    bundle: true,
    splitting: true,
    minify: true,
    write: false,
    // Nothing is written there: it gives the names something to be relative to.
    outdir: "/assets",
    entryNames: "[name]-[hash]",
    chunkNames: "[name]-[hash]",
    format: "esm",
    platform: "browser",
    target: "es2023",
    define: { "process.env.NODE_ENV": '"production"' },
    legalComments: "none",
    metafile: true,
    logLevel: "silent",
  });
  const { inputs, outputs } = result.metafile;
  const nameOf = (path: string): string => path.slice(path.lastIndexOf("/") + 1);
  // A page that is loaded when asked for is an entry, too.
  const [entry, main] = Object.entries(outputs).find(([, { entryPoint }]) => entryPoint === ENTRY) ?? [];
  if (entry === undefined || main?.cssBundle === undefined) throw new Error("the console made no output");
  const scripts = [entry, ...staticImports(outputs, entry)].map(nameOf);
  const style = nameOf(main.cssBundle);
  const files = new Map<string, Uint8Array>(
    result.outputFiles.map(({ path, contents }) => [nameOf(path), contents]),
  );
  const drawing = readFileSync(join(CONSOLE, "icon.svg"));
  const icon = `icon-${sha256(drawing).slice(0, 8)}.svg`;
  files.set(icon, drawing);
  files.set("index.html", new TextEncoder().encode(page({ scripts, style, icon })));
  return {
    value: files,
    inputs: [...Object.keys(inputs).map((path) => resolve(ROOT, path)), ...MADE_BY],
    first: ["index.html", style, ...scripts],
  };
}

type Outputs = Readonly<
  Record<string, { readonly imports: readonly { readonly path: string; readonly kind: string }[] }>
>;

/** The chunks that a file can't run without, its own and those of its chunks. */
function staticImports(outputs: Outputs, entry: string, seen = new Set<string>()): string[] {
  for (const { path, kind } of outputs[entry]?.imports ?? []) {
    if (kind !== "import-statement" || seen.has(path)) continue;
    seen.add(path);
    staticImports(outputs, path, seen);
  }
  return [...seen];
}

function page({ scripts, style, icon }: { scripts: string[]; style: string; icon: string }): string {
  const [main, ...chunks] = scripts.map((name) => `/console/assets/${name}`);
  const head = [
    `<link rel="icon" href="/console/assets/${icon}">`,
    `<link rel="stylesheet" href="/console/assets/${style}">`,
    ...chunks.map((chunk) => `<link rel="modulepreload" href="${chunk}">`),
    `<script type="module" src="${main}"></script>`,
  ];
  const template = readFileSync(join(CONSOLE, "index.html"), "utf8");
  return template.replace("<!-- what the build made -->", () => head.join("\n    "));
}

/** The console, from the build that an earlier start kept if every file that it was made of still has the same content. */
export async function keptConsole(cache: string = CACHE): Promise<ConsoleFiles> {
  return await keptBuild<ConsoleFiles>({
    file: join(cache, `console-${sha256(dirname(CONSOLE)).slice(0, 16)}`),
    make: buildConsole,
    form: KeptFiles,
    encode: keptFiles,
  });
}
