import { execFileSync } from "node:child_process";
import { chmod, mkdir, mkdtemp, rm, symlink, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Command, Executor, Run } from "../../../runner/executors/executor.ts";
import { guardDisk } from "../../../runner/executors/guard-disk.ts";
import type { Space } from "../../../runner/lib/sizes.ts";
import { FreeSpace, folderSize } from "../../../runner/limits/free-space.ts";
import { removeTree } from "../../../runner/pfs/remove.ts";
import { soon } from "./support/running.ts";

const MIB = 1024 ** 2;
const GIB = 1024 ** 3;
const signal = new AbortController().signal;
let dir: string;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "sluice-disk-"));
});
afterEach(() => removeTree(dir));

const fill = (path: string, bytes: number) => writeFile(path, Buffer.alloc(bytes, "x"));

describe("the size of a folder", () => {
  const size = (command: "running" | "ended" = "running") =>
    folderSize(dir, { enough: Number.POSITIVE_INFINITY, command, signal });

  test("counts files below folders of any name, and holes only in the sizes", async () => {
    await mkdir(join(dir, "a/b"), { recursive: true });
    await fill(join(dir, "a/b/file"), MIB);
    await fill(`${dir}/${Buffer.from([0xff, 0x0a]).toString("latin1")}`, MIB);
    await writeFile(join(dir, "holes"), "");
    await truncate(join(dir, "holes"), 10 * GIB);
    const { taken, apparent } = await size();
    expect(taken).toBeGreaterThanOrEqual(2 * MIB);
    expect(taken).toBeLessThan(4 * MIB);
    expect(apparent).toBe(10 * GIB + 2 * MIB);
  });

  test("follows no link, opens no pipe, and finds nothing where nothing is", async () => {
    await mkdir(join(dir, "out"));
    await fill(join(dir, "file"), MIB);
    await symlink(dir, join(dir, "out/up"));
    await symlink(join(dir, "file"), join(dir, "out/file"));
    execFileSync("mkfifo", [join(dir, "out/pipe")]);
    const of = (path: string) => folderSize(join(dir, path), { enough: GIB, command: "ended", signal });
    expect((await of("out")).apparent).toBe(0);
    expect(await of("none")).toEqual({ taken: 0, apparent: 0 });
  });

  test("ends early where it has found enough", async () => {
    for (let i = 0; i < 20; i += 1) await fill(join(dir, String(i)), MIB);
    const { taken } = await folderSize(dir, { enough: 3 * MIB, command: "running", signal });
    expect(taken).toBeLessThan(6 * MIB);
  });

  test("a folder that the command closed is opened when it has ended", async () => {
    await mkdir(join(dir, "closed"));
    await fill(join(dir, "closed/file"), MIB);
    await chmod(join(dir, "closed"), 0o000);
    expect((await size("ended")).apparent).toBe(MIB);
  });
});

describe("a disk that fills up", () => {
  let space: Space;
  let guard: FreeSpace;
  const stopped: string[] = [];

  beforeEach(async () => {
    stopped.length = 0;
    space = { totalBytes: 4 * GIB, freeBytes: 3 * GIB };
    guard = new FreeSpace({ node: "n1", look: async () => space });
  });

  async function datum(name: string, bytes: number): Promise<() => void> {
    const out = join(dir, name);
    await mkdir(out);
    await fill(join(out, "file"), bytes);
    return guard.enter({ out, stop: (reason) => stopped.push(`${name}: ${reason}`) });
  }

  test("the datum with the most in its outputs is stopped, then the next, once the first is gone", async () => {
    const leave = [await datum("small", 17 * MIB), await datum("large", 30 * MIB), await datum("tiny", MIB)];
    space = { totalBytes: 4 * GIB, freeBytes: 100 * MIB };
    await soon(() => stopped).toHaveLength(1);
    expect(stopped[0]).toMatch(
      /^large: the disk of node n1 is nearly full \(100 MiB are free\), and .* this one had the most in \/pfs\/out, 30/,
    );
    leave[1]?.();
    await rm(join(dir, "large"), { recursive: true });
    await soon(() => stopped).toHaveLength(2);
    expect(stopped[1]).toContain("small: ");
    leave[0]?.();
    leave[2]?.();
  });

  test("a datum that has little is not to blame", async () => {
    space = { totalBytes: 4 * GIB, freeBytes: 0 };
    let looks = 0;
    guard = new FreeSpace({
      node: "n1",
      look: async () => {
        looks += 1;
        return space;
      },
    });
    const leave = await datum("tiny", MIB);
    await soon(() => looks).toBeGreaterThanOrEqual(2);
    expect(stopped).toEqual([]);
    leave();
  });
});

describe("the quota for outputs, whatever runs the command", () => {
  /** An executor whose commands are functions. */
  const executorOf = (work: (out: string, stop: AbortSignal) => Promise<Run>): Executor => ({
    name: "fake",
    prepare: async () => ({
      run: ({ pfs, signal: stop }) => work(join(pfs, "out"), stop),
      close: async () => {},
    }),
    close: async () => {},
  });
  const ended = (code: number): Run => ({ kind: "exited", code, log: "its log" });

  async function run(work: (out: string, stop: AbortSignal) => Promise<Run>, quota?: number): Promise<Run> {
    await mkdir(join(dir, "out"), { recursive: true });
    const guarded = guardDisk(executorOf(work), { outBytes: quota, node: "n1", dataDir: dir });
    const request = { dir, image: "any", pipeline: "p", pullSecrets: [], signal };
    const sandbox = await guarded.prepare(request);
    const command: Command = { pfs: dir, cmd: ["true"], stdin: null, env: {}, signal };
    return sandbox.run(command);
  }
  const fault = "the command wrote more than 2 MiB to /pfs/out (--disk of node n1)";

  test("a command that goes on writing is stopped", async () => {
    const run1 = await run(async (out, stop) => {
      for (let i = 0; !stop.aborted; i += 1) await fill(join(out, String(i)), MIB / 4);
      return ended(137);
    }, 2 * MIB);
    expect(run1).toEqual({ kind: "exited", code: 137, log: "its log", fault });
  });

  test("one that ends before anybody looked has failed all the same", async () => {
    const write = async (out: string) => {
      await fill(join(out, "file"), 3 * MIB);
      return ended(0);
    };
    expect(await run(write, 2 * MIB)).toMatchObject({ fault });
    expect(await run(write, 4 * MIB)).toEqual(ended(0));
    expect(await run(write)).toEqual(ended(0));
  });

  test("holes count when the command has ended, since they would be stored", async () => {
    const write = async (out: string) => {
      await writeFile(join(out, "holes"), "");
      await truncate(join(out, "holes"), 1024 * GIB);
      return ended(0);
    };
    expect(await run(write, 2 * MIB)).toMatchObject({ fault });
  });

  test("one that its executor could not start keeps the reason", async () => {
    const refused: Run = { kind: "not-started", reason: "no such command", log: "" };
    expect(await run(async () => refused, 2 * MIB)).toEqual(refused);
  });

  test("a file that was too large for the kernel is told as that", async () => {
    expect(await run(async () => ended(128 + 25), 2 * MIB)).toMatchObject({
      cause: "the command wrote a file larger than 2 MiB (--disk of node n1)",
    });
    expect(await run(async () => ended(128 + 25))).toEqual(ended(128 + 25));
  });
});
