// @module-tag rest
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AWS, hasAws } from "../../support/clients/aws-api.ts";
import { duckdbExtensions, PYTHON } from "../../support/clients/duckdb.ts";
import { hasRclone } from "../../support/clients/rclone.ts";
import { type DevServer, ROOT, startDevServer, startRunner } from "../../support/dev-server.ts";
import { doorVariables } from "../../support/keys.ts";
import { type Block, blocksOfPage, isRun, PAGES } from "../../support/pages.ts";
import { run, type Started } from "../../support/processes.ts";
import { removeScratch, scratchFolder } from "../../support/scratch.ts";

/** What the pages tell to type is typed here, each page from its first block to its last in one shell. */

let server: DevServer;
let runner: Started;
beforeAll(async () => {
  server = await startDevServer();
  runner = startRunner(server, { node: "by-hand" });
});
afterAll(async () => {
  await runner?.stop();
  await server?.stop();
});

const PAGE_MS = 180_000;
const pages = PAGES.filter((page) => blocksOfPage(page).some(isRun));
const extensions = await duckdbExtensions();
const isReady = (await hasAws()) && hasRclone() && extensions !== undefined && (await hasPandas());

test.skipIf(!isReady).each(pages)(
  "what %s tells to type works as it stands there, and prints what it shows",
  async (page) => {
    const blocks = blocksOfPage(page);
    const { code, printed } = await typed(blocks);
    for (const [index, block] of blocks.entries()) {
      const { language, text } = blocks[index + 1] ?? { language: "", text: "" };
      if (!isRun(block) || language !== "output") continue;
      const ours = printed.get(block.line);
      if (ours !== undefined && !patternOf(text).test(normal(ours)))
        expect.soft(normal(ours), `${page}:${block.line} prints something else`).toBe(normal(text));
    }
    const last = Math.max(...printed.keys());
    expect(code, `${page}:${last} failed:\n${printed.get(last)}`).toBe(0);
  },
  PAGE_MS,
);

test("what a page shows is held to what is printed, but for what it leaves open", () => {
  const shown = patternOf("job …  success\n…\ntotal  3\n");
  expect(shown.test(normal("job 01KX  success\na\nb\ntotal 3\n"))).toBe(true);
  expect(shown.test(normal("job 01KX  success\ntotal 3\n"))).toBe(true);
  expect(shown.test(normal("job 01KX  failure\na\ntotal 3\n"))).toBe(false);
  expect(shown.test(normal("job 01KX  success\na\ntotal 30\n"))).toBe(false);
  expect(patternOf("a.b\n").test("axb\n")).toBe(false);
});

/** Where nobody looks on, a command that waits for more than 10 s says so: on a machine with much to do, and on no page. */
const WAITS_LONG = /^waiting for .*\n/gm;

/** Types the blocks of a page. `printed`: what each one that was begun has printed, by its line. */
async function typed(
  blocks: readonly Block[],
): Promise<{ code: number | null; printed: Map<number, string> }> {
  const folder = scratchFolder();
  try {
    writeFileSync(join(folder, "page.sh"), scriptOf(blocks.filter(isRun)));
    const { code, stdout } = await run(["bash", join(folder, "page.sh")], {
      env: environment(folder),
      cwd: folder,
    });
    const [, ...parts] = stdout.toString().split(/^<block (\d+)>\n/m);
    const printed = new Map<number, string>();
    for (let index = 0; index < parts.length; index += 2)
      printed.set(Number(parts[index]), (parts[index + 1] ?? "").replaceAll(WAITS_LONG, ""));
    return { code, printed };
  } finally {
    removeScratch(folder);
  }
}

/** One script, since what a block sets is there for the next; bash expands aliases only of lines before. */
function scriptOf(blocks: readonly Block[]): string {
  return [
    "set -euo pipefail; shopt -s expand_aliases; exec 2>&1\n",
    ...blocks.map(({ line, language, marks, text }) => {
      const lines = language === "python" ? `python3 - <<'PYTHON'\n${text}PYTHON\n` : text;
      const begin = `printf '\\n<block %s>\\n' ${line}\n`;
      if (!marks.includes("fails")) return `${begin}${lines}`;
      return `${begin}set +e\n${lines}[ $? != 0 ] || { echo 'this was to fail'; exit 1; }\nset -e\n`;
    }),
  ].join("");
}

/** A folder as a clone looks from within, where what is written does no harm, and a home without settings. */
function environment(folder: string): Record<string, string> {
  const tools = join(folder, ".tools");
  mkdirSync(join(folder, ".duckdb"));
  mkdirSync(tools);
  // Where DuckDB looks for what it would fetch.
  symlinkSync(extensions ?? "", join(folder, ".duckdb/extensions"));
  symlinkSync(join(ROOT, "bin"), join(folder, "bin"));
  symlinkSync(join(ROOT, "bin/sluice.js"), join(tools, "sluice"));
  symlinkSync(AWS, join(tools, "aws"));
  symlinkSync(PYTHON, join(tools, "python3"));
  return {
    ...doorVariables(server),
    HOME: folder,
    PATH: `${tools}:${dirname(process.execPath)}:${process.env.PATH}`,
    NODE_COMPILE_CACHE: join(ROOT, "node_modules/.cache/compiled"),
    AWS_EC2_METADATA_DISABLED: "true",
    TZ: "UTC",
  };
}

/** `…` is anything on a line, and a line of `…` alone any number of lines. */
function patternOf(shown: string): RegExp {
  const lines = normal(shown)
    .trimEnd()
    .split("\n")
    .map((line) => (line === "…" ? "(?:.*\n)*?" : `${line.split("…").map(escaped).join(".*?")}\n`));
  return new RegExp(`^${lines.join("")}$`);
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

/** Columns of tables are as wide as their widest cell, which is not the same in each run. */
function normal(text: string): string {
  const lines = text.trim().split("\n");
  return lines.map((line) => `${line.replace(/\s+/g, " ").trim()}\n`).join("");
}

async function hasPandas(): Promise<boolean> {
  return (await run([PYTHON, "-c", "import boto3, pandas"])).code === 0;
}
