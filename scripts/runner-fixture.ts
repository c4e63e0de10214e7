import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";

/**
 * `npm run fixture:runner -- <commit>`: makes the runner of an earlier release one file, which a test lets work with the
 * gateway of today: runners and gateways one release apart work together. The file is a program: `argv` names the data
 * folder and the node, the environment the gateway and its key. It logs lines of JSON to stdout, and takes its packages from this repository.
 *
 * Before a release, make it anew from the commit of the release before.
 */

const ROOT = join(import.meta.dirname, "..");

const FIXTURE = join(ROOT, "test/fixtures/earlier-runner.mjs");

/** The process executor starts its launcher as a file of its own; here that is this file. */
const LAUNCHER_FILE = 'new URL("launcher-process.ts", import.meta.url)';

const PROGRAM = `
import { readRunnerConfig } from "./runner/agent/config.ts";
import { startRunner, stopOnSignals } from "./runner/main.ts";

async function run() {
  const say = (level) => (fields, message) => console.log(JSON.stringify({ level, ...fields, message }));
  const log = { debug() {}, info: say("info"), warn: say("warn"), error: say("error"), child: () => log };
  const [, , data, node] = process.argv;
  const runner = await startRunner(readRunnerConfig({ data, node, executor: "process" }, process.env), { log });
  stopOnSignals(runner, { log });
  await runner.done;
}

// The launcher alone is started with a channel to its parent.
if (process.send) await import("./runner/executors/process/launcher-process.ts");
else await run();
`;

async function bundle(commit: string): Promise<void> {
  const tree = mkdtempSync(join(tmpdir(), "sluice-runner-fixture-"));
  try {
    const archive = execFileSync("git", ["archive", commit, "runner", "protocol"], {
      cwd: ROOT,
      maxBuffer: 1e9,
    });
    execFileSync("tar", ["-x", "-C", tree], { input: archive });
    const launcher = join(tree, "runner/executors/process/launcher.ts");
    const source = readFileSync(launcher, "utf8");
    if (!source.includes(LAUNCHER_FILE)) throw new Error(`${launcher} starts its process in another way`);
    writeFileSync(launcher, source.replace(LAUNCHER_FILE, "new URL(import.meta.url)"));
    const name = execFileSync("git", ["rev-parse", "--short", commit], {
      cwd: ROOT,
      encoding: "utf8",
    }).trim();
    await build({
      stdin: { contents: PROGRAM, resolveDir: tree, loader: "ts" },
      bundle: true,
      minify: true,
      platform: "node",
      format: "esm",
      target: "node22",
      legalComments: "none",
      packages: "external",
      banner: { js: `// The runner of ${name}, made by scripts/runner-fixture.ts.` },
      outfile: FIXTURE,
    });
  } finally {
    rmSync(tree, { recursive: true, force: true });
  }
}

if (import.meta.main) {
  const [, , commit] = process.argv;
  if (commit === undefined) throw new Error("name the commit of the release before");
  await bundle(commit);
}
