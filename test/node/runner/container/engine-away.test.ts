// @module-tag rest
import { mkdir, mkdtemp, realpath, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { containerExecutor } from "../../../../runner/executors/container/container-executor.ts";
import { openEngine } from "../../../../runner/executors/container/engine/engine.ts";
import {
  type Command,
  type Executor,
  NodeCondition,
  type Sandbox,
} from "../../../../runner/executors/executor.ts";
import { removeTree } from "../../../../runner/pfs/remove.ts";
import { containerBelow, containerSubjects, containersBelow } from "./support/containers.ts";
import { SocketRelay } from "./support/socket-relay.ts";

for (const subject of await containerSubjects()) {
  const { name, engine } = subject;

  describe(`while ${name} is away`, () => {
    const needs = test.skipIf(subject.absent);
    let dir: string;
    let relay: SocketRelay;
    let executor: Executor;
    let sandbox: Sandbox;
    let made = 0;

    beforeEach(async () => {
      if (!engine) return;
      dir = await realpath(await mkdtemp(join(tmpdir(), "sluice away ")));
      await mkdir(join(dir, "datum/out"), { recursive: true });
      relay = new SocketRelay(join(dir, "engine.sock"), engine.socket);
      await relay.open();
      executor = await containerExecutor({
        ...{ engine: await openEngine(relay.path), dataDir: dir, node: "away", limits: {} },
      });
      sandbox = await prepare();
    });
    afterEach(async () => {
      if (!engine) return;
      await sandbox.close();
      await executor.close();
      const left = await containersBelow(engine, dir);
      await relay.cut();
      await removeTree(dir);
      await engine.close();
      expect(left).toEqual([]);
    });

    async function prepare(): Promise<Sandbox> {
      made += 1;
      await mkdir(join(dir, `worker-${made}`));
      return executor.prepare({
        ...{ dir: join(dir, `worker-${made}`), image: await subject.image("busybox"), pipeline: "edges" },
        ...{ pullSecrets: [], signal: new AbortController().signal },
      });
    }
    const sh = (script: string, more: Partial<Command> = {}) =>
      sandbox.run({
        ...{ pfs: join(dir, "datum"), cmd: ["sh", "-c", script], stdin: null, env: {} },
        ...{ signal: new AbortController().signal, ...more },
      });

    needs(`${name}: that a worker can't be prepared is a condition of the node`, async () => {
      await relay.cut();
      await expect(prepare()).rejects.toThrow(NodeCondition);
      await relay.open();
      await (await prepare()).close();
    });

    needs(
      `${name}: that the first command can't run is a condition of the node, and it runs when the engine is back`,
      async () => {
        await relay.cut();
        await expect(sh("true")).rejects.toThrow(NodeCondition);
        await relay.open();
        expect(await sh("echo here")).toMatchObject({ code: 0, log: "here\n" });
      },
    );

    needs(`${name}: commands go on in the container that is there`, async () => {
      await sh("true");
      const { Id } = await containerBelow(engine, dir);
      await relay.cut();
      expect(await sh("echo here")).toMatchObject({ code: 0, log: "here\n" });
      await relay.open();
      expect(await sh("echo here")).toMatchObject({ code: 0, log: "here\n" });
      expect((await containerBelow(engine, dir)).Id).toBe(Id);
    });

    needs(
      `${name}: a container that ends is trouble of the node, and is replaced when it is back`,
      async () => {
        await sh("true");
        const { Id } = await containerBelow(engine, dir);
        await writeFile(join(dir, "datum/out/before"), "x");
        await relay.cut();
        const run = sh("echo now; sleep 1000", {
          onOutput: () => void engine?.client.getContainer(Id).kill(),
        });
        await expect(run).rejects.toThrow(NodeCondition);
        await expect(sh("true")).rejects.toThrow(NodeCondition);
        await relay.open();
        await mkdir(join(dir, "next/out"), { recursive: true });
        expect(await sh("ls -A /pfs/out; echo here", { pfs: join(dir, "next") })).toMatchObject({
          log: "here\n",
        });
        expect((await containerBelow(engine, dir)).Id).not.toBe(Id);
      },
    );

    needs(`${name}: what could not be removed is removed when the agent ends`, async () => {
      await sh("true");
      await relay.cut();
      await sandbox.close();
      expect(await containersBelow(engine, dir)).toHaveLength(1);
      await relay.open();
      await executor.close();
      expect(await containersBelow(engine, dir)).toEqual([]);
    });
  });
}
