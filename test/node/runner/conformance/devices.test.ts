import { execFileSync, spawnSync } from "node:child_process";
import { closeSync, existsSync, openSync } from "node:fs";
import { chmod, mkdir, mkdtemp, readdir, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { findTool } from "../../../../runner/lib/system-calls.ts";
import { removeTree } from "../../../../runner/pfs/remove.ts";
import { REST } from "../../../support/suite.ts";
import { nobody, withoutPrivileges } from "../support/nobody.ts";
import { findSubjects } from "./subjects.ts";
import { workbench } from "./workbench.ts";

const SANDBOX = join(import.meta.dirname, "../support/sandbox-process.ts");
const python = await findTool("python3");
const isRoot = process.getuid?.() === 0;

/** What every `/dev` holds, as `ls -A` lists it. A GPU adds to it. */
const USUAL =
  "core fd full null ptmx pts random shm stderr stdin stdout tty urandom zero console mqueue".split(" ");
const GPU = /^(nvidia.*|dri|kfd)$/;

/** Device nodes of this machine that lie outside of `/dev`: of a block device, and of the machine's memory. */
async function straysOfDevices() {
  const base = await realpath(await mkdtemp(join(tmpdir(), "sluice 'devices' ")));
  await chmod(base, 0o755);
  const makeIn = (folder: string) => {
    execFileSync("mknod", ["-m", "666", join(folder, "disk"), "b", "7", "0"]);
    execFileSync("mknod", ["-m", "666", join(folder, "mem"), "c", "1", "1"]);
    // As harmless as it gets: whether devices can be opened at all.
    execFileSync("mknod", ["-m", "666", join(folder, "null"), "c", "1", "3"]);
  };
  if (isRoot) makeIn(base);
  return { base, makeIn };
}

for (const subject of (await findSubjects()).filter(({ kind }) => kind === "process")) {
  const { name } = subject;

  describe(`the devices of ${name}`, () => {
    const needs = test.skipIf(subject.absent);
    const asRoot = test.skipIf(subject.absent || !isRoot);
    const bench = workbench(subject, { devices: ["fuse"] });

    needs(
      `${name}: a command sees the devices that programs need, and no others of the machine`,
      async () => {
        const { log } = await bench.sh("ls -A /dev; find /dev -type b");
        const seen = log.trimEnd().split("\n");
        expect(seen).toEqual(expect.arrayContaining(["null", "zero", "full", "random", "urandom", "tty"]));
        expect(seen).toEqual(
          expect.arrayContaining(["ptmx", "pts", "shm", "fd", "stdin", "stdout", "stderr"]),
        );
        const more = seen.filter((one) => !USUAL.includes(one) && !GPU.test(one));
        expect(more).toEqual(existsSync("/dev/fuse") ? ["fuse"] : []);
      },
    );

    needs(`${name}: the devices that a command sees work`, async () => {
      const script = [
        "echo x > /dev/null",
        'test -z "$(cat /dev/null)"',
        'test "$(head -c 4 /dev/zero | od -An -tx1 | tr -d " ")" = 00000000',
        'test "$(head -c 16 /dev/urandom | wc -c)" -eq 16',
        'test "$(head -c 1 /dev/random | wc -c)" -eq 1',
        "! (echo x > /dev/full) 2>/dev/null",
        'test "$(cat /dev/stdin)" = given',
        "echo out > /dev/stdout",
        "echo err > /dev/stderr",
        "echo three 3>/dev/fd/1 >&3",
      ];
      const run = await bench.sh(script.join(" && "), { stdin: "given", joined: true });
      expect(run).toEqual({ kind: "exited", code: 0, log: "out\nerr\nthree\n" });
    });

    test.skipIf(subject.absent || !python)(
      `${name}, python3: a command opens terminals and shared memory of its own`,
      async () => {
        const script = [
          "import os, pty",
          "from multiprocessing import shared_memory",
          "main, side = pty.openpty()",
          "os.write(main, b'typed\\n')",
          "print(os.ttyname(side), os.read(side, 100))",
          "made = shared_memory.SharedMemory(create=True, size=1 << 20)",
          "made.buf[:4] = b'mine'",
          "same = shared_memory.SharedMemory(made.name)",
          "print(bytes(same.buf[:4]), sorted(os.listdir('/dev/pts')))",
          "same.close(); made.close(); made.unlink()",
        ].join("\n");
        const run = await bench.run([python ?? "", "-c", script]);
        // Whatever terminals the machine has, none of them is there.
        expect(run.log).toBe("/dev/pts/0 b'typed\\n'\nb'mine' ['0', 'ptmx']\n");
        expect(run).toMatchObject({ code: 0 });
      },
    );

    needs(
      `${name}: shared memory is any user's to take, is not the machine's, and ends with the command`,
      async () => {
        const mine = join("/dev/shm", `sluice-test-${process.pid}`);
        await writeFile(mine, "the machine's");
        const first = await bench.sh("ls -A /dev/shm; stat -c %a /dev/shm; echo x > /dev/shm/left");
        expect(first).toEqual({ kind: "exited", code: 0, log: "1777\n" });
        expect(await bench.sh("ls -A /dev/shm")).toEqual({ kind: "exited", code: 0, log: "" });
        expect(existsSync("/dev/shm/left")).toBe(false);
        await rm(mine);
      },
    );

    asRoot(`${name}, root: no disk and no memory of the machine is there, and none can be made`, async () => {
      const { log } = await bench.sh(
        "cd /dev && ls -d mem kmem port kmsg kcore loop* sd* vd* nvme* dm-* mapper disk block 2>/dev/null",
      );
      expect(log).toBe("");
      const places = ["/dev", "/dev/shm", "/tmp", "/pfs/out", "/"];
      const kinds = ["b 7 0", "c 1 1"];
      for (const kind of kinds) {
        for (const place of places) {
          const made = `${place}/sluice-test-node-${process.pid}`;
          const run = await bench.sh(`mknod ${made} ${kind} 2>&1 && : < ${made}`);
          expect(run, `${kind} in ${place}`).not.toMatchObject({ code: 0 });
          expect(existsSync(made)).toBe(false);
        }
        const fresh = `unshare -Urm sh -c 'mount -t tmpfs x /mnt && mknod /mnt/x ${kind} && : < /mnt/x'`;
        expect(await bench.sh(`${fresh} 2>&1`), kind).not.toMatchObject({ code: 0 });
      }
      const devtmpfs = "mount -t devtmpfs x /mnt || unshare -Urm mount -t devtmpfs x /mnt";
      expect(await bench.sh(`(${devtmpfs}) 2>&1`)).not.toMatchObject({ code: 0 });
    });

    asRoot(`${name}, root: a device that lies anywhere else on the machine can't be opened`, async () => {
      const { base, makeIn } = await straysOfDevices();
      const late = join(base, "late mount");
      await mkdir(late);
      // The sandbox was made before that mount.
      await bench.run(["true"]);
      execFileSync("mount", ["-t", "tmpfs", "sluice-test", late]);
      // A mount that another one covers is still in the machine's list, and at no path.
      const covering = join(base, "covering");
      await mkdir(join(covering, "covered"), { recursive: true });
      for (const folder of [join(covering, "covered"), covering])
        execFileSync("mount", ["-t", "tmpfs", "sluice-test", folder]);
      onTestFinished(async () => {
        for (const folder of [late, covering, join(covering, "covered")]) spawnSync("umount", [folder]);
        await removeTree(base);
      });
      makeIn(late);
      await writeFile(join(late, "file"), "seen");
      // The folder is then shown entry by entry.
      const secret = {
        name: "s",
        mountPath: join(base, "secret"),
        secret: new Map([["k", Buffer.from("v")]]),
      };
      for (const folder of [base, late]) {
        for (const node of ["disk", "null"]) closeSync(openSync(join(folder, node), "r"));
        for (const secrets of [[], [secret]]) {
          for (const node of ["disk", "mem", "null"]) {
            const run = await bench.sh(`: < "${folder}/${node}"`, { secrets });
            expect(run, node).not.toMatchObject({ code: 0 });
            expect(run.log, node).toMatch(/denied/);
          }
          expect((await bench.sh(`cat "${late}/file"`, { secrets })).log).toBe("seen");
        }
      }
    });

    // Most machines have one of them.
    const folder = ["net", "cpu", "input", "mapper"].find((one) => existsSync(`/dev/${one}`));
    if (folder !== undefined) {
      needs(`${name}: a folder of devices that is asked for is seen whole`, REST, async () => {
        const executor = await subject.open(await bench.newFolder("node"), { devices: [folder] });
        const dir = await bench.newFolder("worker");
        const { signal } = new AbortController();
        const sandbox = await executor.prepare({ dir, image: "", pipeline: "p", pullSecrets: [], signal });
        const run = await sandbox.run(bench.command(["ls", "-A", `/dev/${folder}`]));
        expect(run.log.trimEnd().split("\n")).toEqual((await readdir(`/dev/${folder}`)).sort());
        await sandbox.close();
        await executor.close();
      });
    }

    needs(`${name}: a command inherits no open file of the runner, by whatever number`, async () => {
      const dir = await realpath(await mkdtemp(join(tmpdir(), "sluice leaks ")));
      await mkdir(join(dir, "datum/out"), { recursive: true });
      await writeFile(join(dir, "key"), "hush");
      const leaked = openSync(join(dir, "key"), "r");
      const script = "(ls -l /proc/self/fd; cat /proc/self/fd/20 /proc/self/fd/300) > /pfs/out/said 2>&1";
      const stdio = Array.from({ length: 301 }, (_, fd) =>
        fd === 20 || fd === 300 ? leaked : ("ignore" as const),
      );
      const { status } = spawnSync(process.execPath, [SANDBOX, name, dir, script], { stdio });
      closeSync(leaked);
      const said = await readFile(join(dir, "datum/out/said"), "utf8");
      await removeTree(dir);
      expect(status).toBe(0);
      expect(said).not.toMatch(/hush|\/key/);
      expect(said.match(/ (\d+) -> /g)?.map((fd) => Number.parseInt(fd, 10))).toEqual([0, 1, 2, 3]);
    });

    needs(
      `${name}: a command gets its variables, but not what tunes the C library of each program`,
      async () => {
        const env = { PATH: subject.path, GLIBC_TUNABLES: "glibc.malloc.check=3", LD_X: "1", PLAIN: "2" };
        const { log } = await bench.run(["env"], { env });
        expect(log.split("\n")).toEqual(expect.arrayContaining(["LD_X=1", "PLAIN=2"]));
        expect(log).not.toContain("GLIBC_TUNABLES");
      },
    );

    test.skipIf(subject.absent || nobody.absent)(
      `${name}, root, setpriv: the commands of an agent without privileges have the same devices${nobody.why}`,
      REST,
      async () => {
        const dir = await realpath(await mkdtemp(join(tmpdir(), "sluice nobody ")));
        await mkdir(join(dir, "datum/out"), { recursive: true });
        execFileSync("chown", ["-R", "nobody", dir]);
        const { base } = await straysOfDevices();
        const script = `exec > /pfs/out/said 2>&1; ls -A /dev; echo x > /dev/null; touch /dev/shm/x && echo shared; : < "${base}/null"; echo opened $?`;
        const words = [process.execPath, SANDBOX, name, dir, script];
        const [file = "", ...args] = withoutPrivileges(["--reuid=nobody", "--clear-groups"], words);
        execFileSync(file, args, { stdio: "ignore", env: { PATH: process.env.PATH } });
        const said = await readFile(join(dir, "datum/out/said"), "utf8");
        await removeTree(dir);
        await removeTree(base);
        expect(said.split("\n")).toEqual(expect.arrayContaining(["null", "pts", "shm", "shared"]));
        expect(said).not.toMatch(/^(loop.*|mem|kmsg|kvm|fuse)$/m);
        expect(said).not.toContain("opened 0");
      },
    );
  });
}
