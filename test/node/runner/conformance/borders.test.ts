import { execFileSync } from "node:child_process";
import { chmod, mkdir, mkdtemp, readdir, readFile, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { removeTree } from "../../../../runner/pfs/remove.ts";
import { REST } from "../../../support/suite.ts";
import { nobody, withoutPrivileges } from "../support/nobody.ts";
import { findSubjects, type Subject } from "./subjects.ts";
import { workbench } from "./workbench.ts";

const SANDBOX = join(import.meta.dirname, "../support/sandbox-process.ts");
const KEY = "hush";

/** Places of keys on this machine, and a folder that is none. */
async function hidingPlace() {
  // A name that tools may split at, or take for something else.
  const base = await realpath(await mkdtemp(join(tmpdir(), "sluice 'hidden' ")));
  await chmod(base, 0o755);
  const at = (name: string) => join(base, name);
  for (const folder of ["gateway/runner", "secrets", "elsewhere", "open"])
    await mkdir(at(folder), { recursive: true });
  for (const file of ["gateway/key", "gateway/runner/key", "secrets/key", "file"])
    await writeFile(at(file), KEY);
  await writeFile(at("open/file"), "seen");
  await symlink("secrets", at("link"));
  await symlink("no/such", at("dangling"));
  const hidden = [
    "gateway",
    "gateway/runner",
    "link",
    "file",
    "dangling",
    "later",
    "no/such/folder",
    "open/file/x",
  ];
  return { base, at, hidden: hidden.map(at) };
}

for (const subject of await findSubjects()) {
  const { name } = subject;
  const place = await hidingPlace();
  afterAll(() => removeTree(place.base));
  const { at, hidden } = place;

  describe(`what ${name} keeps from commands`, subject.options, () => {
    const needs = test.skipIf(subject.absent);
    const bench = workbench(subject, { hidden });

    needs(`${name}: no command sees a hidden folder or file, by any of its names`, async () => {
      const places = "gateway/key gateway/runner/key secrets/key link/key file";
      const { log } = await bench.sh(`cd "${place.base}" && cat ${places}; ls -AR gateway secrets link/`);
      expect(log).not.toContain(KEY);
      expect(log).not.toMatch(/^(key|runner)$/m);
      if (subject.kind === "process") expect((await bench.sh(`cat "${at("open/file")}"`)).log).toBe("seen");
    });

    needs(
      `${name}: a hidden folder that comes later, or moves, is hidden from the next command`,
      async () => {
        await bench.run(["true"]);
        await mkdir(at("later"));
        for (const file of ["later/key", "elsewhere/key"]) await writeFile(at(file), KEY);
        await rm(at("link"));
        await symlink("elsewhere", at("link"));
        const run = await bench.sh(`cat "${at("later/key")}" "${at("elsewhere/key")}" "${at("link/key")}"`);
        expect(run.log).not.toContain(KEY);
        await removeTree(at("later"));
        await rm(at("link"));
        await symlink("secrets", at("link"));
        expect(await bench.run(["true"])).toMatchObject({ code: 0 });
      },
    );

    needs(`${name}: nothing is made on the machine for a hidden folder that is not there`, async () => {
      await bench.run(["true"]);
      expect((await readdir(place.base)).sort()).toEqual([
        "dangling",
        "elsewhere",
        "file",
        "gateway",
        "link",
        "open",
        "secrets",
      ]);
    });

    needs(`${name}: no command changes a setting of the kernel`, async () => {
      const settings = [
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/hostname",
        "/proc/sys/vm/overcommit_memory",
        "/proc/sysrq-trigger",
        "/proc/irq/default_smp_affinity",
        "/proc/mtrr",
        "/sys/kernel/mm/transparent_hugepage/enabled",
        "/sys/power/state",
      ];
      for (const file of settings) {
        // Opened to write, and not written to: the test must do no harm either.
        expect(await bench.sh(`: >> ${file}`), file).not.toMatchObject({ code: 0 });
      }
      expect(await bench.sh("test -r /proc/sys/kernel/core_pattern && test -d /sys/class")).toMatchObject({
        code: 0,
      });
    });

    needs(`${name}: a new namespace gives no way to the kernel's settings`, async () => {
      const attempts = [
        "mount -t proc proc /proc",
        "mount -t proc proc /tmp",
        "mount --rbind /proc /tmp && umount /tmp/sys",
        "mount -o remount,bind,rw /proc/sys",
      ];
      for (const attempt of attempts) {
        const script = `${attempt} && : >> /proc/sys/kernel/core_pattern || : >> /tmp/sys/kernel/core_pattern`;
        const run = await bench.sh(`unshare -Urmpf sh -c '${script}' 2>/dev/null`);
        expect(run, attempt).not.toMatchObject({ code: 0 });
      }
    });

    if (subject.kind === "container") return;
    // What an engine mounts of the kernel is its own, and of this machine's folders it shows none.

    needs(`${name}: what is hidden can't be shown again, or written to`, async () => {
      const [folder, file] = [at("gateway"), at("file")];
      const attempts = [
        `umount "${folder}" && cat "${folder}/key"`,
        `mount -o remount,rw "${folder}" && touch "${folder}/new"`,
        `unshare -Urm sh -c 'umount "$1" && cat "$1/key"' sh "${folder}"`,
        `mv "${folder}" "${at("open/gateway")}" && cat "${at("open/gateway/key")}"`,
        `rm -f "${file}" && test ! -e "${file}"`,
        `mkdir "${folder}/new"`,
      ];
      for (const attempt of attempts) {
        const run = await bench.sh(attempt);
        expect(run, attempt).not.toMatchObject({ code: 0 });
        expect(run.log, attempt).not.toContain(KEY);
      }
      expect(await readdir(folder)).toEqual(["key", "runner"]);
      expect(await readFile(file, "utf8")).toBe(KEY);
    });

    needs(
      `${name}: every mount at or below /sys and /proc/sys is read-only, and stays so`,
      REST,
      async () => {
        const attempts = [
          "true",
          "mount -o remount,rw /proc/sys",
          "mount -o remount,bind,rw /sys",
          "umount /proc/sys",
          "mount -t proc proc /proc",
          "mount -t sysfs sysfs /sys",
        ];
        for (const attempt of attempts) {
          for (const command of [
            attempt,
            `unshare -Urmpf sh -c '${attempt} && : >> /proc/sys/kernel/core_pattern'`,
          ]) {
            await bench.sh(`(${command}) >/dev/null 2>&1; cat /proc/self/mountinfo > /pfs/out/mounts`);
            const mounts = (await bench.out("mounts")).split("\n").map((line) => line.split(" "));
            const kernel = mounts.filter(([, , , , path = ""]) => /^\/(sys|proc\/sys)(\/|$)/.test(path));
            expect(kernel.map(([, , , , path]) => path)).toEqual(
              expect.arrayContaining(["/sys", "/proc/sys"]),
            );
            // Where mounts are laid one over the other, the last one is seen.
            const seen = new Map(kernel.map(([, , , , path, options = ""]) => [path, options.split(",")[0]]));
            expect(
              [...seen].filter(([, access]) => access !== "ro"),
              command,
            ).toEqual([]);
          }
        }
      },
    );

    forNobody(subject, place);
  });
}

/** The same for an agent that is not root. */
function forNobody({ name, absent }: Subject, { at }: Awaited<ReturnType<typeof hidingPlace>>): void {
  test.skipIf(absent || nobody.absent)(
    `${name}, root, setpriv: an agent without privileges keeps the same from its commands${nobody.why}`,
    REST,
    async () => {
      const dir = await realpath(await mkdtemp(join(tmpdir(), "sluice nobody ")));
      await mkdir(join(dir, "datum/out"), { recursive: true });
      execFileSync("chown", ["-R", "nobody", dir]);
      const script = [
        "exec > /pfs/out/said 2>&1",
        `cat "${at("gateway/key")}"`,
        "(: >> /sys/power/state)",
        "cat /proc/self/mountinfo",
      ].join("; ");
      const words = [process.execPath, SANDBOX, name, dir, script];
      const [file = "", ...args] = withoutPrivileges(["--reuid=nobody", "--clear-groups"], words);
      const env = { PATH: process.env.PATH, SLUICE_TEST_HIDDEN: at("gateway") };
      execFileSync(file, args, { stdio: "ignore", env });
      const said = await readFile(join(dir, "datum/out/said"), "utf8");
      await removeTree(dir);
      expect(said).not.toContain(KEY);
      for (const path of ["/sys", "/proc/sys"]) expect(said).toMatch(new RegExp(` ${path} ro,`));
    },
  );
}
