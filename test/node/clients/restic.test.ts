// @module-tag rest
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { hasRestic, restic } from "../../support/clients/restic.ts";
import { readFolder, writeFolder, writeSample } from "../../support/clients/samples.ts";
import { type DevServer, startDevServer } from "../../support/dev-server.ts";
import { S3 } from "../../support/s3.ts";
import { removeScratch, scratchFolder } from "../../support/scratch.ts";

const HERE = hasRestic();

let server: DevServer;
const scratch = scratchFolder();
beforeAll(async () => {
  if (HERE) server = await startDevServer();
});
afterAll(async () => {
  await server?.stop();
  removeScratch(scratch);
});

test.skipIf(!HERE)(
  "restic backs a folder up twice, finds nothing wrong, restores both states and prunes",
  { timeout: 180_000 },
  async () => {
    await new S3(server).createBucket("master.restic");
    const run = restic(server, "master.restic");
    const source = join(scratch, "source");
    mkdirSync(source);
    writeFolder(source, {
      "notes.txt": "all the world is a stage\n",
      "ordner/ü 😀 [1].txt": "and all the men and women merely players\n",
      "empty.txt": "",
    });
    writeSample(join(source, "ordner", "large.bin"), { sizeBytes: 60_000_000, seed: "restic" });
    const before = readFolder(source);

    await run("init");
    const first = await backup(run, source);
    writeFileSync(join(source, "notes.txt"), "all the world is a stage, they say\n");
    rmSync(join(source, "empty.txt"));
    const after = readFolder(source);
    const second = await backup(run, source);

    expect(await run("check", "--read-data")).toContain("no errors were found");
    expect(await restored(run, first)).toEqual(before);
    expect(await restored(run, second)).toEqual(after);

    await run("forget", "--keep-last", "1", "--prune");
    expect(await run("check", "--read-data")).toContain("no errors were found");
    expect(await restored(run, "latest")).toEqual(after);
  },
);

type Restic = ReturnType<typeof restic>;

/** The id of the snapshot. */
async function backup(run: Restic, folder: string): Promise<string> {
  const summary = (await run("backup", "--json", folder)).trim().split("\n").at(-1) ?? "";
  return JSON.parse(summary).snapshot_id;
}

async function restored(run: Restic, snapshot: string): Promise<Record<string, string>> {
  const target = join(scratch, `restored ${snapshot}`);
  await run("restore", snapshot, "--target", target);
  const files = readFolder(join(target, scratch, "source"));
  rmSync(target, { recursive: true });
  return files;
}
