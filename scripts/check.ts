import { spawn } from "node:child_process";
import { availableParallelism } from "node:os";

/** Everything that is checked without running the product, side by side; longest first. Prints only what fails. */
const CHECKS = [
  "biome check .",
  "tsc -p tsconfig.node.json",
  "wrangler types --check --include-runtime=false worker/worker-configuration.d.ts",
  "tsc -p test/worker",
  "knip",
  "tsc -p test/simulator",
  "tsc -p test/fuzz/parsers",
  "tsc -p worker",
  "tsc -p console",
  "tsc -p test/node/console",
  "tsc -p tsconfig.json",
  "node scripts/check-rooms.ts",
  "node test/mutants/check.ts",
  "node scripts/check-words.ts",
  "node scripts/console-size.ts",
];

const queue = [...CHECKS];
async function work(): Promise<void> {
  for (let command = queue.shift(); command; command = queue.shift()) {
    const began = Date.now();
    const { code, output } = await run(command);
    console.log(`${code === 0 ? "✓" : "✗"} ${command} (${((Date.now() - began) / 1000).toFixed(1)} s)`);
    if (code === 0) continue;
    console.log(output);
    process.exitCode = 1;
  }
}

function run(command: string): Promise<{ code: number | null; output: string }> {
  const child = spawn(command, { shell: true, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      output += text;
    });
  }
  return new Promise((resolve) => child.on("close", (code) => resolve({ code, output })));
}

await Promise.all(Array.from({ length: Math.min(availableParallelism(), 4) }, work));
