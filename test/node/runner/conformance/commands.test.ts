import { chmod, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { findSubjects } from "./subjects.ts";
import { workbench } from "./workbench.ts";

/** What a container has in its environment beside what the command is given. */
const OF_THE_CONTAINER = /^(HOSTNAME|HOME|TERM|container)=/;

for (const subject of await findSubjects()) {
  const { name, kind, path: PATH } = subject;

  describe(`commands in ${name}`, subject.options, () => {
    const needs = test.skipIf(subject.absent);
    const bench = workbench(subject);

    needs(`${name}: runs a command that reads its input and writes its output`, async () => {
      expect(await bench.run(["cp", "/pfs/in/file", "/pfs/out/copy"])).toEqual({
        kind: "exited",
        code: 0,
        log: "",
      });
      expect(await bench.out("copy")).toBe("given");
    });

    needs(`${name}: does not leave a /pfs on the machine`, async () => {
      const before = await readdir("/");
      await bench.run(["true"]);
      expect(await readdir("/")).toEqual(before);
    });

    needs(`${name}: starts the command in the folder that it was told, or in the root`, async () => {
      expect(await bench.run(["pwd"])).toMatchObject({ log: "/\n" });
      expect(await bench.run(["pwd"], { workingDir: "/pfs/out" })).toMatchObject({ log: "/pfs/out\n" });
      expect(await bench.run(["cat", "file"], { workingDir: "/pfs/in" })).toMatchObject({
        code: 0,
        log: "given",
      });
    });

    needs(`${name}: says of a folder that is not there that it is not`, async () => {
      for (const workingDir of ["/no/such folder", "/pfs/in/file"]) {
        const ran = await bench.run(["touch", "/pfs/out/started"], { workingDir });
        expect(ran).toMatchObject({ kind: "not-started" });
        expect(ran.kind === "not-started" && ran.reason).toBe(
          `the working directory "${workingDir}" is not there or can't be entered`,
        );
      }
      await expect(bench.out("started")).rejects.toThrow("ENOENT");
    });

    needs(`${name}: passes words as they are, without a shell`, async () => {
      const words = ["*", "$HOME", "a b", "", "'", '"', "--", "x=y", "a\nb", "\\", "é"];
      await bench.run(["sh", "-c", 'printf "%s\\n" "$@" > /pfs/out/words', "sh", ...words]);
      expect(await bench.out("words")).toBe(words.map((word) => `${word}\n`).join(""));
    });

    needs(`${name}: gives the environment that it was told, odd names and loader variables too`, async () => {
      const env = { PATH, "my-input": "/pfs/my-input/a", LD_SLUICE: "1", HOME: "/nowhere", LINES: "a\nb'" };
      const { log } = await bench.run(["env", "-0"], { env }).then((run) => ({ log: run.log }));
      const all = log.split("\0").filter((line) => line !== "" && !/^(PWD|OLDPWD|SHLVL|_)=/.test(line));
      const told = Object.entries(env).map(([key, value]) => `${key}=${value}`);
      expect(all).toEqual(expect.arrayContaining(told));
      const more = all.filter((line) => !told.includes(line));
      expect(kind === "container" ? more.filter((line) => !OF_THE_CONTAINER.test(line)) : more).toEqual([]);
    });

    needs(`${name}: gives stdin, again for each command, and new lines when they change`, async () => {
      for (const stdin of ["one\ntwo\n", "one\ntwo\n", "three\n", "", "é\u0001\n"]) {
        await bench.run(["cp", "/dev/stdin", "/pfs/out/got"], { stdin });
        expect(await bench.out("got")).toBe(stdin);
      }
    });

    needs(`${name}: gives a large stdin whole`, async () => {
      const stdin = "0123456789abcde\n".repeat(1 << 16);
      await bench.sh("cat > /pfs/out/got", { stdin });
      expect((await bench.out("got")) === stdin).toBe(true);
    });

    needs(`${name}: gives an empty stdin where there is none`, async () => {
      expect(await bench.run(["cat"])).toEqual({ kind: "exited", code: 0, log: "" });
    });

    needs(`${name}: does not mind a command that reads none of a large stdin`, async () => {
      const stdin = "x".repeat(1 << 20);
      expect(await bench.run(["true"], { stdin })).toMatchObject({ kind: "exited", code: 0 });
    });

    needs(`${name}: tells exit codes`, async () => {
      for (const code of [0, 1, 2, 126, 127, 137, 143, 255]) {
        expect(await bench.sh(`exit ${code}`)).toEqual({ kind: "exited", code, log: "" });
      }
    });

    needs(`${name}: tells a signal as 128 and its number`, async () => {
      expect(await bench.sh("kill -KILL $$")).toMatchObject({ kind: "exited", code: 137 });
      expect(await bench.sh("kill -TERM $$")).toMatchObject({ kind: "exited", code: 143 });
      expect(await bench.sh("kill -SEGV $$")).toMatchObject({ kind: "exited", code: 139 });
    });

    needs(`${name}: says that a command is not found, and where it was looked for`, async () => {
      for (const missing of ["no-such-command", "/no/such/command", "/pfs/in/file", "no=such", "/pfs/in"]) {
        const run = await bench.run([missing]);
        expect(run, missing).toMatchObject({ kind: "not-started" });
        const reason = run.kind === "not-started" ? run.reason : "";
        expect(reason).toContain(`the command "${missing}" was not found or can't be executed`);
        if (kind === "process") expect(reason).toContain("this machine's tools");
      }
    });

    needs(`${name}: does not succeed where the arguments are more than the kernel takes`, async () => {
      expect((await bench.run(["x".repeat(300_000)])).kind).toBe("not-started");
      expect(await bench.run(["true", "x".repeat(300_000)])).not.toMatchObject({ code: 0 });
      expect(await bench.run(["true"])).toMatchObject({ code: 0 });
    });

    needs(`${name}: runs a program that comes as an input`, async () => {
      const pfs = await bench.datum({});
      await writeFile(join(pfs, "in", "tool"), "#!/bin/sh\npwd\n");
      await chmod(join(pfs, "in", "tool"), 0o555);
      expect(await bench.run(["/pfs/in/tool"], { pfs })).toEqual({ kind: "exited", code: 0, log: "/\n" });
    });

    needs(`${name}: runs one command after the other, each with its own inputs and outputs`, async () => {
      for (const word of ["first", "second", "third"]) {
        const pfs = await bench.datum({ [word]: word });
        const run = await bench.sh("ls /pfs/in; ls /pfs/out; cp /pfs/in/* /pfs/out/got", { pfs });
        expect(run).toMatchObject({ code: 0, log: `${word}\n` });
        expect(await readFile(join(pfs, "out", "got"), "utf8")).toBe(word);
        // What was staged is there to be removed.
        expect(await readdir(join(pfs, "in"))).toEqual([word]);
      }
    });

    needs(`${name}: does not take a folder for /pfs that is not there, nor makes it`, async () => {
      const pfs = join(bench.dir, "no-such-datum");
      const run = await bench.run(["true"], { pfs }).catch(() => undefined);
      expect(run).not.toMatchObject({ kind: "exited", code: 0 });
      expect(await readdir(bench.dir)).not.toContain("no-such-datum");
      expect(await bench.run(["true"])).toMatchObject({ code: 0 });
    });
  });
}
