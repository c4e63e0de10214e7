import { execFile } from "node:child_process";
import { lstat, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { collect } from "../../../../runner/pfs/collect.ts";
import { stillRuns } from "../support/processes.ts";
import { soon } from "../support/running.ts";
import { findSubjects } from "./subjects.ts";
import { workbench } from "./workbench.ts";

const signal = new AbortController().signal;

for (const subject of await findSubjects()) {
  const { name } = subject;

  describe(`isolation by ${name}`, subject.options, () => {
    const needs = test.skipIf(subject.absent);
    const bench = workbench(subject);
    let marks = 0;
    const newMark = () => `sluice-test-${process.pid}-${Date.now()}-${marks++}`;

    needs(`${name}: does not let a command change, add, replace or unmount its inputs`, async () => {
      const attempts = [
        "echo x > /pfs/in/file",
        "chmod 777 /pfs/in/file",
        "rm -f /pfs/in/file",
        "touch /pfs/in/new",
        "mkdir /pfs/more",
        "mv /pfs/in/file /pfs/in/other",
        "umount /pfs/in || umount /pfs",
        "mount -o remount,rw,bind /pfs",
        "mount -o remount,rw,bind /pfs/in",
        "ln /pfs/in/file /pfs/out/link",
      ];
      for (const attempt of attempts) {
        const run = await bench.sh(`${attempt} 2>/dev/null`);
        expect(run, attempt).not.toMatchObject({ code: 0 });
      }
      expect(await readFile(join(bench.pfs, "in", "file"), "utf8")).toBe("given");
      expect(await readdir(join(bench.pfs, "in"))).toEqual(["file"]);
    });

    needs(`${name}: hides the node's data folder`, async () => {
      const before = await readdir(bench.dir);
      const run = await bench.sh(`ls -A "${bench.dir}"; echo x > "${bench.dir}/new"`);
      expect(run.log).not.toContain("datum");
      expect(await readdir(bench.dir)).toEqual(before);
    });

    needs(`${name}: a command sees no process of the machine`, async () => {
      const run = await bench.sh(`test ! -e /proc/${process.pid}/environ`);
      expect(run).toMatchObject({ code: 0 });
    });

    needs(`${name}: leaves no background process, whatever it ignores or detaches from`, async () => {
      const mark = newMark();
      const stubborn = `trap "" TERM HUP INT; while :; do date > /pfs/out/clock; sleep 0.01; done; : ${mark}`;
      const run = await bench.sh(
        `sh -c '${stubborn}' & setsid sh -c '${stubborn}' >/dev/null 2>&1 </dev/null & ` +
          "while ! test -s /pfs/out/clock; do sleep 0.01; done; exit 4",
      );
      expect(run).toMatchObject({ kind: "exited", code: 4 });
      expect(await stillRuns(mark)).toBe(false);
      const clock = join(bench.pfs, "out", "clock");
      const before = await lstat(clock, { bigint: true });
      await collect({ out: join(bench.pfs, "out"), signal });
      expect((await lstat(clock, { bigint: true })).mtimeNs).toBe(before.mtimeNs);
    });

    needs(`${name}: does not wait for a background process that holds stdout`, async () => {
      const mark = newMark();
      const run = await bench.sh(`sh -c 'while :; do sleep 1; done; : ${mark}' & echo done`);
      expect(run).toMatchObject({ kind: "exited", code: 0, log: "done\n" });
      expect(await stillRuns(mark)).toBe(false);
    });

    needs(`${name}: an abort kills a command that ignores signals, with its children`, async () => {
      const mark = newMark();
      const abort = new AbortController();
      const script = `trap "" TERM HUP INT; (trap "" TERM; while :; do sleep 0.01; done; : ${mark}) & while :; do sleep 0.01; done; : ${mark}`;
      let seen = "";
      const onOutput = (bytes: Buffer) => {
        seen += bytes;
      };
      const running = bench.sh(`echo up; ${script}`, { onOutput, signal: abort.signal });
      await soon(() => seen).toBe("up\n");
      abort.abort();
      await running;
      await soon(() => stillRuns(mark)).toBe(false);
    });

    needs(`${name}: starts nothing for a signal that is aborted already`, async () => {
      await bench.run(["touch", "/pfs/out/started"], { signal: AbortSignal.abort() });
      expect(await readdir(join(bench.pfs, "out"))).toEqual([]);
    });

    needs(`${name}: is ready for the next command after an abort`, async () => {
      await bench.run(["sleep", "1000"], { signal: AbortSignal.abort() });
      expect(await bench.run(["echo", "again"])).toEqual({ kind: "exited", code: 0, log: "again\n" });
    });

    needs(`${name}: two sandboxes at the same time see each its own /pfs`, async () => {
      const sandboxes = [bench.sandbox, await bench.prepare()];
      // Neither ends before both have begun: each waits for a word through a pipe of its own datum.
      const datums = await Promise.all([bench.datum({ a: "one" }), bench.datum({ a: "two" })]);
      for (const pfs of datums) await promisify(execFile)("mkfifo", ["-m", "644", join(pfs, "in", "go")]);
      let up = 0;
      const onOutput = () => {
        up += 1;
      };
      const script = "echo up; cat /pfs/in/go > /dev/null; cat /pfs/in/a; cp /pfs/in/a /pfs/out/got";
      const running = sandboxes.map((sandbox, index) =>
        sandbox.run(bench.command(["sh", "-c", script], { pfs: datums[index] ?? "", onOutput })),
      );
      await soon(() => up).toBe(2);
      for (const pfs of datums) await writeFile(join(pfs, "in", "go"), "go");
      expect(await Promise.all(running)).toMatchObject([{ log: "up\none" }, { log: "up\ntwo" }]);
      const got = await Promise.all(datums.map((pfs) => readFile(join(pfs, "out", "got"), "utf8")));
      expect(got).toEqual(["one", "two"]);
      await sandboxes[1]?.close();
    });

    needs(`${name}: a command reads named pipes among its inputs`, async () => {
      const pfs = await bench.datum({});
      const pipe = join(pfs, "in", "pipe");
      await promisify(execFile)("mkfifo", ["-m", "644", pipe]);
      const running = bench.run(["cp", "/pfs/in/pipe", "/pfs/out/got"], { pfs });
      const bytes = "0123456789abcdef".repeat(20_000);
      await writeFile(pipe, bytes);
      expect(await running).toMatchObject({ code: 0 });
      expect((await readFile(join(pfs, "out", "got"), "utf8")) === bytes).toBe(true);
    });

    const LEAVINGS = [
      { what: "a link to a file of the machine", script: "ln -s /etc/shadow /pfs/out/x" },
      { what: "a link that leads out of it", script: "ln -s ../../../../../../etc /pfs/out/x" },
      { what: "a pipe", script: "mkfifo /pfs/out/x" },
      { what: "a device", script: "mknod /pfs/out/x c 1 3 || ln -s /dev/null /pfs/out/x" },
      { what: "a name that is not UTF-8", script: "touch \"/pfs/out/$(printf '\\377')\"" },
    ];
    for (const { what, script } of LEAVINGS) {
      needs(`${name}: ${what} in its output harms nobody, and the next datum has none of it`, async () => {
        const pfs = await bench.datum({});
        expect(await bench.sh(script, { pfs })).toMatchObject({ kind: "exited", code: 0 });
        await expect(collect({ out: join(pfs, "out"), signal })).rejects.toThrow(/output/);
        expect(await bench.sh("ls -A /pfs/out")).toMatchObject({ code: 0, log: "" });
      });
    }

    needs(`${name}: takes what a command made of the output folder itself`, async () => {
      for (const script of ["chmod 0 /pfs/out", "chmod 7777 /pfs/out", "mkdir -m 0 /pfs/out/closed"]) {
        const pfs = await bench.datum({});
        expect(await bench.sh(`echo kept > /pfs/out/file; ${script}`, { pfs })).toMatchObject({ code: 0 });
        const found = await collect({ out: join(pfs, "out"), signal });
        expect(
          found.map(({ path }) => path),
          script,
        ).toContain("file");
        expect(await bench.run(["cp", "/pfs/in/file", "/pfs/out/copy"])).toMatchObject({ code: 0 });
      }
    });
  });
}
