import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, lstat, mkdir, mkdtemp, readdir, readFile, realpath, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { LOG_TAIL_BYTES } from "../../../protocol/runner.ts";
import { findBubblewrap, findUnshare } from "../../../runner/executors/detect.ts";
import type { Command, Executor, Run, Sandbox } from "../../../runner/executors/executor.ts";
import { processExecutor } from "../../../runner/executors/process.ts";
import { readRootEntries } from "../../../runner/executors/root-entries.ts";
import { findTool } from "../../../runner/executors/tools.ts";
import { collect } from "../../../runner/pfs/collect.ts";
import { removeTree } from "../../../runner/pfs/remove.ts";
import { childrenOf, stillRuns } from "./support/processes.ts";
import { soon } from "./support/running.ts";

const PATH = process.env.PATH ?? "/usr/bin:/bin";
const SANDBOX = join(import.meta.dirname, "support/sandbox-process.ts");
const setpriv = await findTool("setpriv");
const JAILS = [
  { name: "bubblewrap", find: findBubblewrap, tool: "bwrap" },
  { name: "unshare", find: findUnshare, tool: "setpriv" },
];

for (const { name, find, tool } of JAILS) {
  const absent = (await findTool(tool)) === undefined;

  describe(`the process executor with ${name}`, () => {
    const needs = test.skipIf(absent);
    let dir: string;
    let pfs: string;
    let executor: Executor;
    let sandbox: Sandbox;

    beforeEach(async () => {
      dir = await realpath(await mkdtemp(join(tmpdir(), "sluice executor ")));
      pfs = join(dir, "datum");
      await mkdir(join(pfs, "in"), { recursive: true });
      await mkdir(join(pfs, "out"));
      await writeFile(join(pfs, "in", "file"), "given");
      await mkdir(join(dir, "worker"));
      if (absent) return;
      const jail = await find({ root: await readRootEntries(), dataDir: dir });
      if (typeof jail === "string") throw new Error(jail);
      executor = processExecutor(jail);
      sandbox = await executor.prepare({ dir: join(dir, "worker"), image: "any" });
    });

    afterEach(async () => {
      await sandbox?.close();
      await executor?.close();
      await removeTree(dir);
    });

    function run(cmd: string[], more: Partial<Command> = {}): Promise<Run> {
      const signal = new AbortController().signal;
      return sandbox.run({ pfs, cmd, stdin: null, env: { PATH }, signal, ...more });
    }
    const sh = (script: string, more: Partial<Command> = {}) => run(["sh", "-c", script], more);
    const out = (file: string) => readFile(join(pfs, "out", file), "utf8");

    needs(`${name}: runs a command that reads its input and writes its output`, async () => {
      expect(await run(["cp", "/pfs/in/file", "/pfs/out/copy"])).toEqual({
        kind: "exited",
        code: 0,
        log: "",
      });
      expect(await out("copy")).toBe("given");
    });

    needs(`${name}: does not leave a /pfs on the machine`, async () => {
      const before = await readdir("/");
      await run(["true"]);
      expect(await readdir("/")).toEqual(before);
    });

    needs(`${name}: starts the command in the folder that it was told, or in the root`, async () => {
      expect(await run(["pwd"])).toMatchObject({ log: "/\n" });
      expect(await run(["pwd"], { workingDir: "/pfs/out" })).toMatchObject({ log: "/pfs/out\n" });
      expect(await run(["cat", "file"], { workingDir: "/pfs/in" })).toMatchObject({ code: 0, log: "given" });
    });

    needs(`${name}: says of a folder that is not there that it is not`, async () => {
      for (const workingDir of ["/no/such folder", "/pfs/in/file"]) {
        const ran = await run(["touch", "/pfs/out/started"], { workingDir });
        expect(ran).toMatchObject({ kind: "not-started" });
        expect(ran.kind === "not-started" && ran.reason).toBe(
          `the working directory "${workingDir}" is not there or can't be entered`,
        );
      }
      await expect(out("started")).rejects.toThrow("ENOENT");
    });

    needs(`${name}: passes words as they are, without a shell`, async () => {
      const words = ["*", "$HOME", "a b", "", "'", '"', "--", "x=y"];
      await run(["sh", "-c", 'printf "%s\\n" "$@" > /pfs/out/words', "sh", ...words]);
      expect(await out("words")).toBe(words.map((word) => `${word}\n`).join(""));
    });

    needs(
      `${name}: gives exactly the environment that it was told, odd names and loader variables too`,
      async () => {
        const env = { PATH, "my-input": "/pfs/my-input/a", LD_SLUICE: "1", HOME: "/nowhere" };
        await run(["env"], { env }).then((run) => expect(run.kind).toBe("exited"));
        const told = await run(["env"], { env });
        const seen = told.log
          .split("\n")
          .filter((line) => line !== "" && !/^(PWD|OLDPWD|SHLVL|_)=/.test(line));
        expect(seen.sort()).toEqual(
          Object.entries(env)
            .map(([key, value]) => `${key}=${value}`)
            .sort(),
        );
      },
    );

    needs(`${name}: gives stdin, again for each command, and new lines when they change`, async () => {
      for (const stdin of ["one\ntwo\n", "one\ntwo\n", "three\n"]) {
        await run(["cp", "/dev/stdin", "/pfs/out/got"], { stdin });
        expect(await out("got")).toBe(stdin);
      }
    });

    needs(`${name}: gives an empty stdin where there is none`, async () => {
      expect(await run(["cat"])).toEqual({ kind: "exited", code: 0, log: "" });
    });

    needs(`${name}: does not mind a command that reads none of a large stdin`, async () => {
      expect(await run(["true"], { stdin: "x".repeat(1 << 20) })).toMatchObject({ kind: "exited", code: 0 });
    });

    needs(`${name}: keeps what comes on stdout and stderr in order, /dev/stderr too`, async () => {
      const run = await sh("echo one; echo two >&2; echo three > /dev/stderr; echo four > /dev/stdout");
      expect(run.log).toBe("one\ntwo\nthree\nfour\n");
    });

    needs(`${name}: keeps the end of a long log`, async () => {
      const run = await sh("yes é | head -c 50000000; echo end");
      expect(run.log.endsWith("end\n")).toBe(true);
      expect(run.log).not.toContain("\ufffd");
      expect(Buffer.byteLength(run.log)).toBeLessThanOrEqual(LOG_TAIL_BYTES);
      expect(Buffer.byteLength(run.log)).toBeGreaterThan(LOG_TAIL_BYTES - 4);
    });

    needs(`${name}: tells exit codes`, async () => {
      for (const code of [0, 1, 2, 126, 127, 255]) {
        expect(await sh(`exit ${code}`)).toEqual({ kind: "exited", code, log: "" });
      }
    });

    needs(`${name}: tells a signal as 128 and its number`, async () => {
      expect(await sh("kill -KILL $$")).toMatchObject({ kind: "exited", code: 137 });
      expect(await sh("kill -TERM $$")).toMatchObject({ kind: "exited", code: 143 });
      expect(await sh("kill -SEGV $$")).toMatchObject({ kind: "exited", code: 139 });
    });

    needs(`${name}: says that a command which is not found is looked for on this machine`, async () => {
      for (const missing of ["no-such-command", "/no/such/command", "/pfs/in/file", "no=such"]) {
        const run = await sandboxRun(missing);
        expect(run, missing).toMatchObject({ kind: "not-started" });
        expect(run.kind === "not-started" && run.reason).toContain(`"${missing}"`);
        expect(run.kind === "not-started" && run.reason).toContain("this machine's tools");
      }
    });
    const sandboxRun = (word: string) => run([word]);

    needs(`${name}: says so where the arguments are more than the kernel takes`, async () => {
      const run = await sandboxRun("x".repeat(300_000));
      expect(run.kind).toBe("not-started");
    });

    needs(`${name}: runs a program that comes as an input`, async () => {
      await writeFile(join(pfs, "in", "tool"), "#!/bin/sh\npwd\n");
      await chmod(join(pfs, "in", "tool"), 0o555);
      expect(await run(["/pfs/in/tool"])).toEqual({ kind: "exited", code: 0, log: "/\n" });
    });

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
        const run = await sh(`${attempt} 2>/dev/null`);
        expect(run, attempt).not.toMatchObject({ code: 0 });
      }
      expect(await readFile(join(pfs, "in", "file"), "utf8")).toBe("given");
      expect(await readdir(join(pfs, "in"))).toEqual(["file"]);
    });

    needs(`${name}: hides the node's data folder`, async () => {
      const run = await sh(`ls -A "${dir}"; echo x > "${dir}/worker/new"`);
      expect(run.log).not.toContain("datum");
      expect(await readdir(join(dir, "worker"))).not.toContain("new");
    });

    needs(`${name}: leaves no background process, whatever it ignores or detaches from`, async () => {
      const mark = `sluice-test-${process.pid}-${Date.now()}`;
      const stubborn = `trap "" TERM HUP INT; while :; do date > /pfs/out/clock; sleep 0.01; done; : ${mark}`;
      const run = await sh(
        `sh -c '${stubborn}' & setsid sh -c '${stubborn}' >/dev/null 2>&1 </dev/null & sleep 0.1; exit 4`,
      );
      expect(run).toMatchObject({ kind: "exited", code: 4 });
      expect(await stillRuns(mark)).toBe(false);
      const before = await lstat(join(pfs, "out", "clock"), { bigint: true });
      await collect({ out: join(pfs, "out"), signal: new AbortController().signal });
      expect((await lstat(join(pfs, "out", "clock"), { bigint: true })).mtimeNs).toBe(before.mtimeNs);
    });

    needs(`${name}: an abort kills a command that ignores signals, with its children`, async () => {
      const mark = `sluice-test-${process.pid}-${Date.now()}`;
      const abort = new AbortController();
      const script = `trap "" TERM HUP INT; (trap "" TERM; echo up; while :; do sleep 0.01; done; : ${mark}) & while :; do sleep 0.01; done; : ${mark}`;
      const running = sh(`echo > /pfs/out/up; ${script}`, { signal: abort.signal });
      await soon(() => readdir(join(pfs, "out"))).toContain("up");
      abort.abort();
      await running;
      await soon(() => stillRuns(mark)).toBe(false);
    });

    needs(`${name}: starts nothing for a signal that is aborted already`, async () => {
      await run(["sleep", "1000"], { signal: AbortSignal.abort() });
    });

    needs(`${name}: is ready for the next command after an abort`, async () => {
      await run(["sleep", "1000"], { signal: AbortSignal.abort() });
      expect(await run(["echo", "again"])).toEqual({ kind: "exited", code: 0, log: "again\n" });
    });

    needs(
      `${name}: a lost launcher takes its command with it, and the next command gets a new one`,
      async () => {
        const mark = `sluice-test-${process.pid}-${Date.now()}`;
        const running = sh(`while :; do sleep 0.05; done; : ${mark}`).catch((error: Error) => error.message);
        await soon(() => stillRuns(mark)).toBe(true);
        const [launcher = 0] = await childrenOf("launcher-process");
        process.kill(launcher, "SIGKILL");
        expect(await running).toBe("the launcher's process ended");
        await soon(() => stillRuns(mark)).toBe(false);
        expect(await run(["echo", "again"])).toEqual({ kind: "exited", code: 0, log: "again\n" });
      },
    );

    needs(`${name}: a command sees no process of the machine`, async () => {
      const run = await sh(`test ! -e /proc/${process.pid}/environ`);
      expect(run).toMatchObject({ code: 0 });
    });

    for (const user of ["root", "nobody"]) {
      const asUser = test.skipIf(absent || process.getuid?.() !== 0 || !setpriv);
      asUser(
        `${name}, setpriv, for ${user}: runs a command, and kills it when the runner is killed -9`,
        async () => {
          const mark = `sluice-test-${process.pid}-${Date.now()}`;
          const started = join(pfs, "out", "started");
          const script = `id -un > ${started.replace(pfs, "/pfs")}; (trap "" TERM; while :; do sleep 0.05; done) & while :; do sleep 0.05; done; : ${mark}`;
          execFileSync("chown", ["-R", user, dir]);
          const args = [`--reuid=${user}`, "--clear-groups", process.execPath, SANDBOX, name, dir, script];
          const runner = spawn("setpriv", args, { stdio: ["ignore", "inherit", "inherit"] });
          const ended = once(runner, "exit");
          await soon(() => readFile(started, "utf8").catch(() => "")).toBe(`${user}\n`);
          expect(await stillRuns(mark)).toBe(true);
          runner.kill("SIGKILL");
          await ended;
          await soon(() => stillRuns(mark)).toBe(false);
        },
      );
    }

    needs(`${name}: keeps the user's id`, async () => {
      expect((await run(["id", "-u"])).log).toBe(`${execFileSync("id", ["-u"])}`);
    });
  });
}
