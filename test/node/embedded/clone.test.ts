// @module-tag rest
import { cpSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { isMigrated } from "../../../embedded/data/migrations.ts";
import { ROOT } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { run, type Started, start } from "../../support/processes.ts";
import { scratchFolder } from "../../support/scratch.ts";
import { REST } from "../../support/suite.ts";

const SOURCES = ["bin", "cli", "console", "embedded", "migrations", "protocol", "runner", "schema", "worker"];
const FILES = ["package.json", "tsconfig.json", "wrangler.toml"];

let clone: string;
let data: string;
let dev: Started | undefined;

beforeEach(() => {
  clone = scratchFolder();
  data = scratchFolder();
  for (const name of [...SOURCES, ...FILES]) cpSync(join(ROOT, name), join(clone, name), { recursive: true });
  // A folder of its own: what a start keeps is in there.
  mkdirSync(join(clone, "node_modules"));
  for (const name of readdirSync(join(ROOT, "node_modules"))) {
    if (name === ".cache") continue;
    symlinkSync(join(ROOT, "node_modules", name), join(clone, "node_modules", name));
  }
});

afterEach(async () => {
  await dev?.stop();
  dev = undefined;
});

const COMMAND = ["dev", "--port", "0", "--json", "--executor", "process"];

async function startClone(env: Record<string, string> = {}): Promise<string> {
  await dev?.stop();
  const started = start([process.execPath, join(clone, "bin/sluice.js"), ...COMMAND, "--data", data], {
    env,
  });
  dev = started;
  const line = await eventually("it has greeted", () => /^\{"endpoint".*\}$/m.exec(started.output())?.[0]);
  return JSON.parse(line).endpoint;
}

function edit(file: string, [from, to]: readonly [string, string]): void {
  const path = join(clone, file);
  const before = readFileSync(path, "utf8");
  expect(before).toContain(from);
  writeFileSync(
    path,
    before.replace(from, () => to),
  );
}

describe("sluice dev in a clone", { timeout: 120_000 }, () => {
  test("serves what a source of the Worker and of the console says now, whatever the start before served", async () => {
    const health = async (endpoint: string): Promise<string> => (await fetch(`${endpoint}/healthz`)).text();
    expect(await health(await startClone())).toBe("ok\n");
    expect(await health(await startClone())).toBe("ok\n");
    edit("worker/index.ts", ['"ok\\n"', '"edited\\n"']);
    edit("console/index.html", ["<title>Sluice</title>", "<title>edited</title>"]);
    for (const _ of ["made", "kept"]) {
      const endpoint = await startClone();
      expect(await health(endpoint)).toBe("edited\n");
      expect(await (await fetch(`${endpoint}/console`)).text()).toContain("<title>edited</title>");
    }
  });

  test("names the sources in the stack traces of the Worker, from a kept bundle, too", REST, async () => {
    edit("worker/index.ts", ["export default {\n", "export default {\n  // its 2nd line throws\n"]);
    edit("worker/index.ts", [
      "const read = readConfig(env);",
      'const read = readConfig(env);\n    if (request.url.endsWith("/throw")) console.error(new Error("on purpose"));',
    ]);
    const lines = readFileSync(join(clone, "worker/index.ts"), "utf8").split("\n");
    const line = lines.findIndex((text) => text.includes("on purpose")) + 1;
    for (const _ of ["made", "kept"]) {
      const endpoint = await startClone();
      await fetch(`${endpoint}/throw`);
      await eventually("the trace", () => dev?.output().includes(`${clone}/worker/index.ts:${line}:`));
    }
  });

  test(
    "starts the runtime twice at first, once later, and twice when there is a migration to apply",
    REST,
    async () => {
      const starts = join(data, "starts");
      const counting = join(clone, "counting-workerd");
      const miniflare = createRequire(createRequire(import.meta.url).resolve("miniflare"));
      const real: string = miniflare("workerd").default;
      writeFileSync(counting, `#!/bin/sh\necho start >>${starts}\nexec ${real} "$@"\n`, { mode: 0o755 });
      const count = (): number => readFileSync(starts, "utf8").trim().split("\n").length;
      await startClone({ MINIFLARE_WORKERD_PATH: counting });
      expect(count()).toBe(2);
      await startClone({ MINIFLARE_WORKERD_PATH: counting });
      expect(count()).toBe(3);
      await dev?.kill9();
      await startClone({ MINIFLARE_WORKERD_PATH: counting });
      expect(count()).toBe(4);
      writeFileSync(join(clone, "migrations/9001_more.sql"), "CREATE TABLE more (id INTEGER);\n");
      await startClone({ MINIFLARE_WORKERD_PATH: counting });
      expect(count()).toBe(6);
      await dev?.stop();
      const folder = join(clone, "migrations");
      expect(isMigrated({ stateDir: join(data, "state"), database: "sluice", folder })).toBe(true);
    },
  );

  test("ends with 1, and says why, if the Worker can't be bundled", REST, async () => {
    edit("worker/index.ts", ["export default {", "export default {{"]);
    const command = [process.execPath, join(clone, "bin/sluice.js"), ...COMMAND, "--data", data];
    const { code, stderr } = await run(command);
    expect(stderr).toContain("worker/index.ts");
    expect(code).toBe(1);
  });
});

describe("a command in a clone", { timeout: 120_000 }, () => {
  const sluice = (...args: string[]) => run([process.execPath, join(clone, "bin/sluice.js"), ...args]);

  test("is as its sources say now, and loads nothing that it does not use", async () => {
    const [heading, loaded] = ["Versioned object storage", join(data, "loaded")];
    expect((await sluice("--help")).stdout.toString()).toContain(heading);
    edit("cli/program.ts", [heading, "Edited object storage"]);
    const help = (await sluice("--help")).stdout.toString();
    expect(help).toContain("Edited object storage");
    // What a second start runs is not made again, and is as good.
    const made = statSync(join(clone, "node_modules/.cache/sluice/made.json")).mtimeMs;
    expect((await sluice("--help")).stdout.toString()).toBe(help);
    expect(statSync(join(clone, "node_modules/.cache/sluice/made.json")).mtimeMs).toBe(made);

    const hook = join(data, "hook.mjs");
    writeFileSync(
      hook,
      `import { appendFileSync } from "node:fs";
      import { registerHooks } from "node:module";
      registerHooks({ load(url, context, next) {
        appendFileSync(${JSON.stringify(loaded)}, url + "\\n");
        return next(url, context);
      } });`,
    );
    const bin = join(clone, "bin/sluice.js");
    const { code, stderr } = await run([process.execPath, "--import", hook, bin, "ls", "--data", data]);
    expect([code, stderr]).toEqual([1, expect.stringContaining("no key")]);
    const files = readFileSync(loaded, "utf8")
      .trim()
      .split("\n")
      .filter((url) => url.startsWith("file:"));
    // Of the bundle: where it begins, the one command, the client of the gateway that it asks, and pieces that commands share.
    const own = files.map((url) => basename(url)).filter((file) => /(?<!^chunk)-\w{8}\.mjs$/.test(file));
    expect(own).toEqual([expect.stringMatching(/^ls-/), expect.stringMatching(/^client-/)]);
    expect(files.filter((url) => /\.ts$|node_modules\/(?!\.cache\/)/.test(url))).toEqual([]);
  });

  test("runs from its modules if nothing can be kept, and tells of a source with an error in it", async () => {
    writeFileSync(join(clone, "node_modules/.cache"), "in the way");
    const { version } = JSON.parse(readFileSync(join(clone, "package.json"), "utf8"));
    expect(await sluice("--version")).toMatchObject({ code: 0, stderr: "" });
    expect((await sluice("--version")).stdout.toString()).toBe(`${version}\n`);
    edit("cli/program.ts", ["const COMMANDS", "const const COMMANDS"]);
    const { code, stderr } = await sluice("--version");
    expect([code, stderr]).toEqual([1, expect.stringContaining("SyntaxError")]);
  });
});
