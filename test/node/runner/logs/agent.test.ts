import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { findTool } from "../../../../runner/lib/system-calls.ts";
import { REST } from "../../../support/suite.ts";
import { KEY } from "../support/fake-gateway.ts";
import { Stage, soon } from "../support/running.ts";

const absent = (await findTool("bwrap")) === undefined && (await findTool("setpriv")) === undefined;
const needs = test.skipIf(absent);
const AGENT = join(import.meta.dirname, "../support/agent-process.ts");

let stage: Stage;
beforeEach(async () => {
  stage = await Stage.open();
});
afterEach(async () => {
  await stage.close();
});

function sh(script: string): void {
  const env = { GATE: stage.gate };
  stage.gateway.transform = { image: "any", cmd: ["sh"], stdin: script.split("\n"), env };
}

const texts = () => stage.gateway.lines.map(({ text }) => text);
const WAIT = 'while [ ! -e "$GATE" ]; do sleep 0.02; done';

describe("an agent's logs (bubblewrap or unshare)", () => {
  needs("come while the command runs, the rest before its outcome", async () => {
    sh(`echo one; printf 'no newline'; ${WAIT}; echo; printf '\\377\\r\\nlast' >&2; exit 3`);
    stage.gateway.add("a");
    await stage.runner();
    await soon(texts).toEqual(["one", "no newline"]);
    expect(stage.gateway.outcomes).toEqual([]);
    let atFinish: string[] = [];
    stage.gateway.before = ({ path }) => {
      if (path.endsWith("/finish")) atFinish = texts();
    };
    await writeFile(stage.gate, "");
    await stage.reported(1);
    expect(atFinish).toEqual(["one", "no newline", "\ufffd", "last"]);
    expect(stage.gateway.outcomes).toMatchObject([{ state: "failed", exitCode: 3 }]);
    const times = stage.gateway.lines.map(({ at }) => at);
    expect(times).toEqual([...times].sort((a, b) => a - b));
  });

  needs("of many short datums all come", REST, async () => {
    sh("echo printed by $in");
    const names = Array.from({ length: 200 }, (_, index) => `f${index}`);
    stage.gateway.add(...names);
    await stage.runner();
    await stage.reported(200);
    expect(texts().sort()).toEqual(names.map((name) => `printed by /pfs/in/${name}`).sort());
  });

  needs("arrive after the gateway was away", REST, async () => {
    sh(`echo before; ${WAIT}; echo after`);
    stage.gateway.add("a");
    await stage.runner();
    await soon(texts).toEqual(["before"]);
    await stage.gateway.stop();
    await writeFile(stage.gate, "");
    await stage.gateway.start();
    await stage.reported(1);
    expect(texts()).toEqual(["before", "after"]);
  });

  needs("stop with a lease that was lost", REST, async () => {
    sh("case $in in */lost) while :; do echo noise; sleep 0.05; done ;; *) echo fine ;; esac");
    stage.gateway.add("lost");
    await stage.runner();
    await soon(texts).toContain("noise");
    stage.gateway.lose(...stage.gateway.held.keys());
    await soon(() => stage.gateway.requests).toContain("POST /api/v1/runner/renew");
    stage.gateway.add("next");
    await stage.reported(1);
    expect(texts().at(-1)).toBe("fine");
  });

  needs(
    "of a command that prints without end cost the agent no memory, and end as it does",
    REST,
    async () => {
      sh("case $in in */loud) yes | head -c 200000000; echo the cause >&2; exit 1 ;; *) echo quiet ;; esac");
      stage.gateway.add(...Array.from({ length: 20 }, (_, index) => `quiet-${index}`));
      const agent = await start();
      try {
        await stage.reported(20);
        const before = memoryMiB(agent, "VmRSS");
        stage.gateway.add("loud");
        await stage.reported(21);
        expect(memoryMiB(agent, "VmHWM") - before).toBeLessThan(64);
      } finally {
        agent.kill("SIGTERM");
        await once(agent, "exit");
      }
      const loud = stage.gateway.lines.filter(({ text }) => text !== "quiet");
      expect(loud.at(-1)?.text).toBe("the cause");
      expect(loud.length).toBeLessThan(100_000);
      const dropped = loud.reduce((sum, line) => sum + line.dropped, 0);
      expect(dropped + loud.length).toBe(100_000_001);
    },
  );
});

/** An agent as a process of its own, so that its memory can be told from that of the test. */
async function start(): Promise<ChildProcess> {
  const env = {
    PATH: process.env.PATH,
    SLUICE_ENDPOINT: stage.gateway.endpoint,
    SLUICE_ACCESS_KEY_ID: KEY.accessKeyId,
    SLUICE_SECRET_ACCESS_KEY: KEY.secretAccessKey,
  };
  const args = [AGENT, stage.dataDir, "n1"];
  const agent = spawn(process.execPath, args, { env, stdio: ["ignore", "pipe", "inherit"] });
  await once(agent.stdout, "data");
  return agent;
}

/** Now, or the most it ever was. */
function memoryMiB({ pid }: ChildProcess, which: "VmRSS" | "VmHWM"): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(new RegExp(`^${which}:\\s+([0-9]+) kB`, "m").exec(status)?.[1]) / 1024;
}
