import { execFile } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { closeSync, openSync, writeFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { promisify } from "node:util";
import { afterEach, beforeEach, expect, test } from "vitest";
import { LEAF_BYTES } from "../../../protocol/digest.ts";
import { openIncoming, writeVerified } from "../../../runner/cache/fetch.ts";
import { leavesOf } from "../../../runner/lib/leaf-threads.ts";
import { TreeHash } from "../../../runner/lib/tree-hash.ts";
import { removeScratch, scratchFolder } from "../../support/scratch.ts";

const run = promisify(execFile);
const bytes = randomBytes(9 * LEAF_BYTES + 12_345);
let dir: string;
let file: string;
let descriptor: number;

beforeEach(() => {
  dir = scratchFolder();
  file = join(dir, "file");
  writeFileSync(file, bytes);
  descriptor = openSync(file, "r");
});
afterEach(() => {
  closeSync(descriptor);
  removeScratch(dir);
});

function expectedLeaves(from: number, to: number): string[] {
  const leaves: string[] = [];
  for (let start = from; start < to; start += LEAF_BYTES) {
    const leaf = bytes.subarray(start, Math.min(start + LEAF_BYTES, to));
    leaves.push(createHash("sha256").update(leaf).digest("hex"));
  }
  return leaves;
}

async function foundLeaves(from: number, to: number): Promise<string[]> {
  const leaves = await leavesOf({ descriptor, from, to });
  return leaves.map((leaf) => Buffer.from(leaf).toString("hex"));
}

test("the leaves of a range are hashed on another thread, whichever of many ranges it is", async () => {
  const ranges = [
    [0, bytes.length],
    [0, 1],
    [LEAF_BYTES, 3 * LEAF_BYTES],
    [9 * LEAF_BYTES, bytes.length],
    ...Array.from({ length: 30 }, (_, i) => [(i % 9) * LEAF_BYTES, (i % 9) * LEAF_BYTES + 1 + i]),
  ] as [number, number][];
  const found = await Promise.all(ranges.map((range) => foundLeaves(...range)));
  expect(found).toEqual(ranges.map((range) => expectedLeaves(...range)));
});

test("a file that ends before the range does, or can't be read, fails that range alone", async () => {
  const [short, closed, right] = await Promise.allSettled([
    foundLeaves(9 * LEAF_BYTES, bytes.length + 1),
    leavesOf({ descriptor: 1_000_000, from: 0, to: 1 }),
    foundLeaves(0, 10),
  ]);
  expect(short).toMatchObject({ reason: { message: `the file ends after ${bytes.length} bytes` } });
  expect(closed).toMatchObject({ reason: { code: "EBADF" } });
  expect(right).toEqual({ status: "fulfilled", value: expectedLeaves(0, 10) });
});

test("threads keep a process for what they are asked, and not after that", async () => {
  const module = join(import.meta.dirname, "../../../runner/lib/leaf-threads.ts");
  const program = join(dir, "program.mjs");
  const text = `
    import { openSync } from "node:fs";
    import { leavesOf } from ${JSON.stringify(module)};
    leavesOf({ descriptor: openSync(${JSON.stringify(file)}), from: 0, to: ${bytes.length} })
      .then((leaves) => console.log(leaves.length));`;
  writeFileSync(program, text);
  const { stdout } = await run(process.execPath, [program]);
  expect(stdout).toBe("10\n");
});

test("a large body's memory is freed as it is written, but for what a piece shares with others", async () => {
  const hash = new TreeHash();
  hash.update(bytes);
  const content = hash.finish();
  const whole = (from: number, to: number) => Buffer.from(new Uint8Array(bytes.subarray(from, to)).buffer);
  const shared = Buffer.concat([bytes.subarray(0, LEAF_BYTES), Buffer.from("of others")]);
  const pieces = [
    shared.subarray(0, LEAF_BYTES),
    whole(LEAF_BYTES, 4 * LEAF_BYTES),
    whole(4 * LEAF_BYTES, bytes.length),
  ];
  const incoming = await openIncoming(join(dir, "incoming"), content);
  try {
    await writeVerified(incoming, { body: Readable.from(pieces), content });
  } finally {
    await incoming.close();
  }
  expect(pieces.map(({ buffer }) => (buffer as ArrayBuffer).detached)).toEqual([false, true, true]);
  expect(shared.subarray(LEAF_BYTES).toString()).toBe("of others");
  const kept = await open(join(dir, "incoming"));
  expect((await kept.readFile()).equals(bytes)).toBe(true);
  await kept.close();
});
