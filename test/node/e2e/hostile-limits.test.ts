// @module-tag rest
import { execFileSync } from "node:child_process";
import { mkdtemp, readFile, realpath, rm, statfs } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { LOG_TAIL_BYTES } from "../../../protocol/runner.ts";
import { findTool } from "../../../runner/lib/system-calls.ts";
import type { Limits } from "../../../runner/limits/limits.ts";
import { HostileStage } from "./hostile-stage.ts";

// Much is written and removed again; the time only bounds a hang.
vi.setConfig({ testTimeout: 300_000, hookTimeout: 300_000 });

const root = process.getuid?.() === 0;
const needs = test.skipIf((await findTool("bwrap")) === undefined);
const [mount, umount] = [await findTool("mount"), await findTool("umount")];
const needsMount = test.skipIf((await findTool("bwrap")) === undefined || !root || !mount || !umount);
const needsRoot = test.skipIf((await findTool("bwrap")) === undefined || !root);
let stage: HostileStage | undefined;

afterEach(async () => {
  await stage?.close();
  stage = undefined;
});

async function open(limits: Limits = {}, dataDir?: string): Promise<HostileStage> {
  stage = await HostileStage.open({ executor: "process", image: "any", limits, ...(dataDir && { dataDir }) });
  return stage;
}

needs("a command that is deaf to signals and stops itself is ended when its time is over", async () => {
  const { gateway } = await open();
  gateway.datumTimeout = "2s";
  const deaf =
    "trap '' TERM INT HUP QUIT; (setsid sh -c 'trap \"\" TERM; kill -STOP $$') & kill -STOP $$; sleep 1000";
  const outcome = await stage?.outcome(stage.queue(deaf));
  expect(outcome).toMatchObject({
    ...{ state: "failed", reason: "the command ran longer than 2s (datumTimeout)" },
  });
  gateway.datumTimeout = undefined;
  expect(await stage?.beside("true")).toMatchObject({ state: "success" });
});

needs("a command that prints a gigabyte costs the agent no memory, and its datum counts", async () => {
  const { gateway } = await open();
  const before = process.memoryUsage().rss;
  const outcome = await stage?.beside(
    "yes line | head -c 1000000000; head -c 50000000 /dev/zero | tr '\\0' x; echo end",
  );
  expect(outcome).toMatchObject({ state: "success" });
  expect(process.memoryUsage().rss - before).toBeLessThan(500 * 1024 ** 2);
  expect(gateway.lines.reduce((sum, { text }) => sum + text.length, 0)).toBeLessThan(200 * 1024 ** 2);
});

needs("the end of what a failing command printed is told, however much it was", async () => {
  await open();
  const outcome = await stage?.beside("yes line | head -c 100000000; echo; echo the end; exit 3");
  expect(outcome).toMatchObject({ state: "failed", reason: "the command ended with exit code 3" });
  const log = outcome?.state === "failed" ? outcome.log : "";
  expect(log.endsWith("the end\n")).toBe(true);
  expect(log.length).toBeLessThanOrEqual(LOG_TAIL_BYTES);
});

needs("a file of holes, larger than the disk, is refused unread, without any quota", async () => {
  await open();
  const { blocks, bsize } = await statfs(stage?.dir ?? "");
  const outcome = await stage?.beside(`truncate -s ${blocks * bsize + 1} /pfs/out/holes`);
  expect(outcome?.state === "failed" && outcome.reason).toMatch(
    /output file "holes" has .*, more than the .* that the node's disk could hold of it: a file is stored with its holes$/,
  );
});

needs("a command finds no way to its inputs, to others' folders, to the cache or to the agent", async () => {
  await open({ outBytes: 64 * 1024 ** 2 });
  const { canary, dataDir } = stage as HostileStage;
  const tries = [
    "sh -c 'echo x > /pfs/in/script'",
    "rm -rf /pfs/in",
    "mv /pfs/in /pfs/out/in",
    "ln /pfs/in/script /pfs/out/link",
    `ln ${canary}/secret /pfs/out/secret`,
    "ln /etc/shadow /pfs/out/shadow",
    "mount -o remount,rw,bind /pfs",
    "mount --bind /pfs/out /pfs/in",
    "umount /pfs/out",
    `umount ${dataDir}`,
    "unshare -m mount -o remount,rw,bind /pfs",
    "unshare -Urm mount -o remount,rw,bind /pfs",
    `unshare -Urm umount ${dataDir}`,
    `test -e ${dataDir}/cache`,
    `test -e ${dataDir}/agents`,
    `mkdir ${dataDir}/agents`,
    `test -e /proc/${process.pid}`,
    `kill -9 ${process.pid}`,
    "chattr +i /pfs/out/did",
    "nsenter -t 1 -m true",
    "mknod /pfs/out/zero c 1 5",
  ];
  const script = `${tries
    .map((attempt) => `(${attempt}) >/dev/null 2>&1 && echo ${JSON.stringify(attempt)} >> /pfs/out/did`)
    .join("\n")}\ncat /pfs/out/did > /pfs/out/done 2>/dev/null; echo tried >> /pfs/out/done`;
  const outcome = await stage?.beside(script);
  expect(outcome).toMatchObject({ state: "success", exitCode: 0 });
  expect(stage?.gateway.outputBytes(outcome as never, "done")?.toString()).toBe("tried\n");
});

needsRoot("memory that runs out fails the datum that took it, and no other", async () => {
  await open({ memoryBytes: 64 * 1024 ** 2, pids: 60 });
  const outcome = await stage?.beside("head -c 400000000 /dev/zero | tail -c 400000000 > /dev/null; exit 1");
  expect(outcome).toMatchObject({
    state: "failed",
    reason: "the command ran out of memory: it may take 64 MiB (--memory of node n1)",
  });
});

needsMount("a disk that is about to be full ends the datum that fills it, and no other", async () => {
  const disk = await realpath(await mkdtemp(join(tmpdir(), "sluice-disk-")));
  execFileSync(mount as string, ["-t", "tmpfs", "-o", "size=400m", "sluice-test", disk]);
  try {
    await open({}, join(disk, "data"));
    const slow = "i=0; while :; do head -c 5000000 /dev/zero > /pfs/out/$i; i=$((i+1)); sleep 0.1; done";
    const outcome = await stage?.beside(slow);
    expect(outcome?.state === "failed" && outcome.reason).toMatch(
      /^the disk of node n1 is nearly full \(.* are free\), and of the commands that ran there this one had the most/,
    );
    await stage?.close();
    stage = undefined;
  } finally {
    execFileSync(umount as string, [disk]);
    await rm(disk, { recursive: true });
  }
  expect(await readFile("/proc/self/mountinfo", "utf8")).not.toContain(disk);
});
