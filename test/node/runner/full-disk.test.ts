import { randomBytes } from "node:crypto";
import { mkdir, open, readFile, realpath, rm, statfs } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { allEntries } from "../../../runner/cache/entries.ts";
import { findBubblewrap, findUnshare } from "../../../runner/executors/detect.ts";
import type { Executor } from "../../../runner/executors/executor.ts";
import { readRootEntries } from "../../../runner/executors/process/machine.ts";
import { processExecutor } from "../../../runner/executors/process/process.ts";
import { findTool } from "../../../runner/lib/system-calls.ts";
import { TreeHash } from "../../../runner/lib/tree-hash.ts";
import { canMount, mountDisk, unmountDisk } from "../../support/small-disk.ts";
import { REST } from "../../support/suite.ts";
import { Stage, soon } from "./support/running.ts";

/*
 * A node whose data folder lies on a disk that others fill.
 */

const KIB = 1024;
const MIB = 1024 * KIB;
const DISK_MIB = 32;
const hasJail = (await findTool("bwrap")) !== undefined || (await findTool("setpriv")) !== undefined;
/** Root mounts the disk, and a jail runs commands. */
const needs = test.skipIf(!canMount || !hasJail);

let stage: Stage;
let disk: string;

beforeEach(async () => {
  stage = await Stage.open();
  disk = await realpath(stage.dataDir);
  if (canMount) await mountDisk(disk, { mib: DISK_MIB });
});
afterEach(async () => {
  await stage.endRunners();
  if (canMount) await unmountDisk(disk);
  await stage.close();
});

const freeBytes = async (): Promise<number> => {
  const { bavail, bsize } = await statfs(disk);
  return bavail * bsize;
};

/** What others have on the disk: all of it, but so many bytes. */
async function fill({ but = 0 }: { but?: number } = {}): Promise<void> {
  const file = await open(join(disk, "others"), "w");
  try {
    const rest = (await freeBytes()) - but;
    for (let left = rest; left > 0; left -= 64 * KIB) await file.write(Buffer.alloc(64 * KIB, 1));
  } catch {
    // That was all.
  } finally {
    await file.close();
  }
}

const makeRoom = () => rm(join(disk, "others"));

/** Queues a datum that reads a new file of so many bytes; its content. */
function addFile(sizeBytes: number): Buffer {
  const bytes = randomBytes(sizeBytes);
  const path = `file-${stage.gateway.contents.size}`;
  stage.gateway.addDatum({ path, kind: "file", content: stage.gateway.store(bytes) });
  return bytes;
}

const states = () => stage.gateway.outcomes.map(({ state }) => state);
const done = () => stage.gateway.outcomes.filter(({ state }) => state === "success");

/** Every file of the cache is the content that its name says. */
async function expectWholeCache(): Promise<number> {
  let entries = 0;
  for await (const { path, content } of allEntries(join(disk, "cache"))) {
    const hash = new TreeHash();
    hash.update(await readFile(path));
    expect(hash.finish()).toEqual(content);
    entries += 1;
  }
  return entries;
}

describe("a node whose disk is full", () => {
  beforeEach(() => {
    stage.gateway.transform = { image: "any", cmd: ["sh"], stdin: ["cp /pfs/in/* /pfs/out/copy"] };
  });

  needs(
    "gives back what it has no room for, says why, and goes on by itself once there is room (root, to mount a small disk)",
    async () => {
      await stage.runner();
      const first = addFile(MIB);
      await stage.reported(1);
      await fill({ but: 256 * KIB });
      const later = [addFile(3 * MIB), addFile(3 * MIB)];
      await soon(() => stage.gateway.troubles.at(-1)).toMatch(
        /^the inputs could not be laid out: the disk of this node is full: there is no room in .* for 3145728 bytes of input$/,
      );
      expect(done()).toHaveLength(1);
      await expectWholeCache();

      await makeRoom();
      await soon(() => done().length).toBe(3);
      expect(states()).not.toContain("failed");
      const copies = done().map((outcome) => stage.gateway.outputBytes(outcome, "copy"));
      expect(copies).toEqual(expect.arrayContaining([first, ...later]));
      await soon(() => stage.gateway.troubles.at(-1)).toBe(null);
      expect(await expectWholeCache()).toBeGreaterThanOrEqual(2);
    },
  );

  needs(
    "fails a datum that would take most of the disk by itself, and runs the others (root, to mount a small disk)",
    REST,
    async () => {
      await stage.runner();
      await fill({ but: 4 * MIB });
      addFile(20 * MIB);
      addFile(10 * KIB);
      await stage.reported(2);
      expect(stage.gateway.outcomes.filter(({ state }) => state !== "returned")).toMatchObject([
        { state: "failed", blame: "node", reason: expect.stringContaining("the disk of this node is full") },
        { state: "success" },
      ]);
    },
  );

  needs(
    "is to blame for a command that fails while it has no room for outputs (root, to mount a small disk)",
    REST,
    async () => {
      stage.gateway.transform = { image: "any", cmd: ["sh"], stdin: ["cp /pfs/in/* /pfs/out/copy"] };
      await stage.runner();
      await fill({ but: MIB + 512 * KIB });
      addFile(MIB);
      await stage.reported(1);
      expect(stage.gateway.outcomes.find(({ state }) => state !== "returned")).toMatchObject({
        ...{ state: "failed", blame: "node", exitCode: 1 },
        reason: expect.stringMatching(
          /^the command ended with exit code 1 while the disk of node n1 was nearly full \(.* are free\)$/,
        ),
        log: expect.stringContaining("No space left on device"),
      });
      await makeRoom();
      addFile(MIB);
      await soon(() => done().length).toBe(1);
    },
  );
});

describe("a command's standard input", () => {
  needs(
    "is whole although it could not be written before, on a disk that was full (root, to mount a small disk)",
    REST,
    async () => {
      const terms = { root: await readRootEntries(), dataDir: disk };
      const found = await findBubblewrap(terms);
      const jail = typeof found === "string" ? await findUnshare(terms) : found;
      if (typeof jail === "string") throw new Error(jail);
      const executor: Executor = processExecutor(jail);
      const [dir, pfs] = [join(disk, "worker"), join(disk, "datum")];
      await mkdir(join(pfs, "out"), { recursive: true });
      await mkdir(dir);
      const { signal } = new AbortController();
      const sandbox = await executor.prepare({ dir, image: "any", pipeline: "p", pullSecrets: [], signal });
      const run = (stdin: string) =>
        sandbox.run({ pfs, cmd: ["sh", "-c", "wc -c"], stdin, env: { PATH: "/usr/bin:/bin" }, signal });
      try {
        const short = "first\n".repeat(2000);
        expect(await run(short)).toMatchObject({
          code: 0,
          log: expect.stringContaining(String(short.length)),
        });
        await fill({ but: 32 * KIB });
        await expect(run("second\n".repeat(100_000))).rejects.toThrow("ENOSPC");
        await makeRoom();
        expect(await run(short)).toMatchObject({
          code: 0,
          log: expect.stringContaining(String(short.length)),
        });
      } finally {
        await sandbox.close();
        await executor.close();
      }
    },
  );
});
