// @module-tag rest
import { mkdir, readdir, readFile, symlink } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { NodeCondition, type TakeOutput } from "../../../../runner/executors/executor.ts";
import { collect } from "../../../../runner/pfs/collect.ts";
import { removeTree } from "../../../../runner/pfs/remove.ts";
import { freePort } from "../../../support/ports.ts";
import { IMAGE_USER } from "../../../support/test-images.ts";
import { findSubject } from "./subjects.ts";
import { workbench } from "./workbench.ts";

const signal = new AbortController().signal;
const subjects = await Promise.all([findSubject("docker"), findSubject("podman")]);

for (const subject of subjects) {
  const { name } = subject;
  const needs = test.skipIf(subject.absent);

  describe(`an image with settings of its own, in ${name}`, () => {
    const bench = workbench(subject, { image: "settings" });

    needs(`${name}: its entry point is not run`, async () => {
      expect(await bench.run(["echo", "ran"])).toEqual({ kind: "exited", code: 0, log: "ran\n" });
    });

    needs(`${name}: its variables are there, below those of the command`, async () => {
      const env = { FROM_BOTH: "command", PATH: subject.path };
      const { log } = await bench.sh('echo "$FROM_IMAGE $FROM_BOTH $PATH"', { env });
      expect(log).toBe("image command /bin\n");
      // As the command before, and not as it left it.
      expect((await bench.sh('echo "$FROM_IMAGE $FROM_BOTH"', { env: {} })).log).toBe("image image\n");
    });

    needs(`${name}: its PATH is used where the command's is that of the machine`, async () => {
      const env = { PATH: "/nowhere", HOME: "/home/of-the-machine" };
      const { log } = await bench.sh('echo "$PATH $HOME"', { env, machineEnv: ["PATH", "HOME"] });
      expect(log).toMatch(/^\/bin /);
      expect(log).not.toContain("of-the-machine");
    });

    needs(`${name}: its working directory is used where the command has none`, async () => {
      expect(await bench.run(["pwd"])).toMatchObject({ log: "/tmp\n" });
      expect(await bench.run(["pwd"], { workingDir: "/" })).toMatchObject({ log: "/\n" });
    });
  });

  describe(`what a command is told to run in, in ${name}`, () => {
    const kept = workbench(subject, { image: "busybox" });
    const alone = workbench(subject, { image: "bare" });

    for (const [way, bench, image] of [
      ["a container that is kept", kept, "busybox"],
      ["one of its own", alone, "bare"],
    ] as const) {
      needs(`${name}: is its image, by a name that no tag can move, in ${way}`, async () => {
        const told: string[] = [];
        const onImage = (one: string): void => void told.push(one);
        expect(await bench.run(["true"], { onImage })).toMatchObject({ code: 0 });
        expect(told).toEqual([expect.stringMatching(/(^|@)sha256:[0-9a-f]{64}$/)]);
        const idOf = async (name: string) => (await subject.engine?.client.getImage(name).inspect())?.Id;
        expect(await idOf(told[0] ?? "")).toBe(await idOf(await subject.image(image)));
      });
    }
  });

  describe(`an image with a user of its own, in ${name}`, () => {
    const bench = workbench(subject, { image: "user" });

    needs(`${name}: the command is that user, and reads its inputs`, async () => {
      expect(await bench.run(["id", "-u"])).toMatchObject({ log: `${IMAGE_USER}\n` });
      expect(await bench.run(["cp", "/pfs/in/file", "/pfs/out/copy"])).toMatchObject({ code: 0 });
      expect(await bench.out("copy")).toBe("given");
    });

    needs(`${name}: what it writes is collected and removed, whatever its modes`, async () => {
      const pfs = await bench.datum({});
      const script =
        "umask 077; mkdir -p /pfs/out/a/b; echo 1 > /pfs/out/a/b/closed; chmod 0 /pfs/out/a/b/closed; chmod 0 /pfs/out/a/b; echo 2 > /pfs/out/own; chmod 600 /pfs/out/own";
      expect(await bench.sh(script, { pfs })).toMatchObject({ kind: "exited", code: 0 });
      const found = await collect({ out: join(pfs, "out"), signal });
      expect(found.map(({ path }) => path).sort()).toEqual(["a/b/closed", "own"]);
      await removeTree(pfs);
      expect(await bench.sh("ls -A /pfs/out")).toMatchObject({ log: "" });
    });

    needs(`${name}: it can't change its inputs`, async () => {
      expect(await bench.sh("echo x > /pfs/in/file")).not.toMatchObject({ code: 0 });
      expect(await readFile(join(bench.pfs, "in/file"), "utf8")).toBe("given");
    });

    needs(`${name}: it prints and reads stdin by the names of /dev`, async () => {
      const came = { stdout: "", stderr: "" };
      const onOutput: TakeOutput = (bytes, stream) => {
        came[stream] += bytes;
      };
      const script = "cat /dev/stdin > /dev/stderr; echo x > /dev/stdout";
      expect(await bench.sh(script, { stdin: "in\n", onOutput })).toMatchObject({ code: 0 });
      expect(came).toEqual({ stdout: "x\n", stderr: "in\n" });
    });
  });

  describe(`an image without a shell, in ${name}`, () => {
    const bench = workbench(subject, { image: "bare" });

    needs(`${name}: runs its programs, one after the other`, async () => {
      for (const word of ["one", "two"]) {
        const pfs = await bench.datum({ [word]: word });
        const cmd = ["cp", `/pfs/in/${word}`, "/pfs/out/copy"];
        expect(await bench.run(cmd, { pfs })).toEqual({ kind: "exited", code: 0, log: "" });
        expect(await readFile(join(pfs, "out/copy"), "utf8")).toBe(word);
      }
    });

    needs(`${name}: tells exit codes, and what is printed`, async () => {
      const run = await bench.run(["cp", "/pfs/in/missing", "/pfs/out/copy"]);
      expect(run).toMatchObject({ kind: "exited", code: 1, log: expect.stringContaining("No such file") });
    });

    needs(`${name}: says of a command or a folder that is not there that it is not`, async () => {
      for (const missing of ["sh", "/no/such", "/pfs/in/file"]) {
        expect(await bench.run([missing]), missing).toMatchObject({
          kind: "not-started",
          reason: `the command "${missing}" was not found or can't be executed`,
        });
      }
      for (const workingDir of ["/no/such", "/bin/cp", "/pfs/no", "/pfs/in/file"]) {
        expect(await bench.run(["pwd"], { workingDir })).toMatchObject({
          kind: "not-started",
          reason: `the working directory "${workingDir}" is not there or can't be entered`,
        });
      }
      expect(await bench.run(["pwd"], { workingDir: "/pfs/in" })).toMatchObject({ log: "/pfs/in\n" });
    });

    needs(`${name}: gives stdin clean, none, little or much of it, read or not`, async () => {
      const much = "0123456789abcde\n".repeat(1 << 16);
      for (const stdin of [null, "", "a", "a\nb\n", much]) {
        const run = await bench.run(["cp", "/dev/stdin", "/pfs/out/got"], { stdin });
        expect(run).toMatchObject({ code: 0 });
        expect((await bench.out("got")) === (stdin ?? "")).toBe(true);
      }
      expect(await bench.run(["echo", "ran"], { stdin: much })).toMatchObject({ code: 0, log: "ran\n" });
      expect(await bench.run(["head", "-c", "3"], { stdin: much })).toMatchObject({ code: 0, log: "012" });
    });

    needs(`${name}: gives all that is printed, and as it comes`, async () => {
      let count = 0;
      const onOutput = (bytes: Buffer) => {
        count += bytes.length;
      };
      await bench.run(["head", "-c", "20000000", "/dev/zero"], { onOutput });
      expect(count).toBe(20_000_000);
    });

    needs(`${name}: tells what is printed on stderr from what is printed on stdout`, async () => {
      const came = { stdout: "", stderr: "" };
      const onOutput: TakeOutput = (bytes, stream) => {
        came[stream] += bytes;
      };
      await bench.run(["cat", "/pfs/in/file", "/none"], { onOutput });
      expect(came).toEqual({ stdout: "given", stderr: expect.stringMatching(/\/none/) });
    });

    needs(`${name}: an abort kills it`, async () => {
      const abort = new AbortController();
      const onOutput = () => abort.abort();
      const run = await bench.run(["cat", "/pfs/in/file", "-"], {
        onOutput,
        signal: abort.signal,
        stdin: "",
      });
      expect(run.kind).toBe("exited");
      const sleeps = bench.run(["sleep", "1000"], { signal: AbortSignal.any([abort.signal]) });
      expect(await sleeps).toMatchObject({ kind: "exited" });
      expect(await bench.run(["echo", "again"])).toMatchObject({ log: "again\n" });
    });
  });

  describe(`an image with a /pfs of its own, in ${name}`, () => {
    const bench = workbench(subject, { image: "pfs" });

    needs(`${name}: its /pfs is hidden by the datum's`, async () => {
      expect(await bench.sh("ls -A /pfs /pfs/out")).toMatchObject({ log: "/pfs:\nin\nout\n\n/pfs/out:\n" });
    });
  });

  describe(`the limits of a worker, in ${name}`, () => {
    const memoryBytes = 64 * 1024 * 1024;
    const bench = workbench(subject, { limits: { memoryBytes, pids: 30, cpus: 0.5 } });

    needs(`${name}: a command that takes too much memory is killed, and it says so`, async () => {
      const run = await bench.run(["dd", "if=/dev/zero", "of=/dev/null", "bs=256M", "count=1"]);
      expect(run).toMatchObject({ kind: "exited", code: 137 });
      expect(run.kind === "exited" && run.cause).toMatch(/ran out of memory.*--memory/);
      const killed = await bench.sh("kill -KILL $$");
      expect(killed).toEqual({ kind: "exited", code: 137, log: "" });
    });

    needs(`${name}: a command that forks without end does not, and the next one runs`, async () => {
      const run = await bench.sh("i=0; while [ $i -lt 100 ]; do sleep 1000 & i=$((i+1)); done; echo all");
      expect(run.kind).toBe("exited");
      expect(run.log).not.toContain("all");
      expect(await bench.run(["echo", "again"])).toMatchObject({ code: 0, log: "again\n" });
    });
  });

  describe(`what people see of a worker, in ${name}`, () => {
    const bench = workbench(subject);

    needs(`${name}: its container is labelled with its node and pipeline, and keeps no log`, async () => {
      await bench.run(["true"]);
      const all = (await subject.engine?.containers()) ?? [];
      const own = all.filter(({ Labels }) => Labels["sluice.worker-dir"]?.startsWith(bench.dir));
      expect(own).toHaveLength(1);
      const [{ Labels, Id } = { Labels: {}, Id: "" }] = own;
      expect(Labels).toMatchObject({ "sluice.node": "conformance", "sluice.pipeline": "conformance" });
      const inspected = await subject.engine?.client.getContainer(Id).inspect();
      expect(inspected?.HostConfig.LogConfig?.Type).toBe("none");
    });

    needs(
      `${name}: an image that can't be had is a condition of the node, in words that name it`,
      async () => {
        const image = `127.0.0.1:${await freePort()}/nobody/nothing:1`;
        const dir = await bench.newFolder("worker");
        const request = { dir, image, pipeline: "conformance", pullSecrets: [], signal };
        const error = await bench.executor.prepare(request).catch((error: unknown) => error);
        expect(error).toBeInstanceOf(NodeCondition);
        expect((error as NodeCondition).message).toContain(`image "${image}" can't be pulled`);
        expect(await readdir(dir)).toEqual([]);
      },
    );

    needs(`${name}: a container that is removed behind its back is made anew`, async () => {
      await bench.run(["true"]);
      const all = (await subject.engine?.containers()) ?? [];
      for (const { Id, Labels } of all) {
        if (!Labels["sluice.worker-dir"]?.startsWith(bench.dir)) continue;
        await subject.engine?.client.getContainer(Id).remove({ force: true });
      }
      expect(await bench.run(["echo", "again"])).toMatchObject({ code: 0, log: "again\n" });
    });

    needs(`${name}: not even root makes a device in its output`, async () => {
      expect(await bench.sh("mknod /pfs/out/null c 1 3")).not.toMatchObject({ code: 0 });
      expect(await readdir(join(bench.pfs, "out"))).toEqual([]);
    });
  });

  describe(`what a command may do in ${name}`, () => {
    /** CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID and SETUID, as bits. */
    const SHORT_LIST = "00000000000000fb";
    const NOTHING = "0000000000000000";
    const PRIVILEGES = "grep -E '^(Cap(Prm|Eff|Bnd|Amb)|NoNewPrivs):' /proc/self/status";

    for (const image of ["busybox", "bare"] as const) {
      const bench = workbench(subject, { image });
      needs(`${name}: as root in image "${image}", what the short list has, and no more`, async () => {
        const { log } = await bench.run(["cat", "/proc/self/status"]);
        const told = Object.fromEntries(log.split("\n").map((line) => line.split(":\t")));
        const expected = { CapPrm: SHORT_LIST, CapEff: SHORT_LIST, CapBnd: SHORT_LIST, CapAmb: NOTHING };
        expect(told).toMatchObject({ ...expected, NoNewPrivs: "1" });
      });
    }

    const own = workbench(subject, { image: "user" });
    needs(`${name}: as any other user, it may do nothing`, async () => {
      const { log } = await own.sh(PRIVILEGES);
      const lines = ["CapPrm", "CapEff", "CapBnd", "CapAmb"].map((what) => `${what}:\t${NOTHING}\n`);
      expect(log).toBe(`${lines.join("")}NoNewPrivs:\t1\n`);
    });

    const root = workbench(subject);
    needs(
      `${name}: root still gives files away, becomes somebody else, and ends others' processes`,
      async () => {
        const script =
          "touch /pfs/out/a && chown 7:7 /pfs/out/a && chmod 600 /pfs/out/a && echo x >> /pfs/out/a && cat /pfs/out/a";
        expect(await root.sh(script)).toMatchObject({ code: 0, log: "x\n" });
      },
    );
  });

  describe(`the network of commands in ${name}`, () => {
    const INTERFACES = "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' ' | sort";
    const none = workbench(subject, { network: "none" });
    needs(`${name}: with none they reach nobody but themselves`, async () => {
      expect(await none.sh(INTERFACES)).toMatchObject({ log: "lo\n" });
    });

    const host = workbench(subject, { network: "host" });
    needs(`${name}: with host it is the machine's`, async () => {
      const own = (await readFile("/proc/net/dev", "utf8")).split("\n").slice(2, -1);
      const names = own.map((line) => line.split(":")[0]?.trim()).sort();
      expect((await host.sh(INTERFACES)).log.trim().split("\n").sort()).toEqual(names);
    });

    const missing = workbench(subject, { network: "sluice-no-such-network" });
    needs(`${name}: one that the engine lacks is a condition of the node, which names it`, async () => {
      await expect(missing.run(["true"])).rejects.toThrow(NodeCondition);
      await expect(missing.run(["true"])).rejects.toThrow("sluice-no-such-network");
    });
  });

  for (const image of ["busybox", "bare"] as const) {
    describe(`the working directory in image "${image}" of ${name}`, () => {
      const bench = workbench(subject, { image });

      needs(`${name}: "${image}" leads nowhere out of the container`, async () => {
        const outside = await bench.newFolder("outside");
        await mkdir(join(outside, "folder"));
        await symlink(outside, join(bench.pfs, "in/link"));
        const up = "../".repeat(20);
        for (const workingDir of [
          `/pfs/${up}${outside}`,
          `/pfs/in/../${up}${outside}`,
          "/pfs/in/link/folder",
        ]) {
          expect(await bench.run(["pwd"], { workingDir }), workingDir).toMatchObject({ kind: "not-started" });
        }
        expect(await readdir(outside)).toEqual(["folder"]);
      });

      needs(`${name}: "${image}" is understood as a path is`, async () => {
        const understood = {
          "/pfs//in/.": "/pfs/in",
          "/pfs/in/../out/": "/pfs/out",
          "/..": "/",
          "/bin/../pfs": "/pfs",
        };
        for (const [workingDir, path] of Object.entries(understood)) {
          expect(await bench.run(["pwd"], { workingDir })).toMatchObject({ code: 0, log: `${path}\n` });
        }
      });
    });
  }
}
