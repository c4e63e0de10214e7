import { createHash } from "node:crypto";
import { readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { gunzipSync } from "node:zlib";
import type { Miniflare } from "miniflare";
import { afterEach, describe, expect, test } from "vitest";
import { type Gateway, startGateway } from "../../../embedded/host.ts";
import { HostError } from "../../../embedded/host-error.ts";
import { startRuntime } from "../../../embedded/workerd/runtime.ts";
import { workerdEnvironment } from "../../../embedded/workerd/workerd.ts";
import { OTHER_FAMILY } from "../../../protocol/family.ts";
import { ROOT, scratchHome, sluiceCommand, sluiceOk } from "../../support/dev-server.ts";
import { mustRun, run } from "../../support/processes.ts";
import { scratchFolder } from "../../support/scratch.ts";
import { REST } from "../../support/suite.ts";

/*
 * What the code of commit b214697 left, which was before the first release: the folder of a gateway after a clean stop, with a
 * repo of four commits and a tag, a pipeline that ran on it, an open commit and an unfinished multipart upload; and an archive
 * of that repo. Nothing in this repository makes them again.
 */

const FIXTURES = join(ROOT, "test/fixtures/before-1");
const log = { debug() {}, info() {}, warn() {}, error() {} };
const D1 = "d1/miniflare-D1DatabaseObject";

async function recordedFolder(): Promise<string> {
  const folder = scratchFolder();
  await mustRun(["tar", "-xzf", join(FIXTURES, "folder.tar.gz"), "-C", folder]);
  return folder;
}

/** The files that only say who has the folder, or a database, open. */
const LOCKS = /(^|\/)(gateway\.lock(-journal)?|gateway\.json|workerd\.pid|[^/]*\.sqlite-shm)$/;

/** Each data file of a folder, with a hash of its bytes. */
function filesOf(folder: string): Record<string, string> {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((file) => !LOCKS.test(file))
    .sort();
  const hash = (file: string): string => createHash("sha256").update(readFileSync(file)).digest("hex");
  return Object.fromEntries(files.map((file) => [relative(folder, file), hash(file)]));
}

let gateway: Gateway | undefined;
let runtime: Miniflare | undefined;

afterEach(async () => {
  await gateway?.stop();
  await runtime?.dispose();
  gateway = undefined;
  runtime = undefined;
});

describe("a folder from before the first release", () => {
  test("is refused with what to carry over, and each of its data files stays as it is, byte by byte", async () => {
    const dataDir = await recordedFolder();
    const before = filesOf(dataDir);
    expect(Object.keys(before).filter((file) => file.endsWith(".sqlite-wal")).length).toBeGreaterThan(4);
    const started = startGateway({ host: "127.0.0.1", port: 0, dataDir, log });
    const failure = await started.catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(HostError);
    expect(failure).toMatchObject({ message: `${join(dataDir, "state")}: ${OTHER_FAMILY}` });
    expect(filesOf(dataDir)).toEqual(before);
  });

  test("is refused by what its objects have if D1 was moved away", async () => {
    const dataDir = await recordedFolder();
    renameSync(join(dataDir, "state/d1"), join(scratchFolder(), "d1"));
    const before = filesOf(dataDir);
    const started = startGateway({ host: "127.0.0.1", port: 0, dataDir, log });
    await expect(started).rejects.toThrow(OTHER_FAMILY);
    expect(filesOf(dataDir)).toEqual(before);
  });

  test("ends 'sluice dev' with 1 and the same words", REST, async () => {
    const dataDir = await recordedFolder();
    const before = filesOf(dataDir);
    const command = sluiceCommand(["dev", "--data", dataDir, "--port", "0", "--runners", "0"]);
    const { code, stderr } = await run(command, { env: { HOME: scratchHome } });
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: `error: ${join(dataDir, "state")}: ${OTHER_FAMILY}\n`,
    });
    expect(filesOf(dataDir)).toEqual(before);
  });
});

describe("D1 from before the first release", () => {
  test("fails wrangler at the first statement of the migration, and keeps its tables", REST, async () => {
    const persistTo = scratchFolder();
    const stateDir = join(persistTo, "v3");
    const folder = join(stateDir, D1);
    runtime = await startRuntime({
      ...{ code: "export default {};", stateDir, workerdEnv: workerdEnvironment(scratchFolder()), log },
      ...{ compatibilityDate: "2026-10-20", compatibilityFlags: [], objectClasses: [] },
      // The one of wrangler.toml.
      bindings: { DB: { type: "d1", id: "00000000-0000-0000-0000-000000000000" } },
    });
    await (await runtime.getD1Database("DB")).prepare("SELECT 1").run();
    await runtime.dispose();
    // The file of that database, with what the recorded one has.
    const database = readdirSync(folder).find((file) => /^[0-9a-f]+\.sqlite$/.test(file)) ?? "";
    const recorded = join(await recordedFolder(), "state", D1);
    const old = readdirSync(recorded).find((file) => /^[0-9a-f]+\.sqlite$/.test(file)) ?? "";
    for (const suffix of ["", "-wal", "-shm"]) {
      rmSync(join(folder, `${database}${suffix}`), { force: true });
      writeFileSync(join(folder, `${database}${suffix}`), readFileSync(join(recorded, `${old}${suffix}`)));
    }
    const wrangler = (...args: string[]) =>
      run([join(ROOT, "node_modules/.bin/wrangler"), "d1", ...args, "--local", "--persist-to", persistTo], {
        cwd: ROOT,
        env: { HOME: scratchHome, CI: "1", WRANGLER_SEND_METRICS: "false", WRANGLER_HIDE_BANNER: "true" },
      });
    const tables = async (): Promise<unknown> => {
      const asked = "SELECT sql FROM sqlite_master ORDER BY name";
      const { stdout } = await wrangler("execute", "DB", "--json", "--command", asked);
      return JSON.parse(`${stdout}`).map(({ results }: { results: unknown }) => results);
    };
    const before = await tables();
    expect(JSON.stringify(before)).toContain("CREATE TABLE branches");
    const { code, stdout, stderr } = await wrangler("migrations", "apply", "DB");
    expect(code).toBe(1);
    expect(`${stdout}${stderr}`).toContain("table branches already exists");
    expect(await tables()).toEqual(before);
  });
});

describe("an archive from before the first release", () => {
  /** The entries of an archive, those in JSON read. */
  async function entriesOf(archive: string): Promise<Record<string, unknown>> {
    const folder = scratchFolder();
    await mustRun(["tar", "-xf", archive, "-C", folder]);
    const entries = Object.keys(filesOf(folder)).map((name) => {
      const bytes = readFileSync(join(folder, name));
      return [name, name.endsWith(".json") ? JSON.parse(bytes.toString()) : bytes.toString("base64")];
    });
    return Object.fromEntries(entries);
  }

  test(
    "is imported whole: commits, annotations, tags, files, attributes and bytes are what they were",
    REST,
    async () => {
      const archive = join(scratchFolder(), "images.tar");
      writeFileSync(archive, gunzipSync(readFileSync(join(FIXTURES, "images.tar.gz"))));
      gateway = await startGateway({ host: "127.0.0.1", port: 0, dataDir: scratchFolder(), log });
      const door = { endpoint: gateway.endpoint, ...gateway.rootKey };
      await sluiceOk(door, "repo", "import", archive);

      const list = JSON.parse(await sluiceOk(door, "commit", "list", "master.images", "--json"));
      expect(list.commits).toMatchObject([
        { id: "01M8D3D5GSPYPHY0VK44Z771KZ" },
        { id: "01M8D3D3KJDD1961738Q6RFRKJ" },
        { id: "01M8D3D3DY1FM9M0NKGAQGXXD5" },
        { id: "01M8D3D344RYGCW58WHEFX5M0B", message: "spring survey", meta: { camera: "k7" } },
      ]);
      expect(await sluiceOk(door, "cat", "s3://v1.master.images/2026/a.txt")).toBe("one\n");
      expect(await sluiceOk(door, "cat", "s3://v1.master.images/2026/pets/cat.json")).toBe('{"x":1}\n');
      expect(await sluiceOk(door, "cat", "s3://master.images/2026/a.txt")).toBe("two\n");
      expect((await sluiceOk(door, "cat", "s3://master.images/2026/big.txt")).length).toBe(300_000);

      const again = join(scratchFolder(), "again.tar");
      await sluiceOk(door, "repo", "export", "images", again);
      const [was, is] = [await entriesOf(archive), await entriesOf(again)];
      for (const name of Object.keys(was).filter((name) => !/(branch|end|files-\d+)\.json$/.test(name))) {
        expect(is[name], name).toEqual(was[name]);
      }
      const { branches } = was["end.json"] as { branches: unknown };
      expect(is["end.json"]).toMatchObject({ branches });
      const { imported: _, ...branch } = is["branches/master/branch.json"] as Record<string, unknown>;
      expect(branch).toMatchObject(was["branches/master/branch.json"] as object);
      expect(is["branches/master/files-000001.json"]).toMatchObject({
        files: (was["branches/master/files-000001.json"] as { files: unknown[][] }).files.map((row) =>
          expect.arrayContaining(row),
        ),
      });
    },
  );
});
