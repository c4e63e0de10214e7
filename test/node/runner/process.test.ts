import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, chown, mkdir, readdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { findTool } from "../../../runner/lib/system-calls.ts";
import { REST } from "../../support/suite.ts";
import { KEY } from "./support/fake-gateway.ts";
import { nobody, withoutPrivileges } from "./support/nobody.ts";
import { stillRuns } from "./support/processes.ts";
import { Stage, soon } from "./support/running.ts";

const AGENT = join(import.meta.dirname, "support/agent-process.ts");
const NOBODY = 65534;
const setpriv = await findTool("setpriv");
const absent = (await findTool("bwrap")) === undefined && setpriv === undefined;
const needs = test.skipIf(absent);

let stage: Stage;
let agents: ChildProcess[];
let mark: string;

beforeEach(async () => {
  stage = await Stage.open();
  agents = [];
  mark = `sluice-test-${process.pid}-${Date.now()}`;
});
afterEach(async () => {
  for (const agent of agents) await end(agent, "SIGKILL");
  await soon(() => stillRuns(mark)).toBe(false);
  await stage.close();
});

function start(...wrapper: string[]): Promise<ChildProcess> {
  return startBy([...wrapper, process.execPath, AGENT, stage.dataDir, "n1"]);
}

function startAsNobody(): Promise<ChildProcess> {
  const options = [`--reuid=${NOBODY}`, `--regid=${NOBODY}`, "--clear-groups"];
  return startBy(withoutPrivileges(options, [process.execPath, AGENT, stage.dataDir, "n1"]));
}

async function startBy([file = "", ...args]: readonly string[]): Promise<ChildProcess> {
  const env = {
    PATH: process.env.PATH,
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

async function end(agent: ChildProcess, signal: NodeJS.Signals): Promise<number | null> {
  if (agent.exitCode !== null || agent.signalCode !== null) return agent.exitCode;
  const { promise, resolve } = Promise.withResolvers<number | null>();
  agent.once("exit", resolve);
  agent.kill(signal);
  return promise;
}

/** A command that ignores what can be ignored and leaves more of its kind in the background. */
function stubborn(): void {
  const loop = `sh -c 'trap "" TERM INT HUP; while :; do sleep 0.05; done; : ${mark}'`;
  const stdin = [`case $in in */stuck) setsid ${loop} & ${loop} ;; *) cat $in > /pfs/out/copy ;; esac`];
  stage.gateway.transform = { image: "any", cmd: ["sh"], stdin };
}

describe("an agent's process (bubblewrap or unshare)", () => {
  needs(
    "killed -9 in the middle of a datum, leaves no process, and the next one starts clean",
    REST,
    async () => {
      stubborn();
      stage.gateway.add("stuck");
      const agent = await start();
      await soon(() => stillRuns(mark)).toBe(true);
      await end(agent, "SIGKILL");
      await soon(() => stillRuns(mark)).toBe(false);
      expect(await readdir(join(stage.dataDir, "agents"))).toHaveLength(1);

      stage.gateway.held.clear();
      stage.gateway.add("a", "b");
      const next = await start();
      await stage.reported(2);
      expect(await readdir(join(stage.dataDir, "agents"))).toEqual([expect.stringMatching(`^${next.pid}-`)]);
      expect(await end(next, "SIGTERM")).toBe(0);
      expect(await readdir(join(stage.dataDir, "agents"))).toEqual([]);
    },
  );

  needs("ends what a dead agent's folder is named by, when it starts", REST, async () => {
    const folder = join(stage.dataDir, "agents", "1-0-dead");
    await mkdir(folder, { recursive: true });
    const stray = spawn("sh", ["-c", "while :; do sleep 0.05; done", join(folder, "worker-1/datum-1")]);
    agents.push(stray);
    const ended = once(stray, "exit");
    await start();
    expect(await ended).toEqual([null, "SIGKILL"]);
    expect(await readdir(join(stage.dataDir, "agents"))).not.toContain("1-0-dead");
  });

  needs("leaves the folders of an agent that lives alone", REST, async () => {
    stubborn();
    stage.gateway.add("stuck");
    const first = await start();
    await soon(() => stillRuns(mark)).toBe(true);
    stage.gateway.add("a");
    await start();
    await stage.reported(1);
    expect(await readdir(join(stage.dataDir, "agents"))).toHaveLength(2);
    expect(await stillRuns(mark)).toBe(true);
    first.kill("SIGINT");
    expect(await end(first, "SIGTERM")).toBe(0);
  });

  needs("the first signal drains, the second stops the command and gives the datum back", async () => {
    stubborn();
    stage.gateway.add("stuck");
    const agent = await start();
    await soon(() => stillRuns(mark)).toBe(true);
    agent.kill("SIGINT");
    await soon(() => stage.gateway.requests).toContain("DELETE /api/v1/runner/heartbeat");
    expect(await stillRuns(mark)).toBe(true);
    expect(await end(agent, "SIGINT")).toBe(0);
    expect(await stillRuns(mark)).toBe(false);
    expect(stage.gateway.outcomes).toMatchObject([{ state: "returned" }]);
  });

  const asNobody = test.skipIf(absent || nobody.absent);
  asNobody(`root, setpriv: it works for a user without privileges${nobody.why}`, async () => {
    await chmod(dirname(stage.dataDir), 0o755);
    await chown(stage.dataDir, NOBODY, NOBODY);
    stage.gateway.transform = {
      image: "any",
      cmd: ["sh"],
      stdin: [
        "id -u > /pfs/out/user",
        "! touch /pfs/in/new && ! chmod 777 $in && cat $in > /pfs/out/copy",
        "mkdir /pfs/out/d && touch /pfs/out/d/f && chmod 0 /pfs/out/d/f /pfs/out/d",
      ],
    };
    stage.gateway.add("a");
    const agent = await startAsNobody();
    await stage.reported(1);
    const [outcome] = stage.gateway.outcomes;
    if (outcome?.state !== "success") throw new Error(JSON.stringify(outcome));
    expect(stage.gateway.outputBytes(outcome, "user")?.toString()).toBe(`${NOBODY}\n`);
    expect(stage.gateway.outputBytes(outcome, "copy")?.toString()).toBe("content of a");
    expect(outcome.outputs.map(({ path }) => path).sort()).toEqual(["copy", "d/f", "user"]);
    expect(await end(agent, "SIGTERM")).toBe(0);
    expect(await readdir(join(stage.dataDir, "agents"))).toEqual([]);
  });

  const asRoot = test.skipIf(absent || setpriv === undefined || process.getuid?.() !== 0);
  asRoot("root, setpriv: it refuses to start where no tool works, and says what to install", async () => {
    // In a user namespace that allows no further ones, without capabilities.
    const script =
      'echo 0 > /proc/sys/user/max_user_namespaces; exec setpriv --bounding-set=-all --inh-caps=-all "$@"';
    const args = [
      "--user",
      "--map-root-user",
      "sh",
      "-c",
      script,
      "sh",
      process.execPath,
      AGENT,
      stage.dataDir,
    ];
    const env = { PATH: process.env.PATH, SLUICE_ACCESS_KEY_ID: "a", SLUICE_SECRET_ACCESS_KEY: "b" };
    const agent = spawn("unshare", args, { env, stdio: ["ignore", "ignore", "pipe"] });
    agents.push(agent);
    const [said, [code]] = await Promise.all([text(agent.stderr), once(agent, "exit")]);
    expect(code).not.toBe(0);
    for (const word of ["bubblewrap: ", "unshare: ", "apt-get install", "dnf install", "apk add"]) {
      expect(said).toContain(word);
    }
    expect(await readdir(join(stage.dataDir, "agents"))).toEqual([]);
  });
});
