// @module-tag rest
import { createHash, randomBytes } from "node:crypto";
import {
  closeSync,
  openSync,
  rmSync,
  statfsSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { type DevServer, sluice, sluiceOk, startDevServer } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import type { Answer } from "../../support/http.ts";
import { S3 } from "../../support/s3.ts";
import { scratchFolder } from "../../support/scratch.ts";
import { canMount, mountDisk, needsMount, unmountDisk } from "../../support/small-disk.ts";

/*
 * A gateway whose whole folder lies on a small disk: blobs, databases, the log. It is written full by clients, then to the last
 * byte by somebody else.
 */

const MIB = 1024 * 1024;
const CLIENTS = 6;
const BUCKET = "master.small";

const disk = scratchFolder();
let server: DevServer;
let s3: S3;
/** Digests of what was acknowledged, by key. */
const acknowledged = new Map<string, string>();

beforeAll(async () => {
  if (!canMount) return;
  await mountDisk(disk, { mib: 48 });
  server = await startDevServer({ data: join(disk, "data") });
  s3 = new S3(server);
});
afterAll(async () => {
  await server?.stop();
  if (canMount) await unmountDisk(disk);
});

const digestOf = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");
const freeBytes = (): number => {
  const { bavail, bsize } = statfsSync(disk);
  return bavail * bsize;
};

let keys = 0;

/** A PUT of a new file; its answer. */
async function put(size: number): Promise<Answer> {
  const key = `file-${++keys}`;
  const bytes = randomBytes(size);
  const answer = await s3.ask("PUT", `/${BUCKET}/${key}`, bytes);
  if (answer.status === 200) acknowledged.set(key, digestOf(bytes));
  return answer;
}

const isFull = ({ status, text }: Answer): boolean =>
  status === 503 && text.includes("<Code>StorageFull</Code>");

/** Clients write files of all sizes until each of them was refused several times. */
async function writeFull(): Promise<Answer[]> {
  const refused: Answer[] = [];
  const client = async (sizes: readonly number[]) => {
    for (let misses = 0, n = 0; misses < 4; n++) {
      const answer = await put(sizes[n % sizes.length] ?? 1);
      if (answer.status === 200) continue;
      misses++;
      refused.push(answer);
    }
  };
  await Promise.all(
    Array.from({ length: CLIENTS }, (_, n) => client(n === 0 ? [4096, 700] : [256 * 1024, MIB, 70_000])),
  );
  return refused;
}

/** Whether all that was acknowledged, and nothing else, is listed, and some of it reads as it was written. */
async function expectAll(): Promise<void> {
  expect(await s3.keys(BUCKET)).toEqual([...acknowledged.keys()].sort());
  for (const [key, digest] of [...acknowledged].filter((_, n) => n % 7 === 0)) {
    const bytes = await s3.get(BUCKET, key);
    expect(bytes && digestOf(bytes)).toBe(digest);
  }
}

/** Takes all that is left of the disk. */
function takeRest(): string {
  const file = join(disk, "others");
  const handle = openSync(file, "w");
  const block = Buffer.alloc(64 * 1024, 1);
  for (let size = block.length; size >= 512; ) {
    try {
      writeSync(handle, block, 0, size);
    } catch {
      size /= 2;
    }
  }
  closeSync(handle);
  return file;
}

needsMount(
  "a disk that is written full refuses files by a clear error, keeps what was acknowledged, and takes files again once there is room (root, to mount a small disk)",
  async () => {
    await s3.createBucket(BUCKET);
    // What others have there from the first on, and remove in the end.
    const large = join(disk, "large");
    writeFileSync(large, Buffer.alloc(8 * MIB, 1));
    const refused = await writeFull();
    expect(refused.filter((answer) => !isFull(answer)).map(({ text }) => text)).toEqual([]);
    expect(acknowledged.size).toBeGreaterThan(20);
    await expectAll();

    // Others leave it not a byte: not even what was kept back for deletions.
    const others = takeRest();
    expect(freeBytes()).toBeLessThan(64 * 1024);
    for (const size of [10, 4096, 100_000]) expect(await put(size)).toSatisfy(isFull);
    await expectAll();
    // Nothing can be written down: what asks for it is refused or done, and nothing in between.
    const [first = "", second = "", third = ""] = acknowledged.keys();
    const deleted = await s3.ask("DELETE", `/${BUCKET}/${first}`);
    if (deleted.status === 204) acknowledged.delete(first);
    else expect(deleted).toSatisfy(isFull);
    for (const bucket of ["master.other", "more.small"])
      expect(await s3.ask("PUT", `/${bucket}`)).toSatisfy(isFull);
    await expectAll();

    // Some room, less than what is kept back: deletions and erasures are done, files are refused.
    truncateSync(others, statSync(others).size - 2 * MIB);
    await eventually("a deletion is done", async () => {
      const { status } = await s3.ask("DELETE", `/${BUCKET}/${second}`);
      return status === 204;
    });
    acknowledged.delete(second);
    await sluiceOk(server, "file", "erase", "--all-versions", `s3://${BUCKET}/${third}`);
    acknowledged.delete(third);
    expect(await put(10)).toSatisfy(isFull);
    await expectAll();

    // There is more room than before. Nobody starts the gateway anew.
    for (const file of [others, large]) rmSync(file);
    for (const bucket of ["master.other", "more.small"])
      await eventually("buckets are made again", async () => {
        const { status } = await s3.ask("PUT", `/${bucket}`);
        return status === 200 || status === 409;
      });
    await eventually("files are taken again", async () => (await put(100_000)).status === 200);
    expect(await s3.put("master.other", "a", "b")).toMatchObject({ version: expect.any(String) });
    await expectAll();
    expect(await sluice(server, "fsck")).toMatchObject({ code: 0 });
    console.log(`${acknowledged.size} files, ${refused.length} refusals`);
  },
  120_000,
);
