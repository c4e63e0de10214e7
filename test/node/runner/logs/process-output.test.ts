import { closeSync, constants, openSync, writeSync } from "node:fs";
import { mkdir, mkdtemp, realpath, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { LogStream } from "../../../../protocol/runner.ts";
import type { Command, Executor, Run, Sandbox, TakeOutput } from "../../../../runner/executors/executor.ts";
import { readRootEntries } from "../../../../runner/executors/process/machine.ts";
import { processExecutor } from "../../../../runner/executors/process/process.ts";
import { removeTree } from "../../../../runner/pfs/remove.ts";
import { JAILS } from "../support/datums.ts";
import { childrenOf } from "../support/processes.ts";
import { soon } from "../support/running.ts";

for (const { name, options, find, absent } of JAILS) {
  describe(`what a command prints with ${name}`, options, () => {
    const needs = test.skipIf(absent);
    let dir: string;
    let pfs: string;
    let executor: Executor;
    let sandbox: Sandbox;

    beforeEach(async () => {
      dir = await realpath(await mkdtemp(join(tmpdir(), "sluice-output-")));
      pfs = join(dir, "datum");
      for (const folder of ["in", "out"]) await mkdir(join(pfs, folder), { recursive: true });
      await mkdir(join(dir, "worker"));
      if (absent) return;
      const jail = await find({ root: await readRootEntries(), dataDir: dir });
      if (typeof jail === "string") throw new Error(jail);
      executor = processExecutor(jail);
      const request = { dir: join(dir, "worker"), image: "any", pipeline: "edges", pullSecrets: [] };
      sandbox = await executor.prepare({ ...request, signal: new AbortController().signal });
    });

    afterEach(async () => {
      await sandbox?.close();
      await executor?.close();
      await removeTree(dir);
    });

    function sh(script: string, more: Partial<Command> = {}): Promise<Run> {
      const env = { PATH: process.env.PATH ?? "/usr/bin:/bin" };
      const signal = new AbortController().signal;
      return sandbox.run({ pfs, cmd: ["sh", "-c", script], stdin: null, env, signal, ...more });
    }
    /** Opens the way for a command that waits for this file. */
    const allow = (gate: string) => writeFile(join(pfs, "in", gate), "");
    const until = (gate: string) => `while [ ! -e /pfs/in/${gate} ]; do sleep 0.02; done`;

    needs(
      `${name}: comes while it runs, as it is printed on stdout and on stderr, and whole before it has ended`,
      async () => {
        let text = "";
        const came: string[] = [];
        const onOutput: TakeOutput = (bytes, stream) => {
          text += bytes.toString();
          came.push(`${stream}: ${bytes}`);
        };
        const running = sh(`echo one; ${until("a")}; printf two >&2; ${until("b")}; echo three`, {
          onOutput,
        });
        await soon(() => text).toBe("one\n");
        await allow("a");
        await soon(() => text).toBe("one\ntwo");
        await allow("b");
        expect(await running).toEqual({ kind: "exited", code: 0, log: "one\ntwothree\n" });
        expect(text).toBe("one\ntwothree\n");
        expect(came).toEqual(["stdout: one\n", "stderr: two", "stdout: three\n"]);
      },
    );

    needs(`${name}: comes whole, however much it is`, async () => {
      let size = 0;
      let last = "";
      const onOutput = (bytes: Buffer) => {
        size += bytes.length;
        last = (last + bytes.subarray(-10).toString()).slice(-10);
      };
      await sh("head -c 100000000 /dev/zero; echo; echo the end", { onOutput });
      expect(size).toBe(100_000_009);
      expect(last).toBe("\0\nthe end\n");
    });

    for (const stream of LogStream.options)
      needs(
        `${name}: ends with the command, whoever else holds its ${stream} open, and the next log is a new one`,
        async () => {
          const running = sh(`echo one; ${until("a")}; echo two`);
          let stray = -1;
          await soon(() => {
            stray = openStream(stream);
            return stray;
          }).toBeGreaterThan(0);
          await allow("a");
          expect(await running).toEqual({ kind: "exited", code: 0, log: "one\ntwo\n" });
          const next = sh(`echo three; ${until("b")}`);
          expect(() => writeSync(stray, "not of this command\n")).toThrow("EPIPE");
          closeSync(stray);
          await allow("b");
          expect(await next).toEqual({ kind: "exited", code: 0, log: "three\n" });
        },
      );
    /** Opens it for writing; -1 while nobody reads it. */
    const openStream = (stream: LogStream) => {
      try {
        return openSync(join(dir, "worker", stream), constants.O_WRONLY | constants.O_NONBLOCK);
      } catch {
        return -1;
      }
    };

    needs(`${name}: of a command whose launcher died is not in the log of the next one`, async () => {
      let text = "";
      const onOutput = (bytes: Buffer) => {
        text += bytes.toString();
      };
      const running = sh("while :; do echo noise; sleep 0.01; done", { onOutput }).catch(() => "lost");
      await soon(() => text).toContain("noise");
      const [launcher = 0] = await childrenOf("launcher-process");
      process.kill(launcher, "SIGKILL");
      expect(await running).toBe("lost");
      expect(await sh("echo again")).toEqual({ kind: "exited", code: 0, log: "again\n" });
    });

    needs(`${name}: tells of a tool that could not be started at all`, async () => {
      let text = "";
      const onOutput = (bytes: Buffer) => {
        text += bytes.toString();
      };
      const run = await sh("true", { cmd: ["x".repeat(300_000)], onOutput });
      expect(run).toMatchObject({ kind: "not-started" });
      expect(await sh("echo again", { onOutput })).toMatchObject({ log: "again\n" });
      expect(text.endsWith("again\n")).toBe(true);
    });
  });
}
