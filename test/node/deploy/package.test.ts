import { copyFileSync, existsSync, mkdirSync, readFileSync, symlinkSync } from "node:fs";
import { builtinModules } from "node:module";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Control } from "../../support/control.ts";
import { type DevServer, ROOT, startDevServer } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { type Door, doorVariables, ROOT_KEY } from "../../support/keys.ts";
import { mustRun, run, type Started, start } from "../../support/processes.ts";
import { S3 } from "../../support/s3.ts";
import { removeScratch, scratchFolder } from "../../support/scratch.ts";
import { REST } from "../../support/suite.ts";
import { installTarball, npmElsewhere, pack, type Tarball } from "./support/package.ts";

let folder: string;
let tarball: Tarball;

beforeAll(async () => {
  folder = scratchFolder();
  tarball = await pack(folder);
});

afterAll(() => removeScratch(folder));

describe("the package's tarball", () => {
  test("holds the program, what it reads, and nothing else", () => {
    const places = new Set(
      tarball.files.map(({ path }) => path.replace(/^(dist\/[^/]+|(?!dist)[^/]+)\/.*$/, "$1/")),
    );
    expect([...places].sort()).toEqual([
      "CHANGELOG.md",
      "LICENSE",
      "README.md",
      "bin/",
      ...[
        "cli/",
        "console/",
        "embedded/",
        "migrations/",
        "package.json",
        "protocol/",
        "runner/",
        "worker/",
      ].map((place) => `dist/${place}`),
      "dist/wrangler.toml",
      "package.json",
      "schema/",
    ]);
    const extensions = new Set(tarball.files.map(({ path }) => /[^./]+$/.exec(path)?.[0]));
    expect([...extensions].sort()).toEqual(
      ["LICENSE", "NOTICES", "css", "html", "js", "json", "md", "sh", "sql", "svg", "toml", "wasm"].sort(),
    );
  });

  test("has the program once: no sources, tests, benches, demos, source maps", () => {
    const paths = tarball.files.map(({ path }) => path);
    expect(paths.filter((path) => /\.ts$|\.map$|test|bench|demo/.test(path))).toEqual([]);
    expect(paths.filter((path) => readPacked(path).includes("sourceMappingURL=data:"))).toEqual([]);
  });

  test("holds nothing of a data folder or an environment: no keys", () => {
    const names = /\.sluice|\.env|\.dev\.vars|\.npmrc|\.pem$|root-key\.json|encryption-key\.json/;
    expect(tarball.files.filter(({ path }) => names.test(path))).toEqual([]);
    const secrets = /-----BEGIN [A-Z ]*PRIVATE KEY-----|\bAKIA[0-9A-Z]{16}\b|"secretAccessKey": ?"/;
    expect(tarball.files.filter(({ path }) => secrets.test(readPacked(path)))).toEqual([]);
  });

  test("keeps executable what is executed", () => {
    const executable = tarball.files.filter(({ mode }) => (mode & 0o111) !== 0).map(({ path }) => path);
    expect(executable.sort()).toEqual(["bin/sluice.js", "dist/embedded/workerd/workerd-child.sh"]);
  });

  test("imports only what it depends on", () => {
    const { dependencies, optionalDependencies } = JSON.parse(readPacked("package.json"));
    const declared = new Set([
      ...builtinModules,
      ...Object.keys({ ...dependencies, ...optionalDependencies }),
    ]);
    const code = tarball.files.filter(({ path }) =>
      /^dist\/(cli|embedded|protocol|runner)\/.*\.js$/.test(path),
    );
    const missing = code.flatMap(({ path }) =>
      packagesOf(readPacked(path))
        .filter((name) => !name.startsWith("node:") && !declared.has(name))
        .map((name) => `${path}: ${name}`),
    );
    expect(missing).toEqual([]);
  });
});

/** A file of the tarball; `npm pack` has left it in the repository as it packed it. */
function readPacked(path: string): string {
  return readFileSync(join(ROOT, path), "latin1");
}

function packagesOf(code: string): string[] {
  const named = code.matchAll(/(?:\bfrom |^import |\bimport\()"([^".][^"\n]*)"/gm);
  return [...named].map(([, name = ""]) => /^(?:@[^/]+\/)?[^/]+/.exec(name)?.[0] ?? name);
}

describe("an installed package", REST, () => {
  let installed: string[];
  let server: DevServer;
  const started = new Set<Started>();

  beforeAll(async () => {
    await installTarball(folder, tarball);
    // npx itself ends at a signal, whatever what it runs does about it.
    installed = [process.execPath, join(folder, "node_modules/sluice/bin/sluice.js")];
    server = await startDevServer();
  }, 600_000);

  afterAll(async () => {
    for (const process of started) await process.stop();
    await server?.stop();
  });

  function launch(door: Door, ...args: string[]): Started {
    const launched = start([...installed, ...args], {
      cwd: folder,
      env: { ...HOME, ...doorVariables(door) },
    });
    started.add(launched);
    void launched.ended.then(() => {
      if (!launched.wasTold()) console.error(`sluice ${args[0]} ended by itself:\n${launched.output()}`);
    });
    return launched;
  }

  test("has its commands, by npx, too", async () => {
    const { version } = JSON.parse(readPacked("package.json"));
    const npx = ["npx", "--no-install", "sluice"];
    expect(await mustRun([...npx, "--version"], { cwd: folder, env: HOME })).toBe(`${version}\n`);
    const help = await mustRun([...installed, "--help"], { cwd: folder, env: HOME });
    const commands = [...help.matchAll(/^ {2}([a-z]+) /gm)].map(([, name = ""]) => name);
    expect(commands).toEqual(expect.arrayContaining(["dev", "runner", "env", "doctor", "pipeline", "cp"]));
  });

  test("has what its commands load only when they run", async () => {
    const env = { ...HOME, ...doorVariables(server) };
    expect(await mustRun([...installed, "env"], { cwd: folder, env })).toContain(server.endpoint);
    const doctor = [...installed, "doctor", "--executor", "process", "--json"];
    const { stdout } = await run(doctor, { cwd: folder, env });
    const { findings } = JSON.parse(stdout.toString()) as { findings: { check: string; state: string }[] };
    expect(findings).toContainEqual(expect.objectContaining({ check: "key", state: "ok" }));
  });

  test("runs the datums of a gateway that is elsewhere", async () => {
    const runner = launch(server, "runner", "--node", "packed", "--executor", "process", "--data", "runner");
    expect(await countWords(server)).toBe("3\n");
    runner.signal("SIGTERM");
    expect((await runner.ended).code).toBe(0);
  });

  test("is a gateway with a runner by npx and the tarball alone, outside a clone and from an empty home", async () => {
    const home = scratchFolder();
    // What npm has fetched for this repository need not come again.
    mkdirSync(join(home, ".npm"));
    symlinkSync(join(HOME.HOME, ".npm/_cacache"), join(home, ".npm/_cacache"));
    // npx takes an absolute path for a program to run.
    copyFileSync(join(folder, tarball.name), join(home, tarball.name));
    const command = ["npx", "--yes", `./${tarball.name}`, "dev", "--json", "--port", "0"];
    const dev = start([...command, "--executor", "process"], {
      cwd: home,
      env: { ...npmElsewhere(home), ...doorVariables({ endpoint: "", ...ROOT_KEY }) },
    });
    started.add(dev);
    const early = dev.ended.then(() => Promise.reject(new Error(`npx ended:\n${dev.output()}`)));
    const line = await Promise.race([
      early,
      eventually("sluice dev has greeted", () => greetingIn(dev.output()), { withinMs: 300_000 }),
    ]);
    const { endpoint } = JSON.parse(line);
    expect(await countWords({ endpoint, ...ROOT_KEY })).toBe("3\n");
    const page = await (await fetch(`${endpoint}/console`)).text();
    const [script = ""] = /\/console\/assets\/main-[^"]+\.js/.exec(page) ?? [];
    expect((await fetch(`${endpoint}${script}`)).status).toBe(200);
    // npx itself ends at once.
    early.catch(() => undefined);
    dev.signal("SIGTERM");
    await eventually("the runner has ended", () => dev.output().includes("runner ended"));
    await dev.stop();
    removeScratch(home);
  }, 600_000);

  test("tells an old Node without the optional packages what to do", async () => {
    const lone = scratchFolder();
    await mustRun(["cp", "-r", `${folder}/node_modules/sluice`, lone]);
    const { code, stderr } = await run([
      process.execPath,
      "--import",
      OLD_NODE,
      `${lone}/sluice/bin/sluice.js`,
    ]);
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: `error: Sluice needs Node 22.19 or newer and this is 20.1.0; install one, or the optional packages of Sluice, of which node-${process.platform}-${process.arch} brings one\n`,
    });
    expect(existsSync(join(lone, "node_modules"))).toBe(false);
    removeScratch(lone);
  });

  test("runs itself with the Node of its optional packages where the one at hand is old", async () => {
    const command = [
      process.execPath,
      "--import",
      OLD_NODE,
      join(folder, "node_modules/sluice/bin/sluice.js"),
    ];
    const { version } = JSON.parse(readPacked("package.json"));
    expect(await mustRun([...command, "--version"])).toBe(`${version}\n`);
  });
});

const HOME = { HOME: process.env.HOME ?? "/root" };

function greetingIn(output: string): string {
  const [line] = /^\{"endpoint".*\}$/m.exec(output) ?? [];
  if (line === undefined) throw new Error(`it has printed:\n${output}`);
  return line;
}

/** Makes a process take its Node for an old one. */
const OLD_NODE = `data:text/javascript,${encodeURIComponent(
  'Object.defineProperty(process.versions, "node", { value: "20.1.0" })',
)}`;

/** One file through one pipeline; answers the output. */
async function countWords(door: Door): Promise<string> {
  const s3 = new S3(door);
  await s3.createBucket("master.texts");
  await s3.put("master.texts", "file", "to be free");
  const control = new Control(door);
  await control.createPipeline({
    pipeline: { name: "count" },
    transform: { image: "busybox", cmd: ["sh", "-eu"], stdin: ["wc -w < /pfs/texts/file > /pfs/out/file"] },
    inputs: [{ repo: { name: "texts" }, glob: "/*" }],
  });
  const [job] = await control.ended("count", { count: 1 });
  expect(job).toMatchObject({ state: "success", datums: { processed: 1 } });
  return String(await s3.get("master.count", "file"));
}
