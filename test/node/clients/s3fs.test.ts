// @module-tag rest
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { hasS3fs, type Mounted, mountS3fs } from "../../support/clients/s3fs.ts";
import { fileHash, writeSample } from "../../support/clients/samples.ts";
import { type DevServer, startDevServer } from "../../support/dev-server.ts";
import { mustRun } from "../../support/processes.ts";
import { S3 } from "../../support/s3.ts";
import { removeScratch, scratchFolder } from "../../support/scratch.ts";

const HERE = hasS3fs();
const TEST = { timeout: 120_000 };

let server: DevServer;
let s3: S3;
const scratch = scratchFolder();
const mounts: Mounted[] = [];

beforeAll(async () => {
  if (!HERE) return;
  server = await startDevServer();
  s3 = new S3(server);
});
afterEach(async () => {
  for (const mounted of mounts.splice(0)) await mounted.unmount();
});
afterAll(async () => {
  await server?.stop();
  removeScratch(scratch);
});

/** A shell in the bucket's folder; answers what it printed. In a process of its own, so that a file system that hangs does not hang the test. */
type Shell = (script: string) => Promise<string>;

async function mount(bucket: string): Promise<Shell> {
  const mounted = await mountS3fs(server, bucket);
  mounts.push(mounted);
  return (script) => mustRun(["sh", "-euc", script], { cwd: mounted.folder, env: { LC_ALL: "C.UTF-8" } });
}

test.skipIf(!HERE)("s3fs makes folders, writes, reads, appends, renames and removes", TEST, async () => {
  await s3.createBucket("master.files");
  const sh = await mount("master.files");
  expect(await sh("mkdir -p d/sub; echo one > d/a.txt; echo two >> d/a.txt; cat d/a.txt")).toBe("one\ntwo\n");
  expect((await s3.get("master.files", "d/a.txt"))?.toString()).toBe("one\ntwo\n");
  expect(await s3.keys("master.files")).toEqual(["d/", "d/a.txt", "d/sub/"]);

  await sh("mv d/a.txt 'd/sub/b ü+%.txt'; mv d e");
  expect(await sh("cat e/sub/*")).toBe("one\ntwo\n");
  expect(await s3.keys("master.files")).toEqual(["e/", "e/sub/", "e/sub/b ü+%.txt"]);

  await sh("echo three > e/sub/c.txt; rm e/sub/b*");
  expect(await sh("ls e/sub")).toBe("c.txt\n");
  await sh('rm e/sub/c.txt; rmdir e/sub e; [ -z "$(ls)" ]');
  expect(await s3.keys("master.files")).toEqual([]);
});

test.skipIf(!HERE)("s3fs keeps modes and times, which another mount sees", TEST, async () => {
  await s3.createBucket("master.modes");
  const sh = await mount("master.modes");
  await sh("mkdir -m 750 d; echo '#!/bin/sh' > d/run; chmod 755 d/run; touch -d @1000000000 d/run");
  await sh("echo secret > d/secret; chmod 600 d/secret; ln -s run d/link");
  await mounts.pop()?.unmount();
  const again = await mount("master.modes");
  expect(await again("stat -c '%A %n' d d/*")).toBe(
    "drwxr-x--- d\nlrwxrwxrwx d/link\n-rwxr-xr-x d/run\n-rw------- d/secret\n",
  );
  expect(await again("stat -c %Y d/run")).toBe("1000000000\n");
  expect(await again("ls -l d | wc -l; cat d/link")).toBe("4\n#!/bin/sh\n");
});

test.skipIf(!HERE)("s3fs writes a large file in parts, appends to it and moves it", TEST, async () => {
  await s3.createBucket("master.large");
  const sh = await mount("master.large");
  const [large, tail] = [join(scratch, "large"), join(scratch, "tail")];
  writeSample(large, { sizeBytes: 50_000_000, seed: "s3fs" });
  writeSample(tail, { sizeBytes: 123_456, seed: "tail" });
  await sh(`cp ${large} large.bin; cat ${tail} >> large.bin; mkdir d; mv large.bin d/moved.bin`);
  await mounts.pop()?.unmount();

  await mustRun(["sh", "-euc", `cat ${tail} >> ${large}`]);
  const again = await mount("master.large");
  expect(await again("sha256sum < d/moved.bin")).toContain(fileHash(large));
  // A read in the middle, of a file that this mount has not cached.
  expect(await again("dd if=d/moved.bin bs=1000 skip=30000 count=1 status=none | wc -c")).toBe("1000\n");
});
