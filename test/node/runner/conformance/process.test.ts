import { execFileSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { NodeCondition } from "../../../../runner/executors/executor.ts";
import { childrenOf, stillRuns } from "../support/processes.ts";
import { soon } from "../support/running.ts";
import { findSubjects } from "./subjects.ts";
import { workbench } from "./workbench.ts";

// What holds of commands that are processes of the machine, beside what holds of all.
for (const subject of (await findSubjects()).filter(({ kind }) => kind === "process")) {
  const { name } = subject;

  describe(`the process executor with ${name}`, () => {
    const needs = test.skipIf(subject.absent);
    const bench = workbench(subject);

    needs(`${name}: keeps the user's id`, async () => {
      expect((await bench.run(["id", "-u"])).log).toBe(`${execFileSync("id", ["-u"])}`);
    });

    needs(
      `${name}: a lost launcher takes its command along, which is no fault of it, and the next command gets a new one`,
      async () => {
        const mark = `sluice-test-${process.pid}-${Date.now()}`;
        const running = bench.sh(`while :; do sleep 0.05; done; : ${mark}`).catch((error: unknown) => error);
        await soon(() => stillRuns(mark)).toBe(true);
        const [launcher = 0] = await childrenOf("launcher-process");
        process.kill(launcher, "SIGKILL");
        expect(await running).toEqual(new NodeCondition("the process that starts commands ended (SIGKILL)"));
        await soon(() => stillRuns(mark)).toBe(false);
        expect(await bench.run(["echo", "again"])).toEqual({ kind: "exited", code: 0, log: "again\n" });
      },
    );
  });
}
