import { describe, expect, test } from "vitest";
import { LOG_TAIL_BYTES } from "../../../../protocol/runner.ts";
import type { TakeOutput } from "../../../../runner/executors/executor.ts";
import { soon } from "../support/running.ts";
import { findSubjects } from "./subjects.ts";
import { workbench } from "./workbench.ts";

const MIB = 1024 * 1024;

for (const subject of await findSubjects()) {
  const { name } = subject;

  describe(`what commands print in ${name}`, subject.options, () => {
    const needs = test.skipIf(subject.absent);
    const bench = workbench(subject);

    needs(`${name}: tells stdout from stderr, /dev/stderr too, and keeps the order of each`, async () => {
      const came = { stdout: "", stderr: "" };
      const onOutput: TakeOutput = (bytes, stream) => {
        came[stream] += bytes;
      };
      const script = "echo one; echo two >&2; echo three > /dev/stderr; echo four > /dev/stdout";
      const { log } = await bench.sh(script, { onOutput });
      expect(came).toEqual({ stdout: "one\nfour\n", stderr: "two\nthree\n" });
      expect(log.split("\n").sort()).toEqual(["", "four", "one", "three", "two"]);
    });

    needs(`${name}: keeps the order of both where the command joins them`, async () => {
      const joined = "{ echo one; echo two >&2; echo three > /dev/stderr; echo four > /dev/stdout; } 2>&1";
      expect((await bench.sh(joined)).log).toBe("one\ntwo\nthree\nfour\n");
    });

    needs(`${name}: keeps the order of both where they are to be joined, and has it as stdout`, async () => {
      const came: string[] = [];
      const onOutput: TakeOutput = (bytes, stream) => {
        came.push(`${stream} ${bytes}`);
      };
      const script = "for n in 1 2 3 4 5 6 7 8 9; do echo out $n; echo err $n >&2; done";
      const { log } = await bench.sh(script, { onOutput, joined: true });
      const wanted = [1, 2, 3, 4, 5, 6, 7, 8, 9].map((n) => `out ${n}\nerr ${n}\n`).join("");
      expect(log).toBe(wanted);
      expect(came.every((each) => each.startsWith("stdout "))).toBe(true);
      expect((await bench.sh("echo one; echo two >&2")).log.split("\n").sort()).toEqual(["", "one", "two"]);
    });

    needs(`${name}: keeps the end of a long log`, async () => {
      const run = await bench.sh("yes é | head -c 50000000; echo end");
      expect(run.log.endsWith("end\n")).toBe(true);
      expect(run.log).not.toContain("\ufffd");
      expect(Buffer.byteLength(run.log)).toBeLessThanOrEqual(LOG_TAIL_BYTES);
      expect(Buffer.byteLength(run.log)).toBeGreaterThan(LOG_TAIL_BYTES - 4);
    });

    needs(`${name}: gives output as it comes, before the command has ended`, async () => {
      const abort = new AbortController();
      let seen = "";
      const onOutput = (bytes: Buffer) => {
        seen += bytes;
      };
      const running = bench.sh("echo up; while :; do sleep 0.05; done", { onOutput, signal: abort.signal });
      await soon(() => seen).toBe("up\n");
      abort.abort();
      await running;
    });

    needs(`${name}: gives all bytes as they are, in order, to each command its own`, async () => {
      for (const last of ["one", "two"]) {
        const chunks: Buffer[] = [];
        const script = `printf 'a\\000\\377\\n'; seq 1 20000; printf ${last}`;
        const run = await bench.sh(script, { onOutput: (bytes) => chunks.push(Buffer.from(bytes)) });
        expect(run).toMatchObject({ kind: "exited", code: 0 });
        const numbers = Array.from({ length: 20_000 }, (_, index) => `${index + 1}\n`).join("");
        const wanted = Buffer.concat([Buffer.from([0x61, 0, 0xff, 0x0a]), Buffer.from(numbers + last)]);
        expect(Buffer.concat(chunks).equals(wanted)).toBe(true);
      }
    });

    needs(`${name}: keeps no more of a large output than its end`, async () => {
      let count = 0;
      let most = 0;
      const before = process.memoryUsage().rss;
      const onOutput = (bytes: Buffer) => {
        count += bytes.length;
        most = Math.max(most, process.memoryUsage.rss());
      };
      await bench.run(["head", "-c", String(300 * MIB), "/dev/zero"], { onOutput });
      expect(count).toBe(300 * MIB);
      expect(most - before).toBeLessThan(150 * MIB);
    });
  });
}
