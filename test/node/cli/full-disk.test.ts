// @module-tag rest
import { randomBytes } from "node:crypto";
import { statfsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { EXIT } from "../../../cli/output/failure.ts";
import { type DevServer, sluice, sluiceOk, startDevServer } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { scratchFolder } from "../../support/scratch.ts";
import { mountDisk, needsMount, unmountDisk } from "../../support/small-disk.ts";

const MIB = 1024 * 1024;

let server: DevServer | undefined;
const folder = scratchFolder();

beforeAll(async () => {
  server = await startDevServer();
});
afterAll(() => server?.stop());

async function readiness({ endpoint }: DevServer): Promise<object> {
  const answer = await fetch(`${endpoint}/readyz`);
  return { status: answer.status, ...((await answer.json()) as object) };
}

needsMount(
  "a full disk ends a command with its own code, and the message names what frees room",
  async () => {
    if (!server) throw new Error("no gateway");
    const blobs = join(server.data, "blobs");
    // Databases have room: the blobs alone lie on a disk that is full.
    await mountDisk(blobs, { mib: 8 });
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
      expect(await readiness(server)).toEqual({ status: 200, ready: true, failed: ["disk"] });

      // What is smaller than what is left is taken, until the reserve is all that there is.
      writeFileSync(join(folder, "most"), randomBytes(7.5 * MIB));
      await sluiceOk(server, "cp", join(folder, "most"), "s3://master.full/most");
      await eventually("the gateway hears that its disk is full", async () => {
        if (!server) throw new Error("no gateway");
        // Bytes that the branch has already are not sent again.
        writeFileSync(join(folder, "small"), randomBytes(5000));
        return (
          (await sluice(server, "cp", join(folder, "small"), "s3://master.full/small")).code === EXIT.diskFull
        );
      });
      expect(await readiness(server)).toEqual({ status: 200, ready: true, failed: ["disk"] });
      // What a look before the last file has found counts for two seconds more.
      const doctor = await eventually("doctor says that the disk is full", async () => {
        const told = server && (await sluice(server, "doctor", "--executor", "process"));
        return told?.stdout.toString().includes("data is full") && told;
      });
      expect(doctor.stdout.toString()).toMatch(
        /^fail {2}ready {7}disk: The disk of the gateway's data is full.*\n {18}Deleting files alone frees nothing.*'sluice branch keep BRANCH\.REPO --commits N'/m,
      );
      expect(doctor.code).toBe(1);
      const used = () => statfsSync(blobs).blocks - statfsSync(blobs).bfree;
      const before = used();
      expect((await sluiceOk(server, "ls", "s3://master.full/")).trim()).toContain("most");
      await sluiceOk(server, "rm", "s3://master.full/most");
      expect(used()).toBe(before);
    } finally {
      await server.kill9();
      await unmountDisk(blobs);
      await server.restart();
    }
  },
  120_000,
);
