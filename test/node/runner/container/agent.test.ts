// @module-tag rest

import { type ChildProcess, spawn } from "node:child_process";
import { chmod, chown, readdir } from "node:fs/promises";
import { hostname } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { KEY } from "../support/fake-gateway.ts";
import { nobody, withoutPrivileges } from "../support/nobody.ts";
import { stillRuns } from "../support/processes.ts";
import { Stage, soon } from "../support/running.ts";
import { containerSubjects, containersBelow } from "./support/containers.ts";
import { SocketRelay } from "./support/socket-relay.ts";

const AGENT = join(import.meta.dirname, "support/engine-agent.ts");
const NOBODY = 65534;

for (const subject of await containerSubjects()) {
  const { name, engine } = subject;

  // Each starts agents, and each of these a container.
  describe(`agents with ${name}`, { timeout: 120_000 }, () => {
    const needs = test.skipIf(subject.absent);
    let stage: Stage;
    let agents: ChildProcess[];
    let mark: string;
    /** What agents are told. */
    let executor: string;
    /** The engine's socket, for somebody else. */
    let relay: SocketRelay;

    beforeEach(async () => {
      stage = await Stage.open();
      agents = [];
      executor = name;
      relay = new SocketRelay(join(dirname(stage.dataDir), "engine.sock"), engine?.socket ?? "");
      mark = `sluice-test-${process.pid}-${Date.now()}`;
    });
    afterEach(async () => {
      for (const agent of agents) await end(agent, "SIGINT", "SIGTERM");
      const left = await containersBelow(engine, stage.dataDir);
      await relay.cut();
      await stage.close();
      await engine?.close();
      expect(left).toEqual([]);
    });

    async function start(as?: (words: readonly string[]) => string[]): Promise<ChildProcess> {
      const words = [process.execPath, AGENT, stage.dataDir, executor];
      const [file = "", ...args] = as ? as(words) : words;
      const env = {
        PATH: process.env.PATH,
        [name === "docker" ? "DOCKER_HOST" : "CONTAINER_HOST"]: as ? relay.path : engine?.host,
        SLUICE_ENDPOINT: stage.gateway.endpoint,
        SLUICE_ACCESS_KEY_ID: KEY.accessKeyId,
        SLUICE_SECRET_ACCESS_KEY: KEY.secretAccessKey,
      };
      const agent = spawn(file, args, { env, stdio: ["ignore", "pipe", "inherit"] });
      agents.push(agent);
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      agent.stdout?.once("data", () => resolve());
      agent.once("exit", (code) => reject(new Error(`the agent ended with ${code}`)));
      await promise;
      return agent;
    }

    async function end(agent: ChildProcess, ...signals: NodeJS.Signals[]): Promise<number | null> {
      if (agent.exitCode !== null || agent.signalCode !== null) return agent.exitCode;
      const { promise, resolve } = Promise.withResolvers<number | null>();
      agent.once("exit", resolve);
      for (const signal of signals) agent.kill(signal);
      return promise;
    }

    async function transform(stdin: string[], image: "busybox" | "user" = "busybox"): Promise<void> {
      stage.gateway.transform = { image: await subject.image(image), cmd: ["sh"], stdin };
    }

    const STUCK = (word: string) =>
      `case $in in */stuck) sh -c 'trap "" TERM; while :; do sleep 0.05; done; : ${word}' ;; *) cat $in > /pfs/out/copy ;; esac`;

    needs(`${name}: datums run, one container for all, and nothing is left`, async () => {
      await transform(["cat $in > /pfs/out/copy; hostname > /pfs/out/host"]);
      stage.gateway.add("a", "b", "c");
      const agent = await start();
      await stage.reported(3);
      const hosts = stage.gateway.outcomes.map((outcome) =>
        outcome.state === "success" ? stage.gateway.outputBytes(outcome, "host")?.toString() : outcome,
      );
      expect(new Set(hosts).size).toBe(1);
      expect(await containersBelow(engine, stage.dataDir)).toHaveLength(1);
      expect(await end(agent, "SIGTERM")).toBe(0);
      expect(await containersBelow(engine, stage.dataDir)).toEqual([]);
      expect(await readdir(join(stage.dataDir, "agents"))).toEqual([]);
    });

    needs(
      `${name}: one that is killed takes its command along, and the next one clears up after it`,
      async () => {
        await transform([STUCK(mark)]);
        stage.gateway.add("stuck");
        const agent = await start();
        await soon(() => stillRuns(mark)).toBe(true);
        await end(agent, "SIGKILL");
        await soon(() => stillRuns(mark)).toBe(false);
        const left = await containersBelow(engine, stage.dataDir);
        expect(left).toHaveLength(1);

        stage.gateway.held.clear();
        stage.gateway.add("a");
        const next = await start();
        await stage.reported(1);
        const now = (await containersBelow(engine, stage.dataDir)).map(({ Id }) => Id);
        expect(now).toHaveLength(1);
        expect(now).not.toContain(left[0]?.Id);
        expect(await readdir(join(stage.dataDir, "agents"))).toEqual([
          expect.stringMatching(`^${next.pid}-`),
        ]);
      },
    );

    needs(`${name}: one that starts leaves alone what is another's that lives`, async () => {
      await transform([STUCK(mark)]);
      stage.gateway.add("stuck");
      const first = await start();
      await soon(() => stillRuns(mark)).toBe(true);
      stage.gateway.add("a");
      await start();
      await stage.reported(1);
      expect(await stillRuns(mark)).toBe(true);
      expect(await end(first, "SIGINT", "SIGTERM")).toBe(0);
    });

    needs(
      `${name}: a lazy input is a pipe in the container, read twice, and unread costs nothing`,
      async () => {
        await transform(["test -p $in && cat $in $in > /pfs/out/copy"]);
        const content = stage.gateway.store("content of a");
        stage.gateway.addDatum({ path: "a", kind: "file", content, lazy: true });
        await start();
        await stage.reported(1);
        const [outcome] = stage.gateway.outcomes;
        if (outcome?.state !== "success") throw new Error(JSON.stringify(outcome));
        expect(stage.gateway.outputBytes(outcome, "copy")?.toString()).toBe("content of acontent of a");
      },
    );

    needs(
      `${name}: an engine that goes away is waited for, also by an agent that chose it itself`,
      async () => {
        await relay.open();
        await transform(["hostname > /pfs/out/host"]);
        stage.gateway.add("a");
        executor = "auto";
        await start((words) => ["env", ...words]);
        await stage.reported(1);
        await relay.cut();
        for (const { Id } of await containersBelow(engine, stage.dataDir)) {
          await engine?.client.getContainer(Id).kill();
        }
        stage.gateway.add("b");
        await soon(() => stage.gateway.troubles.at(-1)).toContain("does not answer");
        expect(stage.gateway.outcomes.filter(({ state }) => state !== "returned")).toHaveLength(1);
        await relay.open();
        await stage.reported(2);
        const last = stage.gateway.outcomes.at(-1);
        if (last?.state !== "success") throw new Error(JSON.stringify(last));
        expect(stage.gateway.outputBytes(last, "host")?.toString()).not.toBe(`${hostname()}\n`);
      },
    );

    const asNobody = test.skipIf(subject.absent || nobody.absent);
    for (const image of ["busybox", "user"] as const) {
      asNobody(
        `${name}, root, setpriv: it works for a user who may only use the socket, image "${image}"${nobody.why}`,
        async () => {
          await relay.open();
          await chown(relay.path, NOBODY, NOBODY);
          await chmod(dirname(stage.dataDir), 0o755);
          await chown(stage.dataDir, NOBODY, NOBODY);
          await transform(
            [
              "cat $in > /pfs/out/copy; echo no > /pfs/in/new && exit 9",
              "umask 077; mkdir -p /pfs/out/d /pfs/out/.h; echo f > /pfs/out/d/f; echo f > /pfs/out/.h/f; chmod 0 /pfs/out/d/f /pfs/out/d",
              "case $in in */stuck) kill -KILL -1; sleep 1000 ;; esac",
              "exit 0",
            ],
            image,
          );
          stage.gateway.add("a", "b");
          const options = [`--reuid=${NOBODY}`, `--regid=${NOBODY}`, "--clear-groups"];
          const agent = await start((words) => withoutPrivileges(options, words));
          await stage.reported(2);
          for (const outcome of stage.gateway.outcomes) {
            if (outcome.state !== "success") throw new Error(JSON.stringify(outcome));
            expect(outcome.outputs.map(({ path }) => path).sort()).toEqual([".h/f", "copy", "d/f"]);
          }
          expect(await end(agent, "SIGTERM")).toBe(0);
          expect(await readdir(join(stage.dataDir, "agents"))).toEqual([]);
        },
      );
    }
  });
}
