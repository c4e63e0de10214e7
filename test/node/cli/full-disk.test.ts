// @module-tag rest
import { randomBytes } from "node:crypto";
import { statfsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { EXIT } from "../../../cli/output/exit-codes.ts";
import { findTool } from "../../../runner/executors/find-tool.ts";
import { type DevServer, sluice, sluiceOk, startDevServer } from "../../support/dev-server.ts";
import { mustRun } from "../../support/processes.ts";
import { scratchFolder } from "../../support/scratch.ts";

const [mount, umount] = [await findTool("mount"), await findTool("umount")];
const needsMount = test.skipIf(process.getuid?.() !== 0 || !mount || !umount);
const MIB = 1024 * 1024;

let server: DevServer | undefined;
const folder = scratchFolder();

beforeAll(async () => {
  server = await startDevServer();
});
afterAll(() => server?.stop());

needsMount(
  "a full disk ends a command with its own code, and the message names what frees room",
  async () => {
    if (!server) throw new Error("no gateway");
    const blobs = join(server.data, "blobs");
    // Databases have room: the blobs alone lie on a disk that is full.
    await mustRun([mount ?? "", "-t", "tmpfs", "-o", "size=8m", "tmpfs", blobs]);
    try {
      await server.kill9();
      await server.restart();
      await sluiceOk(server, "mb", "s3://master.full");
      writeFileSync(join(folder, "large"), randomBytes(16 * MIB));
      const refused = await sluice(server, "cp", join(folder, "large"), "s3://master.full/large");
      expect(refused.stderr).toMatch(
        /^error: The gateway's disk is full.*'sluice branch keep BRANCH --commits N'/m,
      );
      expect(refused.code).toBe(EXIT.diskFull);
      expect(statfsSync(blobs).type).toBe(0x01021994);
    } finally {
      await server.kill9();
      await mustRun([umount ?? "", blobs]);
      await server.restart();
    }
  },
  120_000,
);
