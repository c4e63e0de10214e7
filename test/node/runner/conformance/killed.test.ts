import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, realpath } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { dataFolderId, removeLeftovers } from "../../../../runner/executors/container/engine/disposal.ts";
import { openEngine } from "../../../../runner/executors/container/engine/engine.ts";
import { removeTree } from "../../../../runner/pfs/remove.ts";
import type { TestEngine } from "../../../support/engines.ts";
import { leftovers, NOTHING } from "../../../support/leftovers.ts";
import { nobody, withoutPrivileges } from "../support/nobody.ts";
import { stillRuns } from "../support/processes.ts";
import { soon } from "../support/running.ts";
import { findSubjects, type Subject } from "./subjects.ts";

const AGENT = join(import.meta.dirname, "agent-process.ts");

/** A node's data folder with a datum, and agents that die in it. */
class Deathbed {
  dir = "";

  async open(): Promise<void> {
    this.dir = await realpath(await mkdtemp(join(tmpdir(), "sluice killed ")));
    await mkdir(join(this.pfs, "out"), { recursive: true });
  }

  get pfs(): string {
    return join(this.dir, "datum");
  }

  out(name: string): Promise<string> {
    return readFile(join(this.pfs, "out", name), "utf8");
  }

  /** Starts an agent with a command that never ends, kills it -9, and waits until the command is gone. */
  async agentDies(subject: Subject, as: (words: string[]) => string[] = (words) => words): Promise<void> {
    const mark = `sluice-test-${process.pid}-${Date.now()}`;
    const script = `id -u > /pfs/out/user; (trap "" TERM; while :; do sleep 0.05; done) & echo up > /pfs/out/up; while :; do sleep 0.05; done; : ${mark}`;
    const image = await subject.image("busybox");
    const [file = "", ...args] = as([process.execPath, AGENT, subject.name, image, this.dir, script]);
    const runner = spawn(file, args, { stdio: ["ignore", "inherit", "inherit"] });
    const ended = once(runner, "exit");
    await soon(() => this.out("up").catch(() => "")).toBe("up\n");
    expect(await stillRuns(mark)).toBe(true);
    runner.kill("SIGKILL");
    await ended;
    await soon(() => stillRuns(mark)).toBe(false);
  }

  async containers(engine: TestEngine): Promise<string[]> {
    const all = await engine.containers();
    return all.filter(({ Labels }) => Labels["sluice.worker-dir"]?.startsWith(this.dir)).map(({ Id }) => Id);
  }
}

for (const subject of await findSubjects()) {
  const { name, engine } = subject;

  describe(`the death of an agent with ${name}`, subject.options, () => {
    const bed = new Deathbed();
    beforeEach(() => bed.open());
    afterEach(() => removeTree(bed.dir));
    if (subject.kind === "container") inContainers(subject, { bed, engine });
    else asProcesses(subject, bed);
  });
}

function asProcesses(subject: Subject, bed: Deathbed): void {
  const { name } = subject;
  const needs = test.skipIf(subject.absent || nobody.absent);
  for (const user of ["root", "nobody"]) {
    needs(
      `${name}, setpriv, for ${user}: a killed -9 runner takes its command along${nobody.why}`,
      async () => {
        execFileSync("chown", ["-R", user, bed.dir]);
        await bed.agentDies(subject, (words) =>
          withoutPrivileges([`--reuid=${user}`, "--clear-groups"], words),
        );
        expect(await bed.out("user")).toBe(`${execFileSync("id", ["-u", user])}`);
      },
    );
  }
}

function inContainers(
  subject: Subject,
  { bed, engine }: { bed: Deathbed; engine?: TestEngine | undefined },
): void {
  const { name } = subject;
  const needs = test.skipIf(subject.absent);
  afterEach(() => engine?.close());
  const here = (): TestEngine => {
    if (!engine) throw new Error(`there is no ${name} here`);
    return engine;
  };
  /** What an agent does when it starts. */
  const nextAgentStarts = async () =>
    removeLeftovers(await openEngine(here().socket), { data: await dataFolderId(bed.dir) });

  needs(
    `${name}: a killed -9 runner takes its command along, and the next one removes its container`,
    async () => {
      await bed.agentDies(subject);
      await nextAgentStarts();
      const left = await leftovers({ folder: bed.dir, engine: here() });
      expect({ ...left, files: [] }).toEqual(NOTHING);
    },
  );

  needs(`${name}: the containers of agents that live are left alone`, async () => {
    const executor = await subject.open(bed.dir);
    const dir = join(bed.dir, "worker");
    await mkdir(dir);
    const signal = new AbortController().signal;
    const image = await subject.image("busybox");
    const sandbox = await executor.prepare({ dir, image, pipeline: "alive", pullSecrets: [], signal });
    const say = (word: string) => ["sh", "-c", `echo ${word} > /pfs/out/word`];
    const run = (cmd: string[]) => sandbox.run({ pfs: bed.pfs, cmd, stdin: null, env: {}, signal });
    await run(say("one"));
    const before = await bed.containers(here());
    expect(before).toHaveLength(1);
    await nextAgentStarts();
    await run(say("two"));
    expect(await bed.containers(here())).toEqual(before);
    expect(await bed.out("word")).toBe("two\n");
    await sandbox.close();
    await executor.close();
    expect(await bed.containers(here())).toEqual([]);
  });
}
