import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, realpath, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Executor, Run, Sandbox } from "../../../runner/executors/executor.ts";
import { readRootEntries } from "../../../runner/executors/process/machine.ts";
import { processExecutor } from "../../../runner/executors/process/process.ts";
import { removeGroup } from "../../../runner/limits/agent-group.ts";
import { cgroupTrees } from "../../../runner/limits/cgroups.ts";
import type { Limits } from "../../../runner/limits/limits.ts";
import { removeTree } from "../../../runner/pfs/remove.ts";
import { JAILS } from "./support/datums.ts";
import { nobody, withoutPrivileges } from "./support/nobody.ts";

const PATH = process.env.PATH ?? "/usr/bin:/bin";
const signal = new AbortController().signal;
const trees = cgroupTrees({
  cgroup: await readFile("/proc/self/cgroup", "utf8").catch(() => ""),
  mountinfo: await readFile("/proc/self/mountinfo", "utf8").catch(() => ""),
});
/** Whether this machine lets us bound processes; the tests of that are run as root. */
const bounded = process.getuid?.() === 0 && trees.length > 0;

for (const { name, options, find, absent } of JAILS) {
  describe(`limits of the process executor with ${name}`, options, () => {
    const needs = test.skipIf(absent || !bounded);
    let dir: string;
    let pfs: string;
    let executor: Executor;
    let sandbox: Sandbox;

    beforeEach(async () => {
      dir = await realpath(await mkdtemp(join(tmpdir(), "sluice-limits-")));
      pfs = join(dir, "datum");
      await mkdir(join(pfs, "out"), { recursive: true });
      await mkdir(join(dir, "worker"));
    });
    afterEach(async () => {
      await sandbox?.close();
      await executor?.close();
      await removeTree(dir);
      expect(await groupsLeft()).toEqual([]);
    });

    async function limited(limits: Limits): Promise<void> {
      const jail = await find({ root: await readRootEntries(), dataDir: dir });
      if (typeof jail === "string") throw new Error(jail);
      executor = processExecutor(jail, { limits, node: "n1", agent: agentName() });
      const request = { dir: join(dir, "worker"), image: "any", pipeline: "p", pullSecrets: [], signal };
      sandbox = await executor.prepare(request);
    }
    const sh = (script: string): Promise<Run> =>
      sandbox.run({ pfs, cmd: ["sh", "-c", script], stdin: null, env: { PATH }, signal });

    needs(`${name}: memory that runs out ends the command, and is said to be why`, async () => {
      await limited({ memoryBytes: 64 * 1024 ** 2 });
      const hungry = "head -c 400000000 /dev/zero | tail -c 400000000 | wc -c";
      expect(await sh(`${hungry}; exit 3`)).toMatchObject({
        cause: "the command ran out of memory: it may take 64 MiB (--memory of node n1)",
      });
      expect(await sh("exit 3")).toEqual({ kind: "exited", code: 3, log: "" });
      expect(await sh("echo fine")).toEqual({ kind: "exited", code: 0, log: "fine\n" });
    });

    needs(`${name}: a fork bomb finds an end, and the next command finds none of it`, async () => {
      await limited({ pids: 40 });
      // The inner shell ends when it can't fork, and the outer one starts another.
      const bomb = "while :; do sh -c 'while :; do sleep 60 & done' 2>/dev/null; done";
      const stop = new AbortController();
      const running = sandbox.run({
        ...{ pfs, cmd: ["sh", "-c", bomb], stdin: null, env: { PATH }, signal: stop.signal },
      });
      await expect.poll(() => mostProcesses()).toBeGreaterThanOrEqual(40);
      expect(await mostProcesses()).toBeLessThanOrEqual(60);
      stop.abort();
      await running;
      expect(await sh("for i in 1 2 3 4 5; do sleep 0.01 & done; wait")).toMatchObject({ code: 0 });
    });

    needs(`${name}: processor time is rationed`, async () => {
      await limited({ cpus: 0.5 });
      const run = await sh("cat /proc/self/cgroup");
      const tree = cgroupTrees({
        cgroup: run.log,
        mountinfo: await readFile("/proc/self/mountinfo", "utf8"),
      }).find(({ controllers, version }) => version === 2 || controllers.includes("cpu"));
      const read = (file: string) => readFile(join(tree?.own ?? "", file), "utf8").catch(() => undefined);
      const quota = (await read("cpu.max")) ?? `${await read("cpu.cfs_quota_us")}`;
      expect(quota.trim()).toMatch(/^50000( 100000)?$/);
    });

    needs(`${name}: the groups of an agent that was killed go with the next one's start`, async () => {
      const pids = trees.filter(({ version, controllers }) => version === 2 || controllers.includes("pids"));
      const dead = pids.map(({ own }) => join(own, "sluice-4194304-1-dead"));
      for (const group of dead) await mkdir(join(group, "worker-1"), { recursive: true });
      await limited({ pids: 30 });
      expect(await sh("true")).toMatchObject({ code: 0 });
      const left = await Promise.all(dead.map((group) => readdir(group).catch(() => undefined)));
      const unused = left.filter((entries) => entries !== undefined);
      // If there are two hierarchies, only one of them bounds processes.
      expect(unused.length).toBeLessThan(dead.length);
      for (const group of dead) await removeGroup(group);
    });

    needs(`${name}: a command can't leave its groups or lift their limits`, async () => {
      await limited({ pids: 30, memoryBytes: 512 * 1024 ** 2 });
      const kept = trees.filter(({ version, controllers }) =>
        version === 2 ? trees.length === 1 : controllers.some((one) => ["pids", "memory"].includes(one)),
      );
      for (const point of kept.flatMap(({ points }) => points)) {
        expect(await sh(`echo 0 > ${point}/cgroup.procs`), point).toMatchObject({ code: 2 });
        const files = `find ${point} -name pids.max -o -name memory.max -o -name memory.limit_in_bytes`;
        const lift = `for file in $(${files}); do (echo 99 > $file) 2>/dev/null && exit 9; done; true`;
        expect(await sh(lift), point).toMatchObject({ code: 0 });
      }
    });

    test.skipIf(absent)(`${name}: no privilege leads out of it, to the inputs or into devices`, async () => {
      await limited({});
      await writeFile(join(pfs, "given"), "given");
      const tries = [
        "mount -o remount,rw,bind /pfs",
        "umount /pfs/out",
        `umount ${dir}`,
        "unshare -m true",
        "unshare -Urm mount -o remount,rw,bind /pfs",
        `unshare -Urm umount ${dir}`,
        `touch ${dir}/file`,
        "mknod /pfs/out/null c 1 3",
        "touch /pfs/out/fixed; chattr +i /pfs/out/fixed",
        "ln /etc/passwd /pfs/out/hard",
        "ln /pfs/given /pfs/out/hard",
        `kill -9 ${process.pid}`,
        "nsenter -t 1 -m umount /pfs",
      ];
      const script = tries.map((one) => `(${one}) >/dev/null 2>&1 && echo ${JSON.stringify(one)}`).join("; ");
      expect(await sh(`${script}; exit 0`)).toEqual({ kind: "exited", code: 0, log: "" });
      expect(await readFile(join(pfs, "given"), "utf8")).toBe("given");
    });

    test.skipIf(absent)(`${name}: a file larger than the quota can't be written`, async () => {
      await limited({ outBytes: 20 * 1024 ** 2 });
      const run = await sh("exec head -c 100000000 /dev/zero > /pfs/out/file");
      expect(run).toMatchObject({ kind: "exited", code: 128 + 25 });
      expect(await sh("head -c 20000000 /dev/zero > /pfs/out/file")).toMatchObject({ code: 0 });
    });
  });
}

const refusing = `
  import { openConfinement } from ${JSON.stringify(join(import.meta.dirname, "../../../runner/limits/confinement.ts"))};
  const terms = { limits: { pids: 1, cpus: 1 }, node: "n1", agent: "1-1-x" };
  await openConfinement(terms).catch(({ name, message }) => console.log(name + ": " + message));
`;

test.skipIf(!bounded || nobody.absent)(
  `who may not make control groups is refused, with the flags and what to do${nobody.why}`,
  () => {
    const node = [
      process.execPath,
      "--disable-warning=ExperimentalWarning",
      "--input-type=module",
      "-e",
      refusing,
    ];
    const [file = "", ...args] = withoutPrivileges(["--reuid=65534", "--clear-groups"], node);
    const said = execFileSync(file, args, { encoding: "utf8" });
    expect(said).toMatch(
      /^ConfigError: --cpus, --pids can't be enforced on this machine: .*Delegate=yes.*docker\n$/,
    );
  },
);

let agents = 0;
function agentName(): string {
  agents += 1;
  return `${process.pid}-test${agents}`;
}

async function groupsLeft(): Promise<string[]> {
  const found = trees.map(async ({ own }) =>
    (await readdir(own)).filter((name) => name.includes(`${process.pid}-test`)),
  );
  return (await Promise.all(found)).flat();
}

/** Of the groups of this test that bound them. */
async function mostProcesses(): Promise<number> {
  const counts = await Promise.all(
    trees.map(async ({ own }) => {
      const name = (await readdir(own)).find((entry) => entry.includes(`${process.pid}-test${agents}`));
      const file = join(own, name ?? "none", "pids.current");
      return Number(await readFile(file, "utf8").catch(() => "0"));
    }),
  );
  return Math.max(...counts);
}
